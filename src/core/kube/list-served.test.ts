import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { KubeObject, KubeResponse } from './kube-client.ts';
import { KubeStatusError } from './kube-errors.ts';
import { listServed } from './list-served.ts';

const path = '/apis/example.org/v1/things';
const answer = (status: number, body: unknown = {}): KubeResponse => ({
  status,
  headers: {},
  body: Buffer.from(JSON.stringify(body)),
});

/** A cluster that answers a list with `status`, and `/apis/example.org/v1` with `discovery`. */
function clusterWith(status: number, discovery = answer(404)) {
  const asked: string[] = [];
  const list = <T extends KubeObject>(): Promise<readonly T[]> =>
    status === 200
      ? Promise.resolve([{ kind: 'Thing' } as unknown as T])
      : Promise.reject(new KubeStatusError('north', `list ${path}`, answer(status)));
  const request = async ({ path: wanted }: { path: string }): Promise<KubeResponse> => {
    asked.push(wanted);
    return discovery;
  };
  return { client: { list, request }, asked };
}

suite('a collection that a cluster may not serve', () => {
  test('has its objects where it is served', async () => {
    const { client, asked } = clusterWith(200);
    const { items, forbidden } = await listServed(client, path);
    assert.deepEqual([items.length, forbidden], [1, undefined]);
    assert.deepEqual(asked, []);
  });

  test('has none where it is not served, also if RBAC refuses first', async () => {
    const others = answer(200, { resources: [{ name: 'things/status' }, { name: 'others' }] });
    for (const { client } of [clusterWith(404), clusterWith(403), clusterWith(403, others)]) {
      assert.deepEqual(await listServed(client, path), { items: [], forbidden: undefined });
    }
  });

  test('has perhaps some where the caller lacks the right to see them', async () => {
    const served = answer(200, { resources: [{ name: 'things' }] });
    for (const discovery of [served, answer(403), answer(200, { resources: 'x' })]) {
      const { client, asked } = clusterWith(403, discovery);
      const { items, forbidden } = await listServed(client, path);
      assert.deepEqual([items, forbidden?.status], [[], 403]);
      assert.deepEqual(asked, ['/apis/example.org/v1']);
    }
  });

  test('is not known after any other failure', async () => {
    await assert.rejects(listServed(clusterWith(500).client, path), KubeStatusError);
  });
});

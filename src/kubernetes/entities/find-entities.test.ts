import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { epochAnnotation } from '../names.ts';
import { allEntities } from './compile-external-entities.ts';
import { findEntities } from './find-entities.ts';

const answer = (status: number, body: object = {}) => ({
  status,
  headers: {},
  body: Buffer.from(JSON.stringify(body)),
});
/** Of a cluster that does not serve them. */
const request = async () => answer(404);

const failing = (status: number) => (): Promise<never> =>
  Promise.reject(
    new KubeStatusError('north', 'list', { status, headers: {}, body: Buffer.alloc(0) }),
  );

test('ExternalEntities of sites are found, and those of users stay', async () => {
  const entities = [
    { metadata: { name: 'ours', annotations: { [epochAnnotation]: '3' } } },
    { metadata: { name: 'theirs', annotations: { other: '3' } } },
    { metadata: { name: 'bare' } },
  ];
  const list = async <T extends KubeObject>(path: string): Promise<readonly T[]> =>
    (path === allEntities ? entities : []) as unknown as readonly T[];
  assert.deepEqual(
    (await findEntities({ list, request })).items.map(({ metadata }) => metadata.name),
    ['ours'],
  );
});

test('a cluster without Antrea has none, and one that shows none has perhaps some', async () => {
  for (const status of [403, 404]) {
    const { items, forbidden } = await findEntities({ list: failing(status), request });
    assert.deepEqual([items, forbidden], [[], undefined]);
  }
  const served = async () => answer(200, { resources: [{ name: 'externalentities' }] });
  const found = await findEntities({ list: failing(403), request: served });
  assert.deepEqual([found.items, found.forbidden?.status], [[], 403]);
  await assert.rejects(findEntities({ list: failing(500), request }), KubeStatusError);
});

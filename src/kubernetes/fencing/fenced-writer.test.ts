import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KubeClient, KubeWriteOptions } from '../../core/kube/kube-client.ts';
import { deletingAnnotation, epochAnnotation } from '../names.ts';
import { epochOf, FencedWriter, type Written } from './fenced-writer.ts';
import { termOf } from './test-term.ts';

const path = '/api/v1/namespaces/a/services/b';

const object = (annotations: Record<string, string>, resourceVersion = '5'): Written => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'b', namespace: 'a', uid: 'u', resourceVersion, annotations },
});

interface Guard {
  readonly beforeSend: () => void;
}

/** Records requests, and answers a replacement with the next version. */
function recorder() {
  const calls: unknown[] = [];
  const client = {
    create: async (at: string, body: Written, { beforeSend }: Guard) => {
      beforeSend();
      calls.push(['create', at, body.metadata.annotations]);
      return body;
    },
    replace: async (at: string, body: Written, { beforeSend }: Guard) => {
      beforeSend();
      const { uid, resourceVersion, annotations } = body.metadata;
      calls.push(['replace', at, uid, resourceVersion, annotations]);
      return { ...body, metadata: { ...body.metadata, resourceVersion: '6' } };
    },
    delete: async (at: string, preconditions: unknown, { beforeSend }: Guard) => {
      beforeSend();
      calls.push(['delete', at, preconditions]);
    },
  } as unknown as KubeClient;
  return { calls, client };
}

describe('a fenced writer', () => {
  test('writes its epoch, and replaces only the version that was read', async () => {
    const { calls, client } = recorder();
    const writer = new FencedWriter(client, termOf(7));
    await writer.create('/api/v1/namespaces/a/services', object({ x: 'y' }));
    await writer.replace(path, object({}, ''), object({ [epochAnnotation]: '6' }));
    assert.deepEqual(calls, [
      ['create', '/api/v1/namespaces/a/services', { x: 'y', [epochAnnotation]: '7' }],
      ['replace', path, 'u', '5', { [epochAnnotation]: '7' }],
    ]);
  });

  test('says its epoch as field manager where it writes a status', async () => {
    const managers: unknown[] = [];
    const client = {
      replace: async (at: string, body: Written, { fieldManager }: KubeWriteOptions) => {
        managers.push([at, fieldManager, body.metadata.annotations]);
        return body;
      },
    } as unknown as KubeClient;
    await new FencedWriter(client, termOf(7)).replaceStatus(path, object({ x: 'y' }));
    assert.deepEqual(managers, [[`${path}/status`, 'hansa-term-7', { x: 'y' }]]);
  });

  test('marks what it deletes, and deletes the marked version only', async () => {
    const { calls, client } = recorder();
    await new FencedWriter(client, termOf(7)).remove(path, object({ [epochAnnotation]: '7' }));
    const marks = { [epochAnnotation]: '7', [deletingAnnotation]: '7' };
    assert.deepEqual(calls, [
      ['replace', path, 'u', '5', marks],
      ['delete', path, { uid: 'u', resourceVersion: '6' }],
    ]);
  });

  test('does not mark again what it marked in this term', async () => {
    const { calls, client } = recorder();
    const marked = object({ [epochAnnotation]: '7', [deletingAnnotation]: '7' });
    await new FencedWriter(client, termOf(7)).remove(path, marked);
    assert.deepEqual(calls, [['delete', path, { uid: 'u', resourceVersion: '5' }]]);
  });

  test('touches nothing that a later term wrote', async () => {
    const { calls, client } = recorder();
    const writer = new FencedWriter(client, termOf(7));
    const later = object({ [epochAnnotation]: '8' });
    const fenced = { code: 'HANSA_FENCED', message: /term 8.*term 7/ };
    await assert.rejects(writer.replace(path, object({}), later), fenced);
    await assert.rejects(writer.remove(path, later), fenced);
    assert.deepEqual(calls, []);
  });
});

describe('a term that ended', () => {
  const own = object({ [epochAnnotation]: '7' });
  const over = { code: 'HANSA_FENCED', message: /term 7 is over/ };
  /** The first `asks` questions get a yes. */
  const lasting = (asks: number) => ({ epoch: 7, mayWrite: () => asks-- > 0 });

  test('sends no write of any kind', async () => {
    const { calls, client } = recorder();
    const writer = new FencedWriter(client, lasting(0));
    await assert.rejects(writer.create('/api/v1/namespaces/a/services', own), over);
    await assert.rejects(writer.replace(path, own, own), over);
    await assert.rejects(writer.replaceStatus(path, own), over);
    await assert.rejects(writer.remove(path, own), over);
    assert.deepEqual(calls, []);
  });

  test('does not delete what it marked before it ended', async () => {
    const { calls, client } = recorder();
    await assert.rejects(new FencedWriter(client, lasting(2)).remove(path, own), over);
    assert.deepEqual(
      calls.map((call) => (call as unknown[])[0]),
      ['replace'],
    );
  });

  test('lets no write out that waits in the client', async () => {
    const { calls, client } = recorder();
    for (const write of [
      (writer: FencedWriter) => writer.create('/api/v1/namespaces/a/services', own),
      (writer: FencedWriter) => writer.replace(path, own, own),
      (writer: FencedWriter) => writer.replaceStatus(path, own),
      (writer: FencedWriter) => writer.remove(path, own),
    ]) {
      await assert.rejects(write(new FencedWriter(client, lasting(1))), over);
    }
    assert.deepEqual(calls, []);
  });
});

test('an epoch is a positive decimal number, and anything else counts as none', () => {
  const of = (text: string): number => epochOf({ annotations: { [epochAnnotation]: text } });
  assert.deepEqual(['1', '42', '999999999999999'].map(of), [1, 42, 999_999_999_999_999]);
  const bad = ['', '0', '-1', '01', '1.5', '1e3', ' 1', '9999999999999999', 'x'];
  assert.deepEqual(
    bad.map(of),
    bad.map(() => 0),
  );
  assert.equal(epochOf({}), 0);
});

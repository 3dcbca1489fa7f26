import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JointReads } from './joint-reads.ts';

type Answer = PromiseWithResolvers<string>;

/** Requests that wait for their answers, in order. */
function server(): { readonly sent: Answer[]; readonly request: () => Promise<string> } {
  const sent: Answer[] = [];
  const request = (): Promise<string> => {
    const answer = Promise.withResolvers<string>();
    sent.push(answer);
    return answer.promise;
  };
  return { sent, request };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('who asks while a request is under way shares the next one', async () => {
  const reads = new JointReads();
  const { sent, request } = server();
  const first = reads.read('crd', request);
  const later = [reads.read('crd', request), reads.read('crd', request)];
  await settled();
  assert.equal(sent.length, 1);
  sent[0]?.resolve('before');
  assert.equal(await first, 'before');
  await settled();
  assert.equal(sent.length, 2);
  const last = reads.read('crd', request);
  sent[1]?.resolve('after');
  assert.deepEqual(await Promise.all(later), ['after', 'after']);
  await settled();
  assert.equal(sent.length, 3);
  sent[2]?.resolve('last');
  assert.equal(await last, 'last');
});

test('an answer is not kept', async () => {
  const reads = new JointReads();
  const { sent, request } = server();
  for (const answer of ['one', 'two']) {
    const read = reads.read('crd', request);
    sent.at(-1)?.resolve(answer);
    assert.equal(await read, answer);
    await settled();
  }
  assert.equal(sent.length, 2);
});

test('a failure is only for those who waited for that request', async () => {
  const reads = new JointReads();
  const { sent, request } = server();
  const first = reads.read('crd', request);
  const next = reads.read('crd', request);
  sent[0]?.reject(new Error('no answer'));
  await assert.rejects(first, /no answer/);
  await settled();
  sent[1]?.resolve('served');
  assert.equal(await next, 'served');
  const failed = [reads.read('crd', request), reads.read('crd', request)];
  await settled();
  sent[2]?.resolve('served');
  await settled();
  sent[3]?.reject(new Error('again'));
  assert.equal(await failed[0], 'served');
  await assert.rejects(failed[1] as Promise<string>, /again/);
});

test('other requests do not wait', async () => {
  const reads = new JointReads();
  const { sent, request } = server();
  void reads.read('shop', request);
  const other = reads.read('bank', request);
  sent[1]?.resolve('open');
  assert.equal(await other, 'open');
  sent[0]?.resolve('open');
});

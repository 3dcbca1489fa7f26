// Which requests a leader sends for a policy, and what it relies on instead of others.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { MemoryCluster } from '../league/test-memory-league.ts';
import { contents, policy, policyLeague } from './test-policy-league.ts';

const started = async () => {
  const league = await policyLeague();
  await league.lead();
  const [a, b] = ['a', 'b'].map((id) => league.cluster(id));
  assert.ok(a !== undefined && b !== undefined);
  await a.apply('networkpolicies', policy('v1'));
  await league.settle();
  return { league, a, b };
};

/** The policies that a site reads one by one in this cluster, from now on. */
function readsOf({ kube }: MemoryCluster): readonly string[] {
  const read: string[] = [];
  const handle = kube.handle.bind(kube);
  kube.handle = (call) => {
    const isRead = call.method === 'GET' && call.user.startsWith('site:');
    if (isRead && call.path.includes('/networkpolicies/')) read.push(call.path);
    return handle(call);
  };
  return read;
}

const everywhere = (content: string) => [content, content, content];

suite('a policy that another member edited', () => {
  test('is written without reading it again, with its finalizers and its status', async () => {
    const { league, a, b } = await started();
    const finalizers = ['example.com/check'];
    await b.patch('networkpolicies', 'shop/deny', { metadata: { finalizers } });
    await b.patch('networkpolicies', 'shop/deny', { status: { phase: 'Realized' } });
    await league.settle();
    const read = readsOf(b);
    await a.apply('networkpolicies', policy('v2'));
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v2'));
    const found = b.find<{ readonly status?: unknown }>('networkpolicies', 'shop/deny');
    const metadata = found?.metadata as { readonly finalizers?: unknown } | undefined;
    assert.deepEqual(metadata?.finalizers, finalizers);
    assert.deepEqual(found?.status, { phase: 'Realized' });
    assert.deepEqual(read, []);
  });

  test('is read before it is written if a tool added more than is kept in memory', async () => {
    const { league, a, b } = await started();
    const applied = 'x'.repeat(2000);
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': applied };
    await b.patch('networkpolicies', 'shop/deny', { metadata: { annotations } });
    await league.settle();
    const read = readsOf(b);
    await a.apply('networkpolicies', policy('v2'));
    await league.settle();
    assert.deepEqual(contents(league), everywhere('v2'));
    const metadata = b.find('networkpolicies', 'shop/deny')?.metadata;
    assert.equal(
      metadata?.annotations?.['kubectl.kubernetes.io/last-applied-configuration'],
      applied,
    );
    assert.equal(read.length, 1);
  });

  test('is not overwritten where a user changed it right before the write', async () => {
    const { league, a, b } = await started();
    const handle = b.kube.handle.bind(b.kube);
    const statuses: number[] = [];
    b.kube.handle = (call) => {
      const isWrite = call.method === 'PUT' && call.path.endsWith('/networkpolicies/deny');
      if (!isWrite || !call.user.startsWith('site:')) return handle(call);
      // The watch has not told the site of this edit.
      if (statuses.length === 0) {
        const query = { fieldManager: 'kubectl' };
        assert.equal(handle({ ...call, query, body: policy('mine'), user: 'admin' }).status, 200);
      }
      const answer = handle(call);
      statuses.push(answer.status);
      return answer;
    };
    await a.apply('networkpolicies', policy('v2'));
    await league.settle();
    assert.equal(statuses[0], 409);
    assert.deepEqual(contents(league), everywhere('mine'));
  });
});

test('a change that must wait for others is read once, after it has waited', async () => {
  const many = 100;
  const league = await policyLeague();
  // Each request takes some time, so that most changes must wait.
  await league.supervise('lubeck.example', { delayMs: () => 5 });
  await league.settle(30_000);
  const a = league.cluster('a');
  const read = readsOf(a);
  for (let at = 0; at < many; at++) await a.apply('networkpolicies', policy('v1', `flood-${at}`));
  await league.settle(60_000);
  assert.equal(new Set(read).size, many);
  assert.equal(read.length, many);
});

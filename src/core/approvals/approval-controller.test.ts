import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { hasCode } from '../errors/error.ts';
import { silentLog } from '../log/test-log.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import { approvalController, observeApprovals } from './approval-controller.ts';
import { approvalTtlMs, putApproval } from './approval-object.ts';
import { Approvers } from './approvers.ts';
import { ada, ci, confirmBruges, openApprovals } from './test-approvals.ts';

async function scene() {
  const opened = await openApprovals();
  const { store, clock, random, authorizer, act } = opened;
  const verbs: string[] = [];
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit: () => [],
    auditRow: ({ transition }) => {
      if (transition?.verb !== undefined) verbs.push(transition.verb);
      return undefined;
    },
  });
  const client = resourceClient<Approval>(approvalKind, { store, writer, clock });
  const controller = approvalController({ store, clock, authorizer, client });
  const reconcile = (name: string) =>
    controller.reconcile(name, {
      signal: new AbortController().signal,
      epoch: undefined,
      log: silentLog,
    });
  const request = async () => {
    await assert.rejects(act(ci), (error) => hasCode(error, 'HANSA_APPROVAL_REQUIRED'));
    return opened.approvals().at(-1)?.metadata.name ?? '';
  };
  const stateOf = (name: string) =>
    opened.approvals().find(({ metadata }) => metadata.name === name)?.status?.state;
  return { ...opened, verbs, reconcile, request, stateOf, sources: controller.sources };
}

test('an Approval that nobody decided is rejected after four hours, and deleted a week later', async () => {
  const { clock, request, reconcile, stateOf, verbs } = await scene();
  const name = await request();
  assert.deepEqual(await reconcile(name), { requeueAfterMs: approvalTtlMs });
  assert.equal(stateOf(name), 'pending');
  await clock.advance(approvalTtlMs);
  await reconcile(name);
  assert.equal(stateOf(name), 'rejected');
  assert.deepEqual(verbs, ['approval.expired']);
  await clock.advance(7 * 24 * 3_600_000 - approvalTtlMs - 1000);
  assert.deepEqual(await reconcile(name), { requeueAfterMs: 1000 });
  await clock.advance(1000);
  await reconcile(name);
  assert.equal(stateOf(name), undefined);
});

test('an Approval that nobody used expires', async () => {
  const { clock, request, reconcile, decide, stateOf, verbs } = await scene();
  const name = await request();
  await decide(ada, name, 'approved');
  await clock.advance(approvalTtlMs);
  await reconcile(name);
  assert.equal(stateOf(name), 'expired');
  assert.deepEqual(verbs, ['approval.expired']);
});

test('an approved Approval expires when its approver is revoked, expires, or loses the role', async () => {
  const { clock, request, reconcile, decide, stateOf, approvals, putToken, revoke } = await scene();
  const causes = [
    () => revoke('access.tokens', 'ada'),
    () => clock.advance(3_600_000),
    () => revoke('rolebindings', 'approvers'),
  ];
  for (const cause of causes) {
    await putToken('ada', 'ada-1', clock.now() + 3_600_000);
    const name = await request();
    await decide(ada, name, 'approved');
    assert.deepEqual(await reconcile(name), { requeueAfterMs: 3_600_000 });
    assert.equal(stateOf(name), 'approved');
    await cause();
    await reconcile(name);
    assert.equal(stateOf(name), 'expired');
    const ended = approvals().find(({ metadata }) => metadata.name === name);
    assert.match(ended?.status?.reason ?? '', /^token:ada approved it, and .*(revoked|any more)/);
  }
});

test('an Approval that was changed in the store ends, is audited and says why', async () => {
  const { store, request, reconcile, decide, stateOf, approvals, verbs } = await scene();
  const change = (name: string) => {
    const found = approvals().find(({ metadata }) => metadata.name === name) ?? assert.fail();
    const spec = { ...found.spec, change: '{"fingerprint":"cd"}' };
    return store.commit({ put: [putApproval({ ...found, spec })] });
  };
  const pending = await request();
  await change(pending);
  // The next request does not wait for an Approval that nobody can give.
  const approved = await request();
  assert.notEqual(approved, pending);
  await decide(ada, approved, 'approved');
  assert.deepEqual(await reconcile(approved), { requeueAfterMs: approvalTtlMs });
  await change(approved);
  for (const [name, state] of [
    [pending, 'rejected'],
    [approved, 'expired'],
  ] as const) {
    await reconcile(name);
    assert.equal(stateOf(name), state);
    const found = approvals().find(({ metadata }) => metadata.name === name);
    assert.match(found?.status?.reason ?? '', /changed in the store after it was requested/);
  }
  assert.deepEqual(verbs, ['approval.expired', 'approval.expired']);
});

test('a review that was changed in the store stays, and nobody can decide it', async () => {
  const { store, gate, decide, reconcile, stateOf, approvals } = await scene();
  await gate.review(confirmBruges, { caller: ci, origin: {} });
  const [review] = approvals();
  assert.ok(review !== undefined);
  const spec = { ...review.spec, change: '{"emergency":"none"}' };
  await store.commit({ put: [putApproval({ ...review, spec })] });
  const { name } = review.metadata;
  await reconcile(name);
  assert.equal(stateOf(name), 'pending');
  await assert.rejects(decide(ada, name, 'approved'), /hash does not match its content/);
});

test('a change of tokens, bindings and roles looks at approved Approvals again', async () => {
  const { request, decide, sources, putToken, bind, role } = await scene();
  await request();
  const name = await request();
  await decide(ada, name, 'approved');
  const added: string[] = [];
  const sink = { add: (key: string) => void added.push(key), ended: () => undefined };
  const running = sources.map((source) => source.start(sink));
  const subjects = [{ kind: 'Token' as const, name: 'cd' }];
  for (const change of [
    () => putToken('cd', '1'),
    () => bind('cd', { role: 'viewer', subjects }),
    () => role('pilots', []),
  ]) {
    added.length = 0;
    await change();
    assert.deepEqual(added, [name]);
  }
  for (const source of running) source.stop();
});

test('a decided review stays visible for a week after its decision', async () => {
  const { clock, gate, decide, reconcile, stateOf } = await scene();
  const review = await gate.review(confirmBruges, { caller: ci, origin: {} });
  const name = review?.metadata.name ?? '';
  await clock.advance(20 * 24 * 3_600_000);
  await decide(ada, name, 'approved');
  assert.deepEqual(await reconcile(name), { requeueAfterMs: 7 * 24 * 3_600_000 });
  assert.equal(stateOf(name), 'approved');
});

test('a spent Approval and a decided review stay as they are', async () => {
  const { clock, request, reconcile, decide, stateOf, act, gate, verbs } = await scene();
  const name = await request();
  await decide(ada, name, 'approved');
  await act(ci);
  const review = await gate.review(confirmBruges, { caller: ci, origin: {} });
  const reviewed = review?.metadata.name ?? '';
  await decide(ada, reviewed, 'approved');
  await clock.advance(approvalTtlMs);
  await reconcile(name);
  await reconcile(reviewed);
  assert.deepEqual([stateOf(name), stateOf(reviewed)], ['spent', 'approved']);
  assert.deepEqual(verbs, []);
});

test('metrics show Approvals by state, the longest wait, and the tokens that can approve', async () => {
  const { clock, request, store, authorizer, tokens, gate } = await scene();
  const metrics = new MetricsRegistry();
  const approvers = new Approvers({ clock, authorizer, tokens, gate });
  observeApprovals(metrics, store, clock, approvers);
  await request();
  await clock.advance(60_000);
  const text = metrics.expose();
  assert.match(text, /hansa_approvals\{state="pending"\} 1/);
  assert.match(text, /hansa_approvals\{state="spent"\} 0/);
  assert.match(text, /hansa_approvals_oldest_pending_seconds 60/);
  assert.match(text, /hansa_approver_tokens 2/);
});

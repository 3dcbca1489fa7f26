import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { approvalKind } from '../../api/kinds/approval.ts';
import { pruneObject, type Untyped, validateObject } from '../../api/resource-schema.ts';
import {
  type Caller,
  clusterCaller,
  controllerCaller,
  personCaller,
  tokenCaller,
} from '../access/identity.ts';
import { hasCode } from '../errors/error.ts';
import { approvalTtlMs, expectedAt, maxChangeLength, putApproval } from './approval-object.ts';
import { maxPendingOfUser, maxReviewsOfUser } from './approval-room.ts';
import { ada, bob, ci, confirmBruges, openApprovals, owner } from './test-approvals.ts';

/** The name of the Approval in the error. */
async function refusal(attempt: Promise<unknown>): Promise<string> {
  try {
    await attempt;
  } catch (error) {
    if (!hasCode(error, 'HANSA_APPROVAL_REQUIRED')) throw error;
    const name = error.details?.name ?? '';
    assert.ok(error.message.includes(name));
    return name;
  }
  throw new assert.AssertionError({ message: 'the action was allowed' });
}

suite('the gate', () => {
  test('lets through what needs no approval, approvers in the mode approver, and controllers', async () => {
    const { act, approvals, setPolicy } = await openApprovals();
    await act(ada);
    await act(owner);
    await act(controllerCaller('peering'));
    await setPolicy({ 'peer.confirm': 'none' });
    await act(ci);
    assert.deepEqual(approvals(), []);
  });

  test('asks callers that cannot approve, also where their role allows everything', async () => {
    const { act, bind, authorizer } = await openApprovals();
    const cluster = clusterCaller('kontor');
    await bind('kontor', { role: 'admin', subjects: [{ kind: 'User', name: cluster.user }] });
    const asked = { verb: 'approve', plural: 'approvals' };
    assert.ok(authorizer.authorize(cluster, asked).allowed);
    await refusal(act(cluster));
  });

  test('requests an approval, and spends it once in the commit of the action', async () => {
    const { act, decide, approvals, store, events } = await openApprovals();
    const name = await refusal(act(ci));
    assert.match(name, /^peer-confirm-[0-9a-f]{12}$/);
    assert.equal(store.get('test.done', 'done'), undefined);
    await decide(ada, name, 'approved');
    await act(ci);
    assert.equal(approvals()[0]?.status?.state, 'spent');
    const again = await refusal(act(ci));
    assert.equal(again, `${name}-2`);
    assert.deepEqual(events(), ['requested', 'spent', 'requested']);
  });

  test('writes objects that fit the schema of the kind', async () => {
    const { act, approvals } = await openApprovals();
    await refusal(act(ci));
    const pruned = pruneObject(approvalKind, approvals()[0] as unknown as Untyped);
    assert.deepEqual(pruned.unknown, []);
    assert.deepEqual(validateObject(approvalKind, pruned.object), []);
  });

  test('asks two persons even of an approver and of the owner, where the policy says so', async () => {
    const { act, setPolicy } = await openApprovals();
    await setPolicy({ 'peer.confirm': 'two-person' });
    await refusal(act(ada));
    await refusal(act(owner));
    await act(controllerCaller('peering'));
  });

  test('makes one request of many equal ones, also of concurrent ones', async () => {
    const { act, approvals } = await openApprovals();
    const names = await Promise.all([1, 2, 3, 4].map(() => refusal(act(ci))));
    names.push(await refusal(act(ci)));
    assert.equal(new Set(names).size, 1);
    assert.equal(approvals().length, 1);
  });

  test('gives the action to one of two concurrent uses', async () => {
    const { act, decide, approvals } = await openApprovals();
    await decide(ada, await refusal(act(ci)), 'approved');
    const results = await Promise.allSettled([act(ci), act(ci)]);
    const failed = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    assert.equal(failed.length, 1);
    assert.ok(hasCode(failed[0], 'HANSA_CONFLICT'));
    assert.equal(approvals().filter(({ status }) => status?.state === 'spent').length, 1);
  });

  test('does not take an approval for another hash, target, generation, verb or user', async () => {
    const { act, decide } = await openApprovals();
    const name = await refusal(act(ci));
    await decide(ada, name, 'approved');
    const { target } = confirmBruges;
    const others = [
      { ...confirmBruges, change: { fingerprint: 'cd' } },
      { ...confirmBruges, verb: 'revoke' },
      { ...confirmBruges, target: { ...target, name: 'novgorod.example' } },
      { ...confirmBruges, target: { ...target, uid: 'u-2' } },
      { ...confirmBruges, target: { ...target, generation: 2 } },
    ];
    for (const other of others) assert.notEqual(await refusal(act(ci, other)), name);
    assert.notEqual(await refusal(act(tokenCaller('cd'))), name);
    await act(ci);
  });

  test('does not take an approval that expired before its use', async () => {
    const { act, decide, clock } = await openApprovals();
    const name = await refusal(act(ci));
    await clock.advance(approvalTtlMs - 1000);
    await decide(ada, name, 'approved');
    await clock.advance(1000);
    assert.notEqual(await refusal(act(ci)), name);
  });

  test('ends an approval when the action itself has an earlier end', async () => {
    const { act, approvals, clock } = await openApprovals();
    const expiresAtMs = clock.now() + 60_000;
    await refusal(act(ci, { ...confirmBruges, expiresAtMs }));
    assert.equal(Date.parse(approvals()[0]?.spec.expiresAt ?? ''), expiresAtMs);
  });

  test('does not take an approval whose content was changed in the store', async () => {
    const { act, decide, approvals, store } = await openApprovals();
    const name = await refusal(act(ci, { ...confirmBruges, change: { fingerprint: 'cd' } }));
    await decide(ada, name, 'approved');
    const [approval] = approvals();
    const entry = store.get('approvals', name);
    assert.ok(approval !== undefined && entry !== undefined);
    // The hash of another action: the content that the approver saw does not have it.
    const hash = (await refusal(act(ci))).slice('peer-confirm-'.length);
    const full = approvals().find(({ spec }) => spec.hash.startsWith(hash))?.spec.hash ?? '';
    const forged = { ...approval, spec: { ...approval.spec, hash: full } };
    await store.commit({ expect: [expectedAt(entry)], put: [putApproval(forged)] });
    await refusal(act(ci));
  });

  test('does not take an approval of the socket after the policy asks for two persons', async () => {
    const { act, decide, setPolicy } = await openApprovals();
    await decide(owner, await refusal(act(ci)), 'approved');
    await setPolicy({ 'peer.confirm': 'two-person' });
    await refusal(act(ci));
  });

  test('limits pending requests of a user, and the rate of new ones', async () => {
    const { act, approvals, decide, clock } = await openApprovals();
    const request = (at: number) => ({ ...confirmBruges, change: { at } });
    for (let at = 0; at < maxPendingOfUser; at += 1) await refusal(act(ci, request(at)));
    const isTooMany = (error: unknown) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS');
    await assert.rejects(act(ci, request(99)), isTooMany);
    // The same request again is not a new one.
    await refusal(act(ci, request(1)));
    for (const { metadata } of approvals()) await decide(ada, metadata.name, 'rejected');
    await assert.rejects(act(ci, request(99)), isTooMany);
    await refusal(act(tokenCaller('cd'), request(99)));
    await clock.advance(61_000);
    await refusal(act(ci, request(99)));
  });

  test('counts many equal requests at the same moment as one', async () => {
    const { act } = await openApprovals();
    const request = (at: number) => ({ ...confirmBruges, change: { at } });
    const equal = Array.from({ length: 2 * maxPendingOfUser }, () => refusal(act(ci, request(0))));
    assert.equal(new Set(await Promise.all(equal)).size, 1);
    for (let at = 1; at < maxPendingOfUser; at += 1) await refusal(act(ci, request(at)));
  });

  test('refuses a change that nobody could read', async () => {
    const { act } = await openApprovals();
    const change = { text: 'x'.repeat(maxChangeLength) };
    await assert.rejects(act(ci, { ...confirmBruges, change }), (error) =>
      hasCode(error, 'HANSA_TOO_LARGE'),
    );
  });

  test('opens a review for an emergency, which allows nothing', async () => {
    const { gate, act, decide, approvals } = await openApprovals();
    const by = { caller: ci, origin: {} };
    const review = await gate.review(confirmBruges, by);
    assert.equal((await gate.review(confirmBruges, by))?.metadata.uid, review?.metadata.uid);
    assert.equal(await gate.review(confirmBruges, { caller: ada, origin: {} }), undefined);
    await decide(ada, review?.metadata.name ?? '', 'approved');
    await refusal(act(ci));
    assert.equal(approvals().length, 2);
  });

  test('opens one review for an emergency, whatever its reason, also of concurrent ones', async () => {
    const { gate, approvals, decide } = await openApprovals();
    const { target } = confirmBruges;
    const review = (at: number, uid = 'u-1') => {
      const change = { emergency: `reason ${at}` };
      const request = { ...confirmBruges, change, target: { ...target, uid, generation: at } };
      return gate.review(request, { caller: ci, origin: {} });
    };
    await Promise.all([1, 2, 3].map((at) => review(at)));
    const first = await review(4);
    assert.equal(approvals().length, 1);
    // Another peer, and the same one after the decision, are other emergencies.
    await review(1, 'u-2');
    await decide(ada, first?.metadata.name ?? '', 'approved');
    await review(1);
    assert.equal(approvals().length, 3);
  });

  test('limits the reviews of a user, and keeps room for requests and for reviews of others', async () => {
    const { gate, act, store, approvals, decide } = await openApprovals();
    const review = (caller: Caller, at: number) => {
      const target = { ...confirmBruges.target, uid: `u-${at}` };
      return gate.review({ ...confirmBruges, target }, { caller, origin: {} });
    };
    await review(ci, 0);
    const [first] = approvals();
    assert.ok(first);
    for (let at = 1; at < maxReviewsOfUser; at += 1) {
      const target = { ...first.spec.target, uid: `u-${at}` };
      const metadata = { ...first.metadata, name: `review-${at}` };
      await store.commit({
        put: [putApproval({ ...first, metadata, spec: { ...first.spec, target } })],
      });
    }
    const isTooMany = (error: unknown) => hasCode(error, 'HANSA_TOO_MANY_REQUESTS');
    await assert.rejects(review(ci, maxReviewsOfUser), isTooMany);
    await review(ci, 1);
    await review(tokenCaller('cd'), 0);
    await refusal(act(ci));
    await decide(ada, first.metadata.name, 'rejected');
    await review(ci, maxReviewsOfUser);
  });
});

suite('a decision', () => {
  const isForbidden = (why: RegExp) => (error: unknown) =>
    hasCode(error, 'HANSA_FORBIDDEN') && why.test(error.message);

  test('is not for the requester, nor for a user without the right', async () => {
    const { act, decide, bind } = await openApprovals();
    const name = await refusal(act(ci));
    await assert.rejects(
      decide(tokenCaller('cd'), name, 'approved'),
      isForbidden(/cannot approve/),
    );
    await bind('ci-approves', { role: 'approver', subjects: [{ kind: 'Token', name: 'ci' }] });
    await assert.rejects(decide(ci, name, 'approved'), isForbidden(/ci requested it/));
    const certificate = tokenCaller('ci', 'certificate', '0a');
    await assert.rejects(decide(certificate, name, 'approved'), isForbidden(/ci requested it/));
  });

  test('is not for the socket or its certificates, under the two-person rule', async () => {
    const { act, decide, bind, setPolicy, approvals } = await openApprovals();
    await setPolicy({ 'peer.confirm': 'two-person' });
    await bind('eve', { role: 'approver', subjects: [{ kind: 'User', name: 'eve' }] });
    const name = await refusal(act(ci));
    for (const decider of [owner, personCaller('admin', '1'), personCaller('eve', '2')]) {
      await assert.rejects(decide(decider, name, 'approved'), isForbidden(/two-person rule/));
    }
    const { origin: _origin, ...unknown } = ada;
    await assert.rejects(decide(unknown, name, 'approved'), isForbidden(/kind of credential/));
    await decide(tokenCaller('ada', 'certificate', '3', 'ada-1'), name, 'approved');
    assert.deepEqual(approvals()[0]?.status?.decidedBy, {
      user: 'token:ada',
      origin: 'token',
      tokenID: 'ada-1',
    });
    await act(ci);
  });

  test('is final', async () => {
    const { act, decide } = await openApprovals();
    const name = await refusal(act(ci));
    await decide(ada, name, 'rejected');
    await assert.rejects(decide(bob, name, 'approved'), isForbidden(/already rejected/));
    assert.notEqual(await refusal(act(ci)), name);
  });

  test('is too late after four hours', async () => {
    const { act, decide, clock } = await openApprovals();
    const name = await refusal(act(ci));
    await clock.advance(approvalTtlMs);
    await assert.rejects(decide(ada, name, 'approved'), isForbidden(/expired/));
  });

  test('about a review is not for the requester, in either way', async () => {
    const { gate, decide, bind } = await openApprovals();
    const review = await gate.review(confirmBruges, { caller: ci, origin: {} });
    const name = review?.metadata.name ?? '';
    await bind('ci-approves', { role: 'approver', subjects: [{ kind: 'Token', name: 'ci' }] });
    await assert.rejects(decide(ci, name, 'rejected'), isForbidden(/must review it/));
    await decide(ada, name, 'rejected');
  });
});

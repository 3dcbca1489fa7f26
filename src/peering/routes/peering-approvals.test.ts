// Peering by callers who need approval: each action waits for an approver and spends the Approval in its first commit.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Authorizer } from '../../core/access/authorizer.ts';
import { type Caller, socketOwner, tokenCaller } from '../../core/access/identity.ts';
import { decideIn } from '../../core/approvals/test-approvals.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { WriteContext } from '../../server/resources/writer.ts';
import { encodeInvitation } from '../handshake/invitation.ts';
import {
  type TestPeerSite,
  testPeerSite,
  testPreview as preview,
} from '../handshake/test-peer-site.ts';
import { wishesCollection } from '../peers/wishes.ts';
import { peeringPaths } from '../paths.ts';
import { acceptWaitMs } from '../timing.ts';
import { operatorRoutes, type PeerSummary } from './operator-routes.ts';

const name = 'bruges.example';
const ci = tokenCaller('ci');
const { signal } = new AbortController();
const approvals = kindReader(approvalKind);

async function ask<T>(
  site: TestPeerSite,
  caller: Caller,
  path: string,
  body: object = {},
): Promise<T> {
  const route = operatorRoutes(site.parts).find((each) => each.path === path);
  const text = JSON.stringify(body);
  const answer = await callRoute(route, { caller, params: { name }, body: text });
  return JSON.parse(String(answer.body)) as T;
}

async function needed(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  assert.ok(hasCode(error, 'HANSA_APPROVAL_REQUIRED'), String(error));
  return error.details?.name ?? '';
}

/** The owner approves, which the mode approver allows. */
function approve({ store, clock }: TestPeerSite, approval: string): Promise<void> {
  const authorizer = new Authorizer({ store, kinds: [approvalKind] });
  return decideIn({ store, clock, authorizer }, socketOwner, approval, 'approved');
}

const approvalOf = ({ store }: TestPeerSite, approval: string): Approval | undefined =>
  approvals.get(store, approval);

async function waiting(more = {}): Promise<TestPeerSite> {
  const site = await testPeerSite();
  const redemption = { confirmation: 'made for no trust domain', fingerprint: '7f:3a' };
  await site.redeem(name, more, redemption);
  await site.handshake.reconcile(name, signal);
  return site;
}

async function enrolled(): Promise<TestPeerSite> {
  const site = await testPeerSite();
  await site.redeem(name);
  await site.handshake.reconcile(name, signal);
  return site;
}

const turn = () => new Promise((next) => void setImmediate(next));

/** `spec.approvals.rules` of the Site. */
async function setPolicy({ store }: TestPeerSite, rules: object[]): Promise<void> {
  const site = { metadata: { name: 'site' }, spec: { approvals: { rules } } };
  const encode = () => Buffer.from(JSON.stringify(site));
  await store.commit({ put: [{ collection: 'sites', name: 'site', encode }] });
}

const stateOf = async (site: TestPeerSite) => (await site.peers.get(name))?.status?.state;

suite('a confirmation', () => {
  test('waits for an approval, spends it, and keeps its uid', async () => {
    const site = await waiting();
    const approval = await needed(ask(site, ci, peeringPaths.confirm));
    assert.equal(await stateOf(site), 'proposed');
    assert.match(approvalOf(site, approval)?.spec.summary ?? '', /fingerprint 7f:3a/);
    await approve(site, approval);
    const { state } = await ask<PeerSummary>(site, ci, peeringPaths.confirm);
    assert.equal(state, 'enrolled');
    const { metadata, status } = approvalOf(site, approval) ?? {};
    assert.equal(status?.state, 'spent');
    const { redeemed } = site.inviter.invitations.list()[0]?.value ?? {};
    assert.equal(redeemed?.approval, metadata?.uid);
    const spent = site.rows.map(({ verb }) => verb).filter((verb) => /confirm|spent/.test(verb));
    assert.deepEqual(spent, ['peer.confirm', 'approval.spent']);
  });

  test('of a contested invitation spends one Approval for both of its steps', async () => {
    const contested = { trustDomain: 'm.example', fingerprint: '66:66', atMs: 0 };
    const site = await waiting({ contested });
    const approval = await needed(ask(site, ci, peeringPaths.confirm));
    await approve(site, approval);
    const confirmed = await ask<PeerSummary>(site, ci, peeringPaths.confirm);
    assert.deepEqual([confirmed.alert, confirmed.state], [undefined, 'enrolled']);
    assert.equal(approvalOf(site, approval)?.status?.state, 'spent');
  });

  test('that clears only an alert spends its Approval with it', async () => {
    const contested = { trustDomain: 'm.example', fingerprint: '66:66', atMs: 0 };
    const site = await testPeerSite();
    await site.redeem(name, { contested });
    await site.handshake.reconcile(name, signal);
    const approval = await needed(ask(site, ci, peeringPaths.confirm));
    await approve(site, approval);
    await ask(site, ci, peeringPaths.confirm);
    assert.equal(approvalOf(site, approval)?.status?.state, 'spent');
  });

  test('with an Approval for other keys is refused', async () => {
    const site = await waiting();
    const approval = await needed(ask(site, ci, peeringPaths.confirm));
    await approve(site, approval);
    await site.inviter.invitations.change('invitation', (record) => ({
      ...record,
      ...(record.redeemed && { redeemed: { ...record.redeemed, fingerprint: '66:66' } }),
    }));
    assert.notEqual(await needed(ask(site, ci, peeringPaths.confirm)), approval);
    assert.equal(await stateOf(site), 'proposed');
  });

  test('happens once where two callers use one Approval at the same time', async () => {
    const site = await waiting();
    const approval = await needed(ask(site, ci, peeringPaths.confirm));
    await approve(site, approval);
    await Promise.all([ask(site, ci, peeringPaths.confirm), ask(site, ci, peeringPaths.confirm)]);
    const rows = site.rows.filter(({ verb }) => verb === 'approval.spent');
    assert.equal(rows.length, 1);
    assert.equal(site.rows.filter(({ verb }) => verb === 'peer.confirm').length, 1);
  });

  test('of nothing asks for no approval', async () => {
    const site = await testPeerSite();
    await assert.rejects(ask(site, ci, peeringPaths.confirm), withErrorCode('HANSA_NOT_FOUND'));
    assert.deepEqual(approvals.list(site.store), []);
  });
});

suite('an acceptance that crosses a redemption', () => {
  const key = Buffer.alloc(32, 0xab);

  /** A site waits for its confirmation, and an operator accepts an invitation of that site. */
  async function crossed(rules: object[], caller: Caller) {
    const site = await testPeerSite({ preview });
    await setPolicy(site, rules);
    const redemption = {
      confirmation: 'made for no trust domain',
      provenKeys: [key.toString('hex')],
    };
    await site.redeem(name, {}, redemption);
    await site.handshake.reconcile(name, signal);
    const invitation = encodeInvitation({
      url: new URL('https://bruges.example:8443/'),
      trustDomain: TrustDomain.parse(name),
      keys: [key],
      secret: Buffer.alloc(32, 7),
      expiresAtMs: site.clock.now() + 60_000,
    });
    const accept = async (): Promise<PeerSummary> => {
      const accepting = ask<PeerSummary>(site, caller, peeringPaths.accept, { invitation });
      while (site.handshake.acceptances.get(name) === undefined) await turn();
      await site.handshake.reconcile(name, signal);
      // The route waits for a heartbeat, which does not come in this test.
      await site.clock.advance(acceptWaitMs);
      return accepting;
    };
    return { site, accept };
  }

  test('confirms the site where one approver may', async () => {
    const { site, accept } = await crossed([], socketOwner);
    await accept();
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('does not take the place of two persons', async () => {
    const rules = [{ action: 'peer.confirm', mode: 'two-person' }];
    const { site, accept } = await crossed(rules, socketOwner);
    const { state, role } = await accept();
    assert.deepEqual([state, role], ['proposed', 'inviter']);
    assert.ok(!site.rows.some(({ verb }) => verb === 'peer.confirm'));
    await needed(ask(site, socketOwner, peeringPaths.confirm));
  });

  test('does not take the place of an approver where anybody may accept', async () => {
    const { site, accept } = await crossed([{ action: 'peer.accept', mode: 'none' }], ci);
    await accept();
    assert.equal(await stateOf(site), 'proposed');
  });
});

suite('an invitation', () => {
  test('waits for an approval of exactly its receiver, keys and lifetime', async () => {
    const site = await testPeerSite();
    const invite = (ttlSeconds: number) =>
      ask<{ id: string }>(site, ci, peeringPaths.invite, { for: name, ttlSeconds });
    const approval = await needed(invite(60));
    await approve(site, approval);
    assert.notEqual(await needed(invite(3600)), approval);
    const { id } = await invite(60);
    const { metadata, status } = approvalOf(site, approval) ?? {};
    assert.equal(site.inviter.invitations.get(id)?.value.approval, metadata?.uid);
    assert.equal(status?.state, 'spent');
    await needed(invite(60));
  });

  test('is accepted after an approval, which ends with the invitation and holds no secret', async () => {
    const site = await testPeerSite({ preview });
    const secret = Buffer.alloc(32, 7);
    const invitation = encodeInvitation({
      url: new URL('https://bruges.example:8443/'),
      trustDomain: TrustDomain.parse(name),
      keys: [Buffer.alloc(32, 0xab)],
      secret,
      expiresAtMs: site.clock.now() + 60_000,
    });
    const accept = () => ask(site, ci, peeringPaths.accept, { invitation });
    const approval = await needed(accept());
    const { spec } = approvalOf(site, approval) ?? {};
    assert.equal(Date.parse(spec?.expiresAt ?? ''), site.clock.now() + 60_000);
    const text = JSON.stringify(spec);
    for (const form of ['hex', 'base64', 'base64url'] as const) {
      assert.ok(!text.includes(secret.toString(form)), form);
    }
    assert.equal(site.handshake.acceptances.get(name), undefined);
    await approve(site, approval);
    const accepting = accept();
    while (site.handshake.acceptances.get(name) === undefined) {
      await new Promise((next) => void setImmediate(next));
    }
    const { metadata, status } = approvalOf(site, approval) ?? {};
    assert.equal(status?.state, 'spent');
    assert.equal(site.handshake.acceptances.get(name)?.value.approval, metadata?.uid);
    // The route waits for the other site, which does not exist in this test.
    await site.clock.advance(acceptWaitMs);
    await accepting;
  });
});

suite('a change of a FederationPeer', () => {
  const options = { dryRun: false, manager: 'kubectl', fieldValidation: 'Strict', force: false };
  const context = (caller: Caller, verb: 'patch' | 'delete'): WriteContext => ({
    caller,
    verb,
    options: options as WriteContext['options'],
    requestId: 'r',
    address: undefined,
  });
  type Spec = FederationPeer['spec'];
  const replace = ({ writer }: TestPeerSite, caller: Caller, next: (live: Spec) => object) =>
    writer.update(federationPeerKind, name, undefined, context(caller, 'patch'), (live) => ({
      ...(live as NonNullable<typeof live>),
      spec: { ...next(live?.spec as Spec) },
    }));
  const patch = (site: TestPeerSite, caller: Caller, spec: object) =>
    replace(site, caller, (live) => ({ ...live, ...spec }));

  test('that resumes a peer waits for an approval, and carries its uid', async () => {
    const site = await enrolled();
    await patch(site, ci, { desiredState: 'suspended' });
    await site.handshake.distrust(name);
    assert.equal(await stateOf(site), 'suspended');
    const approval = await needed(patch(site, ci, { desiredState: 'active' }));
    assert.match(approval, /^peer-resume-/);
    await site.handshake.reconcile(name, signal);
    assert.equal(await stateOf(site), 'suspended');
    await approve(site, approval);
    await patch(site, ci, { desiredState: 'active' });
    await site.handshake.reconcile(name, signal);
    assert.equal(await stateOf(site), 'enrolled');
    const { metadata, status } = approvalOf(site, approval) ?? {};
    assert.equal(status?.state, 'spent');
    const wish = site.store.get(wishesCollection, name)?.value.toString() ?? '';
    assert.equal(JSON.parse(wish).desiredState.approval, metadata?.uid);
  });

  test('that resumes a peer cannot use the approval of an earlier suspension', async () => {
    const site = await enrolled();
    await patch(site, ci, { desiredState: 'suspended' });
    const approval = await needed(patch(site, ci, { desiredState: 'active' }));
    await approve(site, approval);
    await patch(site, socketOwner, { desiredState: 'active' });
    await patch(site, socketOwner, { desiredState: 'suspended' });
    assert.notEqual(await needed(patch(site, ci, { desiredState: 'active' })), approval);
  });

  test('that resumes a peer by leaving out the field, or together with another, is the same', async () => {
    const site = await enrolled();
    await patch(site, ci, { desiredState: 'suspended' });
    const url = 'https://elsewhere.example:8443/';
    for (const spec of [{ url }, { url, desiredState: 'active' }]) {
      assert.match(await needed(replace(site, ci, () => spec)), /^peer-resume-/);
    }
  });

  test('that resumes nothing needs no approval', async () => {
    const site = await enrolled();
    await patch(site, ci, { url: 'https://elsewhere.example:8443/' });
    await patch(site, ci, { desiredState: 'suspended' });
    await patch(site, ci, { url: 'https://bruges.example:8443/' });
    assert.deepEqual(approvals.list(site.store), []);
  });

  test('that deletes it waits for an approval, and carries its uid', async () => {
    const site = await enrolled();
    const asked = { dryRun: false, uid: undefined, resourceVersion: undefined };
    const remove = () => site.writer.delete(federationPeerKind, name, asked, context(ci, 'delete'));
    const approval = await needed(remove());
    await approve(site, approval);
    await remove();
    const wish = site.store.get(wishesCollection, name)?.value.toString() ?? '';
    assert.equal(JSON.parse(wish).deletion.approval, approvalOf(site, approval)?.metadata.uid);
    await site.handshake.distrust(name);
    assert.equal(await site.peers.get(name), undefined);
    assert.equal(approvalOf(site, approval)?.status?.state, 'spent');
  });
});

suite('a revocation', () => {
  test('waits for an approval, and spends it', async () => {
    const site = await enrolled();
    const approval = await needed(ask(site, ci, peeringPaths.revoke));
    assert.equal(await stateOf(site), 'enrolled');
    await approve(site, approval);
    assert.deepEqual(await ask(site, ci, peeringPaths.revoke), { name, state: 'revoked' });
    assert.equal(approvalOf(site, approval)?.status?.state, 'spent');
  });

  test('in an emergency acts at once, and is reviewed afterwards by another user', async () => {
    const site = await enrolled();
    const emergency = 'its key was stolen';
    const done = await ask<{ state: string; review: string }>(site, ci, peeringPaths.revoke, {
      emergency,
    });
    assert.equal(done.state, 'revoked');
    assert.equal(await stateOf(site), 'revoked');
    const { spec, status } = approvalOf(site, done.review) ?? {};
    assert.deepEqual([spec?.review, status?.state], [true, 'pending']);
    assert.match(spec?.change ?? '', /its key was stolen/);
    await approve(site, done.review);
    assert.equal(approvalOf(site, done.review)?.status?.state, 'approved');
  });

  test('in an emergency opens one review for many reasons at the same time', async () => {
    const site = await enrolled();
    const done = await Promise.all(
      ['a', 'b', 'c'].map((emergency) =>
        ask<{ review?: string }>(site, ci, peeringPaths.revoke, { emergency }),
      ),
    );
    assert.equal(new Set(done.flatMap(({ review }) => review ?? [])).size, 1);
    assert.equal(approvals.list(site.store).length, 1);
    assert.equal(await stateOf(site), 'revoked');
  });

  test('in an emergency without room for a review revokes nothing, and names suspending', async () => {
    const site = await enrolled();
    const full = new HansaError('HANSA_TOO_MANY_REQUESTS', 'Too many.');
    const parts = {
      ...site.parts,
      approvals: { ...site.parts.approvals, review: () => Promise.reject(full) },
    };
    await assert.rejects(
      ask({ ...site, parts }, ci, peeringPaths.revoke, { emergency: 'now' }),
      (error) =>
        hasCode(error, 'HANSA_TOO_MANY_REQUESTS') &&
        /hansa peer suspend bruges\.example/.test(error.message),
    );
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('in an emergency needs a reason', async () => {
    const site = await enrolled();
    for (const emergency of ['', 7, true, 'x'.repeat(513)]) {
      await assert.rejects(
        ask(site, ci, peeringPaths.revoke, { emergency }),
        withErrorCode('HANSA_BAD_REQUEST'),
      );
    }
    assert.equal(await stateOf(site), 'enrolled');
  });

  test('by an approver needs no other, and no review', async () => {
    const site = await enrolled();
    const done = await ask(site, socketOwner, peeringPaths.revoke, { emergency: 'now' });
    assert.deepEqual(done, { name, state: 'revoked' });
    assert.deepEqual(approvals.list(site.store), []);
  });
});

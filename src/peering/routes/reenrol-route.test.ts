// The route behind `hansa peer reenrol`, and the acceptance of its invitation: who may, and what is rejected.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Approval, approvalKind } from '../../api/kinds/approval.ts';
import { Authorizer } from '../../core/access/authorizer.ts';
import { type Caller, socketOwner, tokenCaller } from '../../core/access/identity.ts';
import { decideIn } from '../../core/approvals/test-approvals.ts';
import { hasCode } from '../../core/errors/error.ts';
import { keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { kindReader } from '../../core/store/reader.ts';
import { encodeInvitation, parseInvitation } from '../handshake/invitation.ts';
import type { MadeInvitation } from '../handshake/inviter.ts';
import { documentOf } from '../handshake/test-handshake.ts';
import { type TestPeerSite, testPreview as preview } from '../handshake/test-peer-site.ts';
import {
  bruges,
  brugesAt,
  lost,
  owner,
  printOf,
  rebuilt,
  redeemAgain,
  withBruges,
} from '../handshake/test-reenrolment.ts';
import { peeringError } from '../errors.ts';
import { peeringPaths } from '../paths.ts';
import { acceptWaitMs } from '../timing.ts';
import { operatorRoutes, type PeerSummary } from './operator-routes.ts';

const ci = tokenCaller('ci');
const { signal } = new AbortController();
const approvals = kindReader(approvalKind);

async function ask<T = MadeInvitation>(
  site: TestPeerSite,
  body: unknown,
  how: { readonly path?: string; readonly name?: string; readonly caller?: Caller } = {},
): Promise<T> {
  const { path = peeringPaths.reenrol, name = bruges, caller = socketOwner } = how;
  const route = operatorRoutes(site.parts).find((each) => each.path === path);
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const answer = await callRoute(route, { caller, params: { name }, body: text });
  return JSON.parse(String(answer.body)) as T;
}

/** The Approval that an attempt waits for. */
async function needed(site: TestPeerSite, attempt: Promise<unknown>): Promise<Approval> {
  const error = await attempt.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  assert.ok(hasCode(error, 'HANSA_APPROVAL_REQUIRED'), String(error));
  const approval = approvals.get(site.store, error.details?.name ?? '');
  assert.ok(approval !== undefined);
  return approval;
}

function approve({ store, clock }: TestPeerSite, { metadata }: Approval): Promise<void> {
  const authorizer = new Authorizer({ store, kinds: [approvalKind] });
  return decideIn({ store, clock, authorizer }, socketOwner, metadata.name, 'approved');
}

suite('a request to re-enrol a peer', () => {
  test('by an approver gets an invitation at once', async () => {
    const site = await withBruges();
    const made = await ask(site, { fingerprint: printOf(rebuilt), ttlSeconds: 60 });
    const invitation = parseInvitation(made.invitation, site.clock.now());
    assert.equal(invitation.reenrols, true);
    assert.equal(invitation.for?.name, bruges);
    assert.equal(invitation.forKeys, printOf(rebuilt));
    assert.equal(invitation.expiresAtMs, site.clock.now() + 60_000);
    assert.equal((await redeemAgain(site, made))?.status?.state, 'enrolled');
    const row = site.rows.find(({ verb }) => verb === 'peer.reenrol');
    assert.equal(row?.actor.user, socketOwner.user);
  });

  test('by others waits for an approval of exactly these keys, and spends it', async () => {
    const site = await withBruges();
    const again = (fingerprint: string) => ask(site, { fingerprint }, { caller: ci });
    const approval = await needed(site, again(printOf(rebuilt)));
    assert.match(approval.spec.summary, /start over with the keys .*, and keep its grants/);
    assert.ok(approval.spec.change.includes(printOf(lost)), 'the approver sees the lost keys');
    assert.equal((await brugesAt(site)).status?.state, 'active');
    await approve(site, approval);
    const other = await needed(site, again(printOf(lost)));
    assert.notEqual(other.metadata.name, approval.metadata.name);
    const { id } = await again(printOf(rebuilt));
    assert.equal(site.inviter.invitations.get(id)?.value.approval, approval.metadata.uid);
    const states = approvals.list(site.store).map(({ status }) => status?.state ?? '');
    assert.deepEqual(new Set(states), new Set(['rejected', 'spent']));
    // Not a second time.
    await needed(site, again(printOf(rebuilt)));
  });

  for (const [how, body, why] of [
    ['is no object', '[]', /./],
    ['is no JSON', '{', /./],
    ['has an unknown field', { fingerprints: 'x' }, /only the fields fingerprint and ttlSeconds/],
    ['names another peer', { for: 'mallory.example' }, /only the fields/],
    ['has a fingerprint of another form', { fingerprint: 'abc' }, /fingerprint is not/],
    ['has a list of fingerprints', { fingerprint: [printOf(rebuilt)] }, /fingerprint is not/],
    ['has a lifetime that is no number', { ttlSeconds: '60' }, /ttlSeconds is not a number/],
    ['lives too long', { ttlSeconds: 5 * 3600 }, /The range is 1 to/],
    ['lives for no time', { ttlSeconds: 0 }, /The range is 1 to/],
    ['is too large', { fingerprint: 'a'.repeat(5000) }, /./],
  ] as const) {
    test(`is rejected where its body ${how}, and changes nothing`, async () => {
      const site = await withBruges();
      const { revision } = site.store;
      await assert.rejects(ask(site, body), (error: unknown) => {
        assert.match(
          String((error as { code?: string }).code),
          /^HANSA_(?:BAD_REQUEST|TOO_LARGE)$/,
        );
        assert.match((error as Error).message, why);
        return true;
      });
      assert.equal(site.store.revision, revision);
      assert.equal((await brugesAt(site)).status?.state, 'active');
    });
  }

  test('for what is no peer, or not any more, asks for no approval', async () => {
    const site = await withBruges();
    await site.handshake.revoke(bruges, owner);
    const { revision } = site.store;
    await assert.rejects(ask(site, {}, { caller: ci }), {
      code: 'HANSA_PEER_STATE',
      message: /it is revoked/,
    });
    for (const [name, code] of [
      ['reval.example', 'HANSA_NOT_FOUND'],
      ['../x', 'HANSA_BAD_REQUEST'],
      ['', 'HANSA_BAD_REQUEST'],
    ] as const) {
      await assert.rejects(ask(site, {}, { caller: ci, name }), { code });
    }
    assert.equal(site.store.revision, revision);
  });
});

suite('an invitation to re-enrol this site', () => {
  const line = (
    { clock }: TestPeerSite,
    identity: typeof lost,
    isAgain = true,
    keys = keyDigests(identity.authority.bundle),
  ): string =>
    encodeInvitation({
      url: new URL('https://bruges.example:8443/'),
      trustDomain: lost.trustDomain,
      keys,
      secret: Buffer.alloc(32, 7),
      expiresAtMs: clock.now() + 60_000,
      ...(isAgain ? { reenrols: true } : {}),
    });
  const answering = () =>
    withBruges({
      preview,
      redeem: async () => ({
        state: 'accepted',
        contractVersion: 1,
        document: documentOf([lost]),
      }),
    });
  const accepted = { path: peeringPaths.accept };

  test('is accepted although the inviting site is a peer already', async () => {
    const site = await answering();
    const { uid } = (await brugesAt(site)).metadata;
    const answer = ask<PeerSummary>(site, { invitation: line(site, lost) }, accepted);
    const isBegun = async () => (await brugesAt(site)).status?.state === 'proposed';
    while (!(await isBegun())) await new Promise((next) => void setImmediate(next));
    await site.handshake.reconcile(bruges, signal);
    await site.clock.advance(acceptWaitMs);
    const { state, role, reenrolments } = await answer;
    assert.deepEqual([state, role, reenrolments], ['enrolled', 'acceptor', 1]);
    assert.equal((await brugesAt(site)).metadata.uid, uid);
    const verbs = site.rows.map(({ verb }) => verb);
    for (const verb of ['peer.accept', 'peer.reenrol']) assert.ok(verbs.includes(verb), verb);
  });

  test('is redeemed only at a site with a key that this site knows of the peer', async () => {
    const asked: string[][] = [];
    const site = await withBruges({
      preview: (invitation) => {
        asked.push(invitation.keys.map((key) => key.toString('hex')));
        return preview(invitation);
      },
      redeem: async ({ keys }) => {
        asked.push(keys.map((key) => key.toString('hex')));
        throw peeringError('HANSA_PEER_UNREACHABLE', 'no answer');
      },
    });
    // The public keys of the peer are known to everybody.
    const [known] = keyDigests(lost.authority.bundle);
    const keys = [...keyDigests(rebuilt.authority.bundle), ...keyDigests(lost.authority.bundle)];
    const invitation = line(site, lost, true, keys);
    const answer = ask<PeerSummary>(site, { invitation }, accepted);
    const isBegun = async () => (await brugesAt(site)).status?.state === 'proposed';
    while (!(await isBegun())) await new Promise((next) => void setImmediate(next));
    await site.handshake.reconcile(bruges, signal);
    await site.clock.advance(acceptWaitMs);
    await answer;
    assert.deepEqual(asked, [[known?.toString('hex')], [known?.toString('hex')]]);
  });

  test('waits for an approval that says what it is', async () => {
    const site = await answering();
    const invitation = line(site, lost);
    const attempt = ask(site, { invitation }, { ...accepted, caller: ci });
    const { spec } = await needed(site, attempt);
    assert.match(spec.summary, /^accept the invitation of bruges\.example to re-enrol this site/);
    assert.equal((await brugesAt(site)).status?.state, 'active');
  });

  for (const [how, make, why] of [
    ['pins other keys than those of the peer', () => rebuilt, /pins none of the keys/],
    ['does not re-enrol', () => lost, /already a peer \(active\)\. .*hansa peer reenrol/],
  ] as const) {
    test(`is rejected where it ${how}`, async () => {
      const site = await answering();
      const { revision } = site.store;
      const invitation = line(site, make(), make() === rebuilt);
      await assert.rejects(ask(site, { invitation }, accepted), { message: why });
      assert.equal(site.store.revision, revision);
    });
  }
});

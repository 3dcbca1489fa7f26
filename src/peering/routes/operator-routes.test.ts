import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { socketOwner } from '../../core/access/identity.ts';
import type { ErrorCode } from '../../core/errors/error.ts';
import { fingerprintOf } from '../../core/identity/bundle/fingerprint.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import type { Acceptor } from '../handshake/acceptor.ts';
import { peeringError } from '../errors.ts';
import {
  encodeInvitation,
  type Invitation,
  invitationId,
  parseInvitation,
  secretDigest,
} from '../handshake/invitation.ts';
import { operatorRoutes, type PeerSummary } from './operator-routes.ts';
import { peeringPaths } from '../paths.ts';
import { documentOf, testIdentity } from '../handshake/test-handshake.ts';
import {
  testAcceptance,
  type TestPeerSite,
  testPeerSite,
  testPreview as preview,
} from '../handshake/test-peer-site.ts';
import { acceptWaitMs } from '../timing.ts';

const name = 'bruges.example';
const secret = Buffer.alloc(32, 7);
const id = invitationId(secretDigest(secret));
const document = documentOf([await testIdentity(name)]);
const { signal } = new AbortController();

const redeem: Acceptor['redeem'] = () =>
  Promise.resolve({ state: 'accepted', contractVersion: 1, document });

/** A line that bruges made, good for a minute. */
function lineOf({ clock }: TestPeerSite, more: Partial<Invitation> = {}): string {
  return encodeInvitation({
    url: new URL('https://bruges.example:8443/'),
    trustDomain: TrustDomain.parse(name),
    keys: [Buffer.alloc(32, 0xab)],
    secret,
    expiresAtMs: clock.now() + 60_000,
    ...more,
  });
}

async function ask<T>(
  site: TestPeerSite,
  path: string,
  body: object | string = {},
  params: Readonly<Record<string, string>> = { name },
): Promise<T> {
  const route = operatorRoutes(site.parts).find((each) => each.path === path);
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const answer = await callRoute(route, { caller: socketOwner, params, body: text });
  return JSON.parse(String(answer.body)) as T;
}

/** Accepts, while the controller does its part and the time passes for which the route waits. */
async function accept(site: TestPeerSite, line: string): Promise<PeerSummary> {
  const over = new AbortController();
  const answer = ask<PeerSummary>(site, peeringPaths.accept, { invitation: line }).finally(() => {
    over.abort();
  });
  const { secret: its } = parseInvitation(line, 0);
  const isWritten = (): boolean =>
    site.handshake.acceptances.get(name)?.value.invitation === invitationId(secretDigest(its));
  const others = async (): Promise<void> => {
    while (!isWritten() && !over.signal.aborted) await turn();
    await site.handshake.reconcile(name, signal);
    if (!over.signal.aborted) await site.clock.advance(acceptWaitMs);
  };
  await Promise.allSettled([answer, others()]);
  return answer;
}

const stateOf = async (site: TestPeerSite) => (await site.peers.get(name))?.status?.state;

suite('an invitation that is looked at', () => {
  test('is told with who made it, and nothing is written', async () => {
    const site = await testPeerSite({ preview });
    const told = await ask<object>(site, peeringPaths.preview, {
      invitation: lineOf(site),
    });
    assert.deepEqual(told, {
      invitation: id,
      trustDomain: name,
      url: 'https://bruges.example:8443/',
      fingerprint: fingerprintOf([Buffer.alloc(32, 0xab)]),
      expiresAt: '2026-01-01T00:01:00Z',
      contractVersion: 1,
      offers: ['db'],
      confirmation: false,
    });
    assert.equal(site.store.revision, 0);
    assert.deepEqual(site.denials, []);
  });

  const refusals: readonly [string, (site: TestPeerSite) => unknown, ErrorCode, RegExp][] = [
    ['is none', () => undefined, 'HANSA_INVITATION_INVALID', /the request contains none/],
    ['is no text', () => 7, 'HANSA_INVITATION_INVALID', /the request contains none/],
    ['is nonsense', () => 'hello', 'HANSA_INVITATION_INVALID', /hansa1/],
    ['was cut', (site) => lineOf(site).slice(0, -4), 'HANSA_INVITATION_INVALID', /end is missing/],
    [
      'has expired',
      (site) => lineOf(site, { expiresAtMs: site.clock.now() }),
      'HANSA_INVITATION_EXPIRED',
      /Ask bruges\.example/,
    ],
    [
      'was made by this site itself',
      (site) => lineOf(site, { trustDomain: TrustDomain.parse('lubeck.example') }),
      'HANSA_INVITATION_REFUSED',
      /lubeck\.example is this site/,
    ],
    [
      'is for another site',
      (site) => lineOf(site, { for: TrustDomain.parse('riga.example') }),
      'HANSA_INVITATION_REFUSED',
      /it is for riga\.example, but this site is lubeck\.example/,
    ],
    [
      'is for other keys of this site',
      (site) => lineOf(site, { forKeys: Array.from({ length: 32 }, () => '7f').join(':') }),
      'HANSA_INVITATION_REFUSED',
      /it is for other keys of lubeck\.example/,
    ],
  ];
  for (const [what, make, code, why] of refusals) {
    test(`is refused where it ${what}, before anybody is asked, and that is recorded`, async () => {
      const site = await testPeerSite();
      for (const path of [peeringPaths.preview, peeringPaths.accept]) {
        await assert.rejects(ask(site, path, { invitation: make(site) }), (error: unknown) => {
          assert.match(String(error), why);
          return withErrorCode(code)(error);
        });
      }
      assert.deepEqual(
        site.denials.map((draft) => [draft.verb, draft.code, draft.actor.user]),
        Array.from({ length: 2 }, () => ['peer.accept', code, socketOwner.user]),
      );
      assert.equal(site.store.revision, 0);
    });
  }

  test('is refused in a body that is no JSON object', async () => {
    const site = await testPeerSite();
    for (const body of ['{', '[]', '"x"', '7']) {
      await assert.rejects(
        ask(site, peeringPaths.preview, body),
        withErrorCode('HANSA_BAD_REQUEST'),
      );
    }
    const large = { invitation: 'x'.repeat(20_000) };
    await assert.rejects(ask(site, peeringPaths.preview, large), withErrorCode('HANSA_TOO_LARGE'));
  });
});

suite('an invitation that is accepted', () => {
  test('makes a peer, with the secret sealed until it is redeemed', async () => {
    const seen: Buffer[] = [];
    const site = await testPeerSite({
      preview,
      redeem: (inviter, given, stop) => {
        seen.push(Buffer.from(given));
        const { value } = site.handshake.acceptances.get(name) ?? {};
        assert.equal(value?.state, 'proposed');
        assert.ok(!Buffer.from(value.secret ?? '', 'base64').includes(secret));
        return redeem(inviter, given, stop);
      },
    });
    const summary = await accept(site, lineOf(site));
    assert.equal(summary.state, 'enrolled');
    assert.equal(summary.role, 'acceptor');
    assert.deepEqual(seen, [secret]);
    const row = site.rows.find(({ reason }) => /accepted an invitation of/.test(reason ?? ''));
    assert.equal(row?.verb, 'peer.accept');
    assert.equal(row.actor.user, socketOwner.user);
  });

  test('answers how far it came where the operator of the other site must confirm', async () => {
    const site = await testPeerSite({
      preview,
      redeem: () => Promise.resolve({ state: 'pending', contractVersion: 1, document }),
    });
    const summary = await accept(site, lineOf(site));
    assert.equal(summary.state, 'proposed');
    assert.equal(summary.cause, 'WaitsForPeer');
  });

  test('writes nothing where the site that made it cannot be verified', async () => {
    const refusal = peeringError('HANSA_PEER_UNTRUSTED', 'for the test');
    const site = await testPeerSite({ preview: () => Promise.reject(refusal) });
    await assert.rejects(
      ask(site, peeringPaths.accept, { invitation: lineOf(site) }),
      withErrorCode('HANSA_PEER_UNTRUSTED'),
    );
    assert.equal(site.store.revision, 0);
    assert.equal(site.denials[0]?.name, name);
  });

  test('fails with the refusal of the other site', async () => {
    const refusal = peeringError('HANSA_INVITATION_REDEEMED', 'it was redeemed by riga.example');
    const site = await testPeerSite({ preview, redeem: () => Promise.reject(refusal) });
    await assert.rejects(accept(site, lineOf(site)), (error: unknown) => {
      assert.match(String(error), /redeemed by riga\.example/);
      return withErrorCode('HANSA_INVITATION_REDEEMED')(error);
    });
    assert.equal(await stateOf(site), 'revoked');
  });

  test('is refused while another one of the same site is being redeemed', async () => {
    const site = await testPeerSite({ preview });
    await testAcceptance(site, name, { invitation: 'another' });
    await assert.rejects(
      ask(site, peeringPaths.accept, { invitation: lineOf(site) }),
      /is redeeming another invitation of bruges\.example.*hansa peer revoke bruges\.example/,
    );
    assert.equal(site.handshake.acceptances.get(name)?.value.invitation, 'another');
  });

  test('takes the place of one that expired before it was redeemed', async () => {
    const site = await testPeerSite({ preview, redeem });
    await testAcceptance(site, name, { invitation: 'another', expiresAtMs: site.clock.now() });
    assert.equal((await accept(site, lineOf(site))).state, 'enrolled');
    assert.equal(site.handshake.acceptances.get(name)?.value.invitation, id);
  });

  test('is refused where its site is a peer, and told from one that was used here', async () => {
    const site = await testPeerSite({ preview, redeem });
    await accept(site, lineOf(site));
    await assert.rejects(accept(site, lineOf(site)), withErrorCode('HANSA_INVITATION_REDEEMED'));
    await assert.rejects(
      accept(site, lineOf(site, { secret: Buffer.alloc(32, 8) })),
      /bruges\.example is already a peer \(enrolled\)\. Revoke it first/,
    );
  });

  test('makes a peer again of one that was revoked', async () => {
    const site = await testPeerSite({ preview, redeem });
    await accept(site, lineOf(site));
    const { uid } = (await site.peers.get(name))?.metadata ?? {};
    await ask(site, peeringPaths.revoke);
    const again = await accept(site, lineOf(site, { secret: Buffer.alloc(32, 8) }));
    assert.equal(again.state, 'enrolled');
    assert.notEqual((await site.peers.get(name))?.metadata.uid, uid);
  });
});

suite('a peer', () => {
  /** Redeemed an invitation of this site, and waits for an operator. */
  async function waiting(more = {}): Promise<TestPeerSite> {
    const site = await testPeerSite();
    await site.redeem(name, more, { confirmation: 'made for no trust domain' });
    await site.handshake.reconcile(name, signal);
    return site;
  }

  test('that waits is admitted by a confirmation, recorded once', async () => {
    const site = await waiting();
    for (let times = 0; times < 2; times++) {
      const { state } = await ask<PeerSummary>(site, peeringPaths.confirm);
      assert.equal(state, 'enrolled');
    }
    const confirmed = site.rows.filter(({ verb }) => verb === 'peer.confirm');
    assert.deepEqual(
      confirmed.map(({ actor }) => actor.user),
      [socketOwner.user],
    );
  });

  test('of a contested invitation shows an alert, which a confirmation ends', async () => {
    const contested = { trustDomain: 'm.example', fingerprint: '66:66', atMs: 0 };
    const site = await waiting({ contested });
    const { peers } = await ask<{ peers: PeerSummary[] }>(site, peeringPaths.peers);
    assert.match(peers[0]?.alert ?? '', /m\.example/);
    const confirmed = await ask<PeerSummary>(site, peeringPaths.confirm);
    assert.equal(confirmed.alert, undefined);
    assert.equal(confirmed.state, 'enrolled');
  });

  test('has its soft steps repeated on request, and its steps shown', async () => {
    const site = await testPeerSite({ preview, redeem });
    const accepted = await accept(site, lineOf(site));
    const retried = await ask<PeerSummary>(site, peeringPaths.retry);
    assert.deepEqual(retried.acceptance, accepted.acceptance);
    assert.deepEqual(
      retried.acceptance?.steps.slice(-2).map(({ step, outcome }) => [step, outcome]),
      [
        ['attach', 'skipped'],
        ['governance', 'skipped'],
      ],
    );
    await ask(site, peeringPaths.revoke);
    await assert.rejects(ask(site, peeringPaths.retry), withErrorCode('HANSA_PEER_STATE'));
  });

  test('that nobody knows can be neither confirmed nor revoked', async () => {
    const site = await testPeerSite();
    for (const path of [peeringPaths.confirm, peeringPaths.revoke]) {
      await assert.rejects(ask(site, path), withErrorCode('HANSA_NOT_FOUND'));
    }
    assert.equal(site.store.revision, 0);
  });

  test('that was revoked is not trusted, and cannot be revoked or confirmed again', async () => {
    const site = await waiting();
    await ask(site, peeringPaths.confirm);
    assert.deepEqual(await ask(site, peeringPaths.revoke), { name, state: 'revoked' });
    assert.equal(await site.federations.get(name), undefined);
    await assert.rejects(ask(site, peeringPaths.revoke), withErrorCode('HANSA_PEER_STATE'));
    await assert.rejects(ask(site, peeringPaths.confirm), withErrorCode('HANSA_NOT_FOUND'));
    assert.equal(await stateOf(site), 'revoked');
  });

  test('is listed with how it is doing, and without what nobody knows', async () => {
    const site = await waiting();
    const { peers } = await ask<{ peers: PeerSummary[] }>(site, peeringPaths.peers);
    assert.deepEqual(peers, [
      {
        name,
        state: 'proposed',
        url: 'https://bruges.example:8443',
        since: '2026-01-01T00:00:00Z',
        reason: 'it needs confirmation, because made for no trust domain',
        role: 'inviter',
        fingerprint: '',
        offers: [],
      },
    ]);
    const none = await testPeerSite();
    assert.deepEqual(await ask(none, peeringPaths.peers), { peers: [] });
  });
});

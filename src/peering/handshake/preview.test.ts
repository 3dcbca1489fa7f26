// A preview tells what a redemption does: both take the same decision.

import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { socketOwner } from '../../core/access/identity.ts';
import { toHansaError } from '../../core/errors/error.ts';
import { keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { invitationId, parseInvitation, previewProof, secretDigest } from './invitation.ts';
import { documentOf, type TestIdentity, testIdentity } from './test-handshake.ts';
import { testAcceptance, type TestPeerSite, testPeerSite } from './test-peer-site.ts';

const name = 'bruges.example';
const owner = { caller: socketOwner, origin: {} };
const leaf = 'ab'.repeat(32);
const { signal } = new AbortController();

suite('a preview', () => {
  let bruges: TestIdentity;
  let novgorod: TestIdentity;
  before(async () => {
    bruges = await testIdentity(name);
    novgorod = await testIdentity('novgorod.example');
  });

  /** What the site says to a preview and to a redemption of the same invitation. */
  const bothOf = async (
    site: TestPeerSite,
    as: TestIdentity,
    options: { for?: TrustDomain; ttlSeconds?: number } = { for: as.trustDomain },
    meanwhile: (id: string) => Promise<unknown> = async () => undefined,
  ) => {
    const { id, invitation } = await site.inviter.invite(owner, options);
    const { secret } = parseInvitation(invitation, site.clock.now());
    const digest = secretDigest(secret);
    const challenge = Buffer.alloc(32, 5);
    const { trustDomain } = as;
    await meanwhile(id);
    const said = async (attempt: Promise<{ confirmation?: unknown } | string>) => {
      try {
        const answer = await attempt;
        if (typeof answer !== 'string') return answer.confirmation;
        const { redeemed } = site.inviter.invitations.get(answer)?.value ?? {};
        return redeemed?.confirmation !== undefined;
      } catch (error) {
        const { code, message } = toHansaError(error);
        return `${code}: ${message}`;
      }
    };
    const preview = await said(
      site.inviter.preview(
        {
          invitation: invitationId(digest),
          challenge,
          proof: previewProof(digest, challenge, leaf, trustDomain.name),
          trustDomain,
          contractVersions: [1],
        },
        { chain: [], address: undefined },
      ),
    );
    const redemption = await said(
      site.inviter.redeem(
        {
          contractVersions: [1],
          secret,
          trustDomain,
          url: new URL(`https://${trustDomain.name}:8443`),
          bundle: documentOf([as]),
        },
        { chain: as.chain, address: undefined },
      ),
    );
    return { preview, redemption };
  };
  const openSite = () => testPeerSite({}, {}, undefined, () => [leaf]);
  const put = (site: TestPeerSite, collection: string, key: string, value: object) =>
    site.store.commit({
      put: [{ collection, name: key, encode: () => Buffer.from(JSON.stringify(value)) }],
    });
  const peerIn = async (state: NonNullable<FederationPeer['status']>['state']) => {
    const site = await openSite();
    await site.redeem(name, {}, state === 'proposed' ? { confirmation: 'for the test' } : {});
    await site.handshake.reconcile(name, signal);
    if (state === 'revoked') await site.handshake.revoke(name, owner);
    assert.equal((await site.peers.get(name))?.status?.state, state);
    return site;
  };

  test('of a site that is new needs a confirmation only if the invitation is for any site', async () => {
    const meant = await bothOf(await openSite(), bruges);
    assert.deepEqual(meant, { preview: false, redemption: false });
    const any = await bothOf(await openSite(), bruges, {});
    assert.deepEqual(any, { preview: true, redemption: true });
  });

  test('of a site that an object names needs a confirmation', async () => {
    const site = await openSite();
    const grant = { metadata: { name: 'db' }, spec: { peer: name } };
    await put(site, 'federationgrants', 'db', grant);
    assert.deepEqual(await bothOf(site, bruges), { preview: true, redemption: true });
    const revoked = await peerIn('revoked');
    assert.deepEqual(await bothOf(revoked, bruges), { preview: true, redemption: true });
  });

  test('of a site that is already a peer is refused', async () => {
    for (const state of ['proposed', 'enrolled'] as const) {
      const { preview, redemption } = await bothOf(await peerIn(state), bruges);
      assert.match(String(preview), /^HANSA_INVITATION_REFUSED: .*is already a peer/);
      assert.equal(preview, redemption);
    }
  });

  test('of an invitation that cannot be used is refused for the same reason', async () => {
    const site = await openSite();
    const cases = [
      await bothOf(site, bruges, { for: novgorod.trustDomain }),
      await bothOf(site, bruges, { ttlSeconds: 1 }, () => site.clock.advance(2000)),
      await bothOf(site, bruges, {}, (id) =>
        site.inviter.invitations.change(id, (record) => ({
          ...record,
          cancelled: { atMs: 0, by: 'alice' },
        })),
      ),
    ];
    for (const { preview, redemption } of cases) {
      assert.match(String(preview), /^HANSA_INVITATION_(?:REFUSED|EXPIRED): /);
      assert.equal(preview, redemption);
    }
  });

  test('of a site whose invitation this site accepts needs no confirmation', async () => {
    // lubeck.example sorts before novgorod.example, so its own invitation counts.
    const site = await openSite();
    const keys = keyDigests(novgorod.authority.bundle).map((key) => key.toString('hex'));
    const record = { invitation: 'theirs', keys, consent: 'approver' } as const;
    await testAcceptance(site, 'novgorod.example', record);
    const kept = site.handshake.acceptances.get('novgorod.example');
    await site.handshake.propose(
      'novgorod.example',
      kept?.value as NonNullable<typeof kept>['value'],
    );
    const { preview, redemption } = await bothOf(site, novgorod, {});
    assert.deepEqual({ preview, redemption }, { preview: false, redemption: false });
  });
});

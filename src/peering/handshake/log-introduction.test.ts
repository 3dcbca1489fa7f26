// The keys of audit logs in the handshake: each site introduces its own key to the other, and a bad
// introduction is refused without an effect on the peering.

import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { introduceLog, readIntroduction } from '../../core/audit/introduction.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import { encodeMessage, parseRedeemAnswer, paths } from '../messages.ts';
import type { HeartbeatExchange } from '../peers/heartbeat-exchange.ts';
import { federationRoutes } from '../routes/federation-routes.ts';
import { type TestWitnessSite, testWitnessSite } from '../witness/test-witness-site.ts';
import type { Acceptor } from './acceptor.ts';
import { parseInvitation } from './invitation.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { testAcceptance, type TestPeerSite, testPeerSite } from './test-peer-site.ts';

const self = 'lubeck.example';
const name = 'bruges.example';
const { signal } = new AbortController();
const identity = await testIdentity(name);
const document = documentOf([identity]);
const owner = { caller: { user: 'alice', groups: [], via: 'socket' }, origin: {} } as const;
const keyOf = (origin: string, seed = 2) => testSigner(origin, seed).verifier.text;
const introduction = (from: string, to: string, seed = 2) =>
  introduceLog(testSigner(from, seed), from, to);

/** An introduction, and why it is refused. */
const bad: readonly (readonly [text: string, why: RegExp])[] = [
  ['', /no signatures/],
  ['not a note', /no signatures/],
  [await introduction('novgorod.example', self), /introduced by novgorod\.example to lubeck/],
  // A recording of what the peer said to another site.
  [await introduction(name, 'novgorod.example'), /introduced by bruges\.example to novgorod/],
  // The key of another log under the name of this peer.
  [await introduceLog(testSigner('novgorod.example', 2), name, self), /is not a log of bruges/],
  // A key of which the sender does not have the private part.
  [
    (await introduction(name, self)).replace(keyOf(name, 2), keyOf(name, 3)),
    /signature|verif|signed/i,
  ],
];

let witnessing: TestWitnessSite;
beforeEach(async () => {
  witnessing = await testWitnessSite(self);
});
const knownKey = () => witnessing.witness.logs.get(name)?.value.key;
const refusals = async () => (await witnessing.events('witness.refuse')).map((row) => row.reason);

suite('the key of the log of a site that redeems', () => {
  let site: TestPeerSite;
  let secret: Buffer;

  /** Redeems over the route, and resolves to the answer. */
  const redeem = async (logIntroduction?: string) => {
    const routes = federationRoutes({
      ...site.parts,
      advertiseURL: () => 'https://lubeck.example:8443',
      heartbeats: {} as HeartbeatExchange,
      results: new MetricsRegistry().counter({
        name: 'results',
        help: '',
        labels: ['direction', 'result'],
      }),
      witness: witnessing.witness,
    });
    const body = encodeMessage({
      contractVersions: [1],
      secret,
      trustDomain: identity.trustDomain,
      url: new URL('https://bruges.example:8443'),
      bundle: document,
      ...(logIntroduction === undefined ? {} : { logIntroduction }),
    });
    const route = routes.find(({ path }) => path === paths.redeem);
    const answer = await callRoute(route, { body, peerChain: identity.chain });
    return parseRedeemAnswer(Buffer.from(answer.body));
  };
  const invite = async (forWhom?: typeof identity.trustDomain): Promise<void> => {
    site = await testPeerSite();
    const options = forWhom === undefined ? {} : { for: forWhom };
    const { invitation } = await site.inviter.invite(owner, options);
    ({ secret } = parseInvitation(invitation, site.clock.now()));
  };
  beforeEach(() => invite(identity.trustDomain));

  test('is kept with the peer, and the answer introduces the key of this site', async () => {
    const answer = await redeem(await introduction(name, self));
    assert.equal(answer.state, 'accepted');
    const { key, uid } = witnessing.witness.logs.get(name)?.value ?? {};
    assert.equal(key, keyOf(name));
    assert.equal(uid, (await site.peers.get(name))?.metadata.uid);
    const own = readIntroduction(answer.logIntroduction ?? '', self, name);
    assert.equal(own.text, witnessing.publicLog.verifier.text);
    assert.deepEqual(await refusals(), []);
  });

  test('is optional: a site of an earlier version has none', async () => {
    assert.equal((await redeem()).state, 'accepted');
    assert.equal(knownKey(), undefined);
  });

  test('is refused and audited if it is bad, and the site is a peer all the same', async () => {
    for (const [text, why] of bad) {
      witnessing = await testWitnessSite(self);
      await invite(identity.trustDomain);
      assert.equal((await redeem(text)).state, 'accepted');
      assert.equal(knownKey(), undefined, text);
      assert.match((await refusals()).join(), why);
    }
  });

  test('makes the message malformed if it is too long, and nothing is spent', async () => {
    const { revision } = site.store;
    await assert.rejects(redeem('x'.repeat(4097)), withErrorCode('HANSA_BAD_REQUEST'));
    assert.equal(site.store.revision, revision);
  });

  test('is not kept before an operator has confirmed the site', async () => {
    await invite();
    const text = await introduction(name, self);
    assert.equal((await redeem(text)).state, 'pending');
    assert.equal(knownKey(), undefined);
    await site.inviter.confirm(name, owner);
    assert.equal((await redeem(text)).state, 'accepted');
    assert.equal(knownKey(), keyOf(name));
  });

  test('stays if the redemption is repeated, also with another key', async () => {
    const text = await introduction(name, self);
    await redeem(text);
    const { revision } = witnessing.store;
    await redeem(text);
    await redeem(await introduction(name, self, 3));
    assert.equal(witnessing.store.revision, revision);
    assert.equal(knownKey(), keyOf(name));
  });
});

suite('the key of the log of the site that invited', () => {
  const accept = async (logIntroduction?: string): Promise<TestPeerSite> => {
    const redeem: Acceptor['redeem'] = () =>
      Promise.resolve({
        state: 'accepted',
        contractVersion: 1,
        document,
        ...(logIntroduction === undefined ? {} : { logIntroduction }),
      });
    const site = await testPeerSite({ redeem }, {}, ({ metadata }, text) =>
      witnessing.witness.introduced(metadata, text),
    );
    await testAcceptance(site, name);
    await site.handshake.reconcile(name, signal);
    return site;
  };

  test('is kept with the peer', async () => {
    const site = await accept(await introduction(name, self));
    const { key, uid } = witnessing.witness.logs.get(name)?.value ?? {};
    assert.equal(key, keyOf(name));
    assert.equal(uid, (await site.peers.get(name))?.metadata.uid);
  });

  test('is refused and audited if it is bad, and the site is a peer all the same', async () => {
    for (const [text, why] of bad) {
      witnessing = await testWitnessSite(self);
      const site = await accept(text);
      assert.equal((await site.peers.get(name))?.status?.state, 'enrolled');
      assert.equal(knownKey(), undefined, text);
      assert.match((await refusals()).join(), why);
    }
  });
});

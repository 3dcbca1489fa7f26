import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { Acceptor } from './acceptor.ts';
import { defaultPeeringSettings } from '../settings.ts';
import { fingerprintOf, keyDigests } from '../../core/identity/bundle/fingerprint.ts';
import { invitationId, secretDigest } from './invitation.ts';
import {
  type Answering,
  documentOf,
  leadingTo,
  type TestIdentity,
  testIdentity,
} from './test-handshake.ts';

const secret = Buffer.alloc(32, 7);
const noSignal = new AbortController().signal;

suite('an accepting site', () => {
  let lubeck: TestIdentity;
  let bruges: TestIdentity;
  let mallory: TestIdentity;
  let falseLubeck: TestIdentity;

  before(async () => {
    lubeck = await testIdentity('lubeck.example');
    bruges = await testIdentity('bruges.example');
    mallory = await testIdentity('mallory.example');
    falseLubeck = await testIdentity('lubeck.example', 'mallory');
  });

  const accepting = (answering: Answering) => {
    const { transport, sent } = leadingTo(answering);
    const acceptor = new Acceptor({
      trustDomain: bruges.trustDomain,
      transport,
      clock: new VirtualClock(),
      random: new SeededRandom('acceptor'),
      settings: defaultPeeringSettings,
      own: bruges.authority,
      document: async () => documentOf([bruges]),
      advertiseURL: () => 'https://bruges.example:8443',
    });
    const inviter = {
      url: new URL('https://lubeck.example:8443/'),
      trustDomain: lubeck.trustDomain,
      keys: keyDigests(lubeck.authority.bundle),
    };
    const invitation = { ...inviter, secret, expiresAtMs: Date.UTC(2026, 0, 1) };
    return { acceptor, inviter, invitation, sent };
  };

  test('sends the secret to the site that was pinned, and to it alone', async () => {
    const { acceptor, inviter, sent } = accepting({
      chain: lubeck.chain,
      document: documentOf([lubeck]),
      answer: { state: 'accepted', contractVersion: 1 },
    });
    const answer = await acceptor.redeem(inviter, secret, noSignal);
    assert.equal(answer.state, 'accepted');
    assert.equal(answer.document, documentOf([lubeck]));
    const [fetched, redeemed] = sent;
    // Who we are, and what we know, comes after the other side has shown who it is.
    assert.deepEqual([fetched?.asSite, fetched?.request.method], [false, 'GET']);
    assert.deepEqual([redeemed?.asSite, redeemed?.request.method], [true, 'POST']);
  });

  test('shows that it knows the secret before using it, without giving it away', async () => {
    const { acceptor, invitation, sent } = accepting({
      chain: lubeck.chain,
      document: documentOf([lubeck]),
      answer: { contractVersion: 1, offers: ['db'], confirmation: false },
    });
    const preview = await acceptor.preview(invitation);
    assert.deepEqual(preview, {
      invitation: invitationId(secretDigest(secret)),
      trustDomain: 'lubeck.example',
      url: 'https://lubeck.example:8443/',
      fingerprint: fingerprintOf(invitation.keys),
      expiresAt: '2026-01-01T00:00:00Z',
      contractVersion: 1,
      offers: ['db'],
      confirmation: false,
    });
    assert.ok(sent.every(({ asSite }) => !asSite));
    const bytes = Buffer.concat(sent.map(({ request }) => Buffer.from(request.body ?? [])));
    assert.ok(!bytes.includes(secret.toString('base64url')));
  });

  test('uses no version of the API that it does not support', async () => {
    const { acceptor, invitation, sent } = accepting({
      chain: lubeck.chain,
      document: documentOf([lubeck]),
      answer: { contractVersion: 2, offers: [], confirmation: false },
    });
    await assert.rejects(acceptor.preview(invitation), {
      code: 'HANSA_CONTRACT_VERSION',
      message: /lubeck\.example supports 2\. Update the older/,
    });
    assert.ok(sent.every(({ asSite }) => !asSite));
  });

  test('sends nothing to a site that is not the one that was pinned', async () => {
    const strangers: Record<string, [() => Answering, RegExp]> = {
      'a site of its own': [
        () => ({ chain: mallory.chain, document: documentOf([mallory]) }),
        /none of its keys is in the invitation/,
      ],
      'a site of the same name': [
        () => ({ chain: falseLubeck.chain, document: documentOf([falseLubeck]) }),
        /none of its keys is in the invitation/,
      ],
      'one that passes on the genuine bundle': [
        () => ({ chain: falseLubeck.chain, document: documentOf([lubeck]) }),
        /is not the lubeck\.example of the invitation/,
      ],
      'one that adds its key to the genuine bundle': [
        () => ({ chain: falseLubeck.chain, document: documentOf([lubeck, falseLubeck]) }),
        /is not the lubeck\.example of the invitation/,
      ],
      'a workload of the genuine site': [
        () => ({ chain: lubeck.workloadChain, document: documentOf([lubeck]) }),
        /presented spiffe:\/\/lubeck\.example\/web/,
      ],
      'one without a certificate': [
        () => ({ chain: [], document: documentOf([lubeck]) }),
        /is not the lubeck\.example of the invitation/,
      ],
      'one whose bundle holds our own authority': [
        () => ({ chain: lubeck.chain, document: documentOf([lubeck, bruges]) }),
        /contains an authority of this site/,
      ],
      'one that answers something else': [
        () => ({ chain: lubeck.chain, document: '<html>' }),
        /is not the lubeck\.example of the invitation/,
      ],
    };
    for (const [who, [answering, why]] of Object.entries(strangers)) {
      const { acceptor, inviter, invitation, sent } = accepting(answering());
      for (const attempt of [
        () => acceptor.redeem(inviter, secret, noSignal),
        () => acceptor.preview(invitation),
      ]) {
        await assert.rejects(attempt, { code: 'HANSA_PEER_UNTRUSTED', message: why }, who);
      }
      assert.ok(
        sent.every(({ request, asSite }) => request.method === 'GET' && !asSite),
        who,
      );
    }
  });
});

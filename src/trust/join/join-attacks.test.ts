import assert from 'node:assert/strict';
import { generateKeyPairSync, hash } from 'node:crypto';
import { after, before, suite, test } from 'node:test';
import fc from 'fast-check';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { systemRandom } from '../../core/clock/system.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import {
  ecKey,
  forge,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../core/identity/x509/test-forge.ts';
import { signTranscript } from './proof.ts';
import {
  type Attempt,
  attemptJoin,
  bruges,
  ciToken,
  exporterOf,
  initMessage,
  joinSite,
  type Outcome,
  ownKey,
  RawCall,
  runner,
  solutionMessage,
  svidOf,
  type TestJoinSite,
} from './test-join-site.ts';
import { joinTranscript } from './transcript.ts';
import { paths } from './wire.ts';

const visby = forgeRoot('visby.example');
const novgorod = forgeRoot('novgorod.example');
const identity = 'spiffe://bruges.example/ci/runner';

/** Well-formed joins that the site rejects. The client gets the same response for each of them. */
const refused: readonly (readonly [what: string, why: RegExp, attempt: Attempt])[] = [
  ['an unknown token', /no token "nothing"/, { wish: { token: 'nothing' } }],
  [
    'a token with the name of a property',
    /no token "constructor"/,
    { wish: { token: 'constructor' } },
  ],
  ['an expired token', /expired \d+ s ago/, { wish: { token: 'over' } }],
  [
    'a token of another method',
    /has the method secret/,
    { wish: { token: 'machines', role: 'agent', name: 'x' } },
  ],
  [
    'a role that is not in the token',
    /not for the role "agent"/,
    { wish: { token: 'bots', role: 'agent', name: 'x' } },
  ],
  ['a role that there is not', /not for the role "admin"/, { wish: { role: 'admin' } }],
  ['a bot that asks for a name', /must not contain one/, { wish: { name: 'admin' } }],
  ['an agent without a name', /not a valid agent name/, { wish: { role: 'agent' } }],
  [
    'an agent whose name has a slash',
    /not a valid agent name/,
    { wish: { role: 'agent', name: '../user/admin' } },
  ],
  [
    'an agent whose name has a capital',
    /not a valid agent name/,
    { wish: { role: 'agent', name: 'Admin' } },
  ],
  ['a signature with another key', /the key of the SVID did not sign/i, { signWith: ecKey() }],
  [
    'a signature of nothing',
    /the key of the SVID did not sign/i,
    { signature: () => Buffer.alloc(0) },
  ],
  ['a signature with a bit turned', /the key of the SVID did not sign/i, { signature: flipped }],
  [
    'a signature of the bare nonce',
    /the key of the SVID did not sign/i,
    { transcript: (right) => right.subarray(-84, -52) },
  ],
  [
    'a transcript with another exporter, as of one who relays',
    /from another connection/,
    { exporter: Buffer.alloc(32) },
  ],
  [
    'an identity that no rule allows',
    /allows spiffe:\/\/bruges\.example\/web/,
    svidOf(forgeLeaf(bruges, 'spiffe://bruges.example/web')),
  ],
  [
    'an identity one segment too deep',
    /No rule/,
    svidOf(forgeLeaf(bruges, 'spiffe://bruges.example/ci/a/b')),
  ],
  [
    'another site',
    /No rule/,
    { ...svidOf(forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site')), wish: { token: 'all' } },
  ],
  [
    'an SVID of an unknown trust domain',
    /no bundle of the trust domain visby/,
    svidOf(forgeLeaf(visby, 'spiffe://visby.example/ci/runner')),
  ],
  [
    'an SVID of a believed domain that another believed one signed',
    /unknown-authority|trust-domain/,
    svidOf(forgeLeaf(novgorod, identity)),
  ],
  [
    'an authority of another domain under the name of the right one',
    /signature does not verify/,
    svidOf(forgeLeaf(bruges, identity, { signingKey: novgorod.key })),
  ],
  [
    'an expired SVID',
    /expired/,
    svidOf(forgeLeaf(bruges, identity, { notAfterMs: Date.UTC(2021, 0) })),
  ],
  [
    'an SVID of the future',
    /not-yet-valid/,
    svidOf(forgeLeaf(bruges, identity, { notBeforeMs: Date.UTC(2048, 0) })),
  ],
  ['a CA as a leaf', /leaf-not-ca/, svidOf(forgeLeaf(bruges, identity, { ca: true }))],
  ['the authority itself', /leaf-not-ca/, svidOf(bruges)],
  ['a leaf that signed a leaf', /signing-is-ca/, svidOf(forgeLeaf(runner, identity), runner)],
  [
    'two identities in one',
    /exactly-one-uri/,
    svidOf(forge({ issuer: bruges, ca: false, uris: [identity, 'spiffe://bruges.example/ci/2'] })),
  ],
  ['no certificate', /malformed-der/, { chain: [Buffer.alloc(0)] }],
  ['bytes that are none', /malformed-der/, { chain: [Buffer.from('certificate')] }],
  [
    'a certificate and garbage above it',
    /malformed-der/,
    { chain: [runner.der, Buffer.from('30', 'hex')] },
  ],
  ['nine certificates', /size-limit/, { chain: Array.from({ length: 9 }, () => runner.der) }],
  ['a certificate of 17 KiB', /size-limit/, { chain: [Buffer.alloc(17 * 1024, 0x30)] }],
  ['a weak key in the SVID', /RSA key has 1024 bits/, weak()],
  ['no key to be certified', /malformed-der/, { publicKey: Buffer.alloc(0) }],
  ['a weak key to be certified', /RSA key has 1024 bits/, { publicKey: weakSpki() }],
];

function flipped(right: Buffer): Buffer {
  const wrong = Buffer.from(right);
  wrong[wrong.length - 1] = (wrong[wrong.length - 1] as number) ^ 1;
  return wrong;
}

function weakSpki(): Buffer {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
  return publicKey.export({ format: 'der', type: 'spki' });
}

function weak(): Attempt {
  return { ...svidOf(forgeLeaf(bruges, identity, { spki: weakSpki() })), signWith: runner.key };
}

const isJoined = (outcome: Outcome): boolean => 'joined' in outcome;

suite('a join that is refused', () => {
  let site: TestJoinSite;

  before(async () => {
    site = await joinSite();
    site.bundles.set('novgorod.example', novgorod);
    await site.createToken('ci-runners', ciToken);
    await site.createToken('bots', { ...ciToken, roles: ['bot'] });
    await site.createToken('over', { ...ciToken, expiresAt: '2020-01-01T00:00:00Z' });
    await site.createToken('all', {
      ...ciToken,
      spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/**' }] },
    });
    await site.createToken('machines', {
      method: 'secret',
      roles: ['agent'],
      expiresAt: '2099-01-01T00:00:00Z',
    });
  });
  after(() => site.stop());

  const answers: Outcome[] = [];
  for (const [what, why, attempt] of refused) {
    test(`for ${what} tells the operator, and nobody else`, async () => {
      const denied = site.denials.length;
      const outcome = await attemptJoin(await site.dial(), attempt);
      answers.push(outcome);
      assert.deepEqual(outcome, {
        status: '7',
        message:
          'The join is rejected. The operator of the site finds the reason in the audit log within a minute: hansa audit list --outcome deny -o wide',
      });
      assert.equal(site.denials.length, denied + 1);
      const row = site.denials.at(-1);
      assert.match(row?.reason ?? '', why);
      assert.match(row?.verb ?? '', /^(?:agent|bot)\.join$/);
      assert.equal(row?.outcome, 'deny');
    });
  }

  test('is answered with the same bytes whatever the reason, and leaves nothing behind', () => {
    assert.equal(answers.length, refused.length);
    assert.equal(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
    assert.deepEqual(site.members.list(), []);
    assert.deepEqual(site.records, []);
  });

  test('takes the same checks of signatures, in number and kind, as one that is not', async () => {
    const sequence = async (attempt: Attempt): Promise<string[]> => {
      site.checks.length = 0;
      await attemptJoin(await site.dial(), attempt);
      return [...site.checks].toSorted();
    };
    const good = await sequence({});
    assert.equal(good.length, 5);
    for (const [what, , attempt] of refused) {
      assert.deepEqual(await sequence(attempt), good, what);
    }
  });

  test('is one by an SVID of a peer that is not trusted any more, however its bundle came here', async () => {
    const peers = site.resources<FederationPeer>(federationPeerKind);
    const as = { controller: 'test' };
    const spec = { url: 'https://bruges.example', desiredState: 'active' } as const;
    await peers.create({ name: 'bruges.example', spec }, as);
    const states = ['active', 'degraded', 'suspended', 'revoked', 'enrolled'] as const;
    const joined: boolean[] = [];
    for (const state of states) {
      const since = '2026-01-01T00:00:00Z';
      await peers.patchStatus('bruges.example', () => ({ state, since }), as);
      joined.push(isJoined(await attemptJoin(await site.dial(), {})));
    }
    assert.deepEqual(joined, [true, true, false, false, false]);
    assert.match(site.denials.at(-1)?.reason ?? '', /no bundle of the trust domain bruges/);
    await peers.delete('bruges.example', as);
    assert.ok(isJoined(await attemptJoin(await site.dial(), {})));
  });

  test('names only a proven identity as the one who acted', async () => {
    const other = forgeLeaf(bruges, 'spiffe://bruges.example/web');
    await attemptJoin(await site.dial(), svidOf(other));
    assert.equal(site.denials.at(-1)?.actor.user, 'spiffe://bruges.example/web');
    await attemptJoin(await site.dial(), { ...svidOf(other), signWith: ecKey() });
    assert.equal(site.denials.at(-1)?.actor.user, 'system:anonymous');
  });

  test('writes no more of what a stranger wrote into the audit log than tells what it was', async () => {
    await attemptJoin(await site.dial(), { wish: { token: 'n'.repeat(60_000) } });
    await attemptJoin(await site.dial(), { wish: { role: 'agent', name: 'n'.repeat(60_000) } });
    await attemptJoin(await site.dial(), { wish: { role: 'r'.repeat(60_000) } });
    for (const denial of site.denials.slice(-3)) {
      assert.ok(JSON.stringify(denial).length < 2_000, JSON.stringify(denial).slice(0, 300));
    }
  });

  test('is counted by its reason', () => {
    const text = site.metrics.expose();
    for (const reason of ['unknown-token', 'expired-token', 'bad-signature', 'denied-identity']) {
      assert.match(
        text,
        new RegExp(`hansa_joins_total\\{method="spiffe",result="${reason}"\\} \\d`),
      );
    }
  });
});

suite('a conversation', () => {
  let site: TestJoinSite;
  before(async () => {
    site = await joinSite();
    await site.createToken('ci-runners', ciToken);
  });
  after(() => site.stop());

  const solve = (
    session: Parameters<typeof exporterOf>[0],
    nonces: {
      readonly client: Uint8Array;
      readonly server: Uint8Array;
    },
  ): Uint8Array => {
    const transcript = joinTranscript(
      { token: 'ci-runners', role: 'bot', name: '' },
      {
        method: paths.spiffe,
        trustDomain: 'lubeck.example',
        publicKey: PublicKey.of(ownKey).spki,
        credential: hash('sha256', runner.der, 'buffer'),
        clientNonce: nonces.client,
        serverNonce: nonces.server,
        exporter: exporterOf(session),
      },
    );
    return solutionMessage(signTranscript(transcript, runner.key));
  };

  test('has a nonce of the server that is never the same', async () => {
    const session = await site.dial();
    const seen = new Set<string>();
    for (let i = 0; i < 20; i++) {
      const call = new RawCall(session);
      call.send(initMessage({}, Buffer.alloc(32, 7)));
      const nonce = await call.nonce();
      assert.equal(nonce.length, 32);
      seen.add(Buffer.from(nonce).toString('hex'));
      call.stream.close();
    }
    assert.equal(seen.size, 20);
  });

  test('cannot be played again, on its own connection or on another', async () => {
    const session = await site.dial();
    const client = await systemRandom.bytes(32);
    const init = initMessage({}, client);
    const call = new RawCall(session);
    call.send(init);
    const solution = solve(session, { client, server: await call.nonce() });
    call.send(solution);
    assert.ok(isJoined(await call.outcome()));
    for (const again of [session, await site.dial()]) {
      const replay = new RawCall(again);
      replay.send(init);
      await replay.nonce();
      replay.send(solution);
      const outcome = await replay.outcome();
      assert.equal('status' in outcome && outcome.status, '7');
    }
  });

  test('that somebody in the middle relays is of two connections, and so refused', async () => {
    // The victim takes the relay for the site. Its signature covers its own connection to the relay.
    const victim = await site.dial();
    const relay = await site.dial();
    const client = await systemRandom.bytes(32);
    const call = new RawCall(relay);
    call.send(initMessage({}, client));
    call.send(solve(victim, { client, server: await call.nonce() }));
    assert.ok(!isJoined(await call.outcome()));
  });

  test('out of turn, cut off, or of garbage is refused without a look at anything', async () => {
    const session = await site.dial();
    const denied = site.denials.length;
    const statusOf = async (say: (call: RawCall) => Promise<void> | void): Promise<string> => {
      const call = new RawCall(session);
      await say(call);
      while ((await call.read()) !== undefined);
      return call.status;
    };
    const init = initMessage({}, Buffer.alloc(32));
    assert.equal(await statusOf((call) => call.send(solutionMessage(Buffer.alloc(64)))), '3');
    assert.equal(await statusOf((call) => call.send(Buffer.from('garbage'))), '3');
    assert.equal(await statusOf((call) => call.send(Buffer.alloc(0))), '3');
    assert.equal(await statusOf((call) => call.send(initMessage({}, Buffer.alloc(31)))), '3');
    assert.equal(await statusOf((call) => void call.stream.end()), '3');
    assert.equal(
      await statusOf((call) => {
        call.send(init);
        call.stream.end();
      }),
      '3',
    );
    assert.equal(
      await statusOf((call) => {
        call.send(init);
        call.send(init);
      }),
      '3',
    );
    assert.equal(await statusOf((call) => call.send(Buffer.alloc(65 * 1024))), '8');
    assert.equal(site.denials.length, denied);
  });

  test('whose bytes are turned anywhere never gives an SVID, and the site goes on', async () => {
    const session = await site.dial();
    const init = Buffer.from(initMessage({}, Buffer.alloc(32, 1)));
    await fc.assert(
      fc.asyncProperty(
        fc.nat(init.length - 1),
        fc.integer({ min: 1, max: 255 }),
        async (at, by) => {
          const changed = Buffer.from(init);
          changed[at] = (changed[at] as number) ^ by;
          const call = new RawCall(session);
          call.send(changed);
          const first = await call.read();
          if (first === undefined) return;
          call.send(solutionMessage(Buffer.alloc(70, 1)));
          assert.ok(!isJoined(await call.outcome()));
        },
      ),
      { numRuns: 100 },
    );
    assert.ok(isJoined(await attemptJoin(session)));
  });

  test('of which 1,000 stay half open has its share, and lets others in when it ends', async () => {
    const session = await site.dial();
    const calls = Array.from({ length: 1000 }, () => {
      const call = new RawCall(session);
      call.send(initMessage({}, Buffer.alloc(32, 2)));
      return call;
    });
    const firsts = await Promise.all(calls.map((call) => call.read()));
    const standing = calls.filter((_, index) => firsts[index] !== undefined);
    assert.equal(standing.length, 16);
    for (const call of calls) if (!standing.includes(call)) assert.equal(call.status, '8');
    for (const call of standing) call.stream.close();
    session.destroy();
    let outcome: Outcome;
    do outcome = await attemptJoin(await site.dial());
    while ('status' in outcome && outcome.status === '8');
    assert.ok(isJoined(outcome));
  });
});

test('decoys are of every kind of key', async () => {
  const site = await joinSite();
  await site.createToken('ci-runners', ciToken);
  try {
    for (const root of [
      generateKeyPairSync('ec', { namedCurve: 'secp384r1' }).privateKey,
      generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey,
      generateKeyPairSync('ed25519').privateKey,
    ]) {
      const algorithm =
        root.asymmetricKeyDetails?.namedCurve === 'secp384r1'
          ? { algorithm: 'ecdsa-sha384' as const }
          : {};
      const believed: Forged = forgeRoot('bruges.example', { key: root, ...algorithm });
      const leaf = forgeLeaf(believed, identity, algorithm);
      site.bundles.remove('bruges.example');
      site.checks.length = 0;
      assert.ok(!isJoined(await attemptJoin(await site.dial(), svidOf(leaf))));
      const unknown = [...site.checks];
      site.bundles.set('bruges.example', believed);
      site.checks.length = 0;
      assert.ok(isJoined(await attemptJoin(await site.dial(), svidOf(leaf))));
      assert.deepEqual(unknown, site.checks);
    }
  } finally {
    await site.stop();
  }
});

// What strangers make a site verify: for every rule by which a chain can be refused, how many signatures a
// connection costs, and the next ones.

import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Bundle } from '../bundle/bundle.ts';
import { emptyName, name } from './build-certificate.ts';
import { ChainVerifier, strangerRate, verificationMs } from './chain-verifier.ts';
import { keyUsageBits } from './extensions.ts';
import { brokenRule, type Rule, rules } from './rules.ts';
import { maxChainLength, parseChain } from './svid-validator.ts';
import {
  BundleTable,
  ecKey,
  extension,
  forge,
  type Forged,
  type ForgeOptions,
  forgeLeaf,
  forgeRoot,
  hourMs,
  wholeSecond,
} from './test-forge.ts';
import { poolVerify } from './verify-queue.ts';
import { VirtualClock } from '../../clock/virtual.ts';
import { TokenBuckets } from '../../limits/token-buckets.ts';

const nowMs = Date.now();
const trustDomain = TrustDomain.parse('lubeck.example');
const web = 'spiffe://lubeck.example/web';
const p521 = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'secp521r1' }).privateKey;
const past = wholeSecond(nowMs - 5_000);
const future = wholeSecond(nowMs + hourMs);

/** Subject and authority key identifiers of one byte. */
const keyIds = (own: number, issuer = own): readonly Buffer[] => [
  extension('551d0e', false, Buffer.of(4, 1, own)),
  extension('551d23', false, Buffer.of(0x30, 3, 0x80, 1, issuer)),
];

const root = forgeRoot('lubeck.example', { key: p521(), extra: keyIds(1) });

/** What everybody can see of our authority: its name and its key identifier. Only its key is another one. */
const impostor = forgeRoot('lubeck.example', {
  key: p521(),
  subject: root.certificate.subject,
  extra: keyIds(1),
});

/** Self-made authorities below `top`, from the lowest. */
function pile(top: Forged, count: number, ...changes: readonly ForgeOptions[]): readonly Forged[] {
  const made: Forged[] = [top];
  for (let at = 0; at < count; at++) {
    const options = { ca: true, uris: ['spiffe://lubeck.example'], ...changes[at] };
    made.unshift(forge({ issuer: made[0] as Forged, key: p521(), ...options }));
  }
  return made.slice(0, -1);
}

const critical = extension('2a0304', true, Buffer.of(5, 0));
const constraints = extension('551d1e', true, Buffer.from('3000', 'hex'));
const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey;
const long = pile(impostor, 6);
const lowest = long[0] as Forged;

/** Leaves and authorities with a fault, all under the name and key identifier of our authority. */
const leafWith = (options: ForgeOptions): readonly Forged[] => [
  forgeLeaf(lowest, web, options),
  ...long,
];
const authorityWith = (options: ForgeOptions): readonly Forged[] => {
  const authorities = pile(impostor, 6, options);
  return [forgeLeaf(authorities[0] as Forged, web), ...authorities];
};

interface Case {
  readonly what: string;
  readonly rule: Rule;
  readonly chain: () => readonly Forged[];
  /** Signatures that the first connection costs. */
  readonly first: number;
}

const cases: readonly Case[] = [
  {
    what: 'a chain of eight that our authority did not sign',
    rule: 'signature',
    first: 1,
    chain: () => leafWith({}),
  },
  {
    what: 'a leaf that our authority did not sign',
    rule: 'signature',
    first: 1,
    chain: () => [forgeLeaf(impostor, web)],
  },
  {
    what: 'a last authority that has expired',
    rule: 'expired',
    first: 0,
    chain: () => authorityWith({ notAfterMs: past }),
  },
  {
    what: 'a leaf that has expired',
    rule: 'expired',
    first: 0,
    chain: () => leafWith({ notAfterMs: past }),
  },
  {
    what: 'a leaf that is not valid yet',
    rule: 'not-yet-valid',
    first: 0,
    chain: () => leafWith({ notBeforeMs: future }),
  },
  {
    what: 'an authority that is not valid yet',
    rule: 'not-yet-valid',
    first: 0,
    chain: () => authorityWith({ notBeforeMs: future }),
  },
  {
    what: 'authorities of another name',
    rule: 'unknown-authority',
    first: 0,
    chain: () => {
      const other = forgeRoot('lubeck.example', { key: p521() });
      const authorities = pile(other, 6);
      return [forgeLeaf(authorities[0] as Forged, web), ...authorities, other];
    },
  },
  {
    what: 'another key identifier',
    rule: 'unknown-authority',
    first: 0,
    chain: () => [forgeLeaf(root, web, { extra: keyIds(9, 2) })],
  },
  {
    what: 'a chain out of order',
    rule: 'unknown-authority',
    first: 0,
    chain: () => [forgeLeaf(lowest, web), ...long.toReversed()],
  },
  {
    what: 'another key algorithm',
    rule: 'signature',
    first: 0,
    chain: () => [
      forgeLeaf(impostor, web, { signingKey: generateKeyPairSync('ed25519').privateKey }),
    ],
  },
  {
    what: 'an unknown trust domain',
    rule: 'no-bundle',
    first: 0,
    chain: () => leafWith({ uris: ['spiffe://reval.example/web'] }),
  },
  {
    what: 'nine certificates',
    rule: 'size-limit',
    first: 0,
    chain: () => [forgeLeaf(lowest, web), ...long, impostor, impostor],
  },
  { what: 'no certificate', rule: 'no-certificate', first: 0, chain: () => [] },
  {
    what: 'a serial number of zero',
    rule: 'serial-number',
    first: 0,
    chain: () => leafWith({ serial: Buffer.of(0) }),
  },
  {
    what: 'SHA-1',
    rule: 'signature-algorithm',
    first: 0,
    chain: () => leafWith({ algorithmIdentifier: Buffer.from('300906072a8648ce3d0401', 'hex') }),
  },
  {
    what: 'a weak key',
    rule: 'public-key',
    first: 0,
    chain: () => leafWith({ spki: weak.export({ format: 'der', type: 'spki' }) }),
  },
  {
    what: 'an issuer without a name',
    rule: 'issuer',
    first: 0,
    chain: () => leafWith({ issuerName: emptyName }),
  },
  {
    what: 'an end before its beginning',
    rule: 'validity',
    first: 0,
    chain: () => leafWith({ notBeforeMs: future, notAfterMs: past }),
  },
  {
    what: 'an unknown critical extension',
    rule: 'unknown-critical-extension',
    first: 0,
    chain: () => authorityWith({ extra: [critical] }),
  },
  {
    what: 'name constraints',
    rule: 'name-constraints',
    first: 0,
    chain: () => authorityWith({ extra: [constraints] }),
  },
  {
    what: 'an alternative name that is not critical',
    rule: 'critical-san',
    first: 0,
    chain: () => leafWith({ subject: emptyName }),
  },
  {
    what: 'two URIs',
    rule: 'exactly-one-uri',
    first: 0,
    chain: () => leafWith({ uris: [web, `${web}2`] }),
  },
  {
    what: 'another URI',
    rule: 'spiffe-id',
    first: 0,
    chain: () => leafWith({ uris: ['https://lubeck.example'] }),
  },
  {
    what: 'a leaf without a path',
    rule: 'leaf-path',
    first: 0,
    chain: () => leafWith({ uris: ['spiffe://lubeck.example'] }),
  },
  {
    what: 'an authority with a path',
    rule: 'signing-path',
    first: 0,
    chain: () => authorityWith({ uris: [web] }),
  },
  {
    what: 'a leaf that is a CA',
    rule: 'leaf-not-ca',
    first: 0,
    chain: () => leafWith({ ca: true }),
  },
  {
    what: 'an issuer that is no CA',
    rule: 'signing-is-ca',
    first: 0,
    chain: () => authorityWith({ ca: false }),
  },
  { what: 'no key usage', rule: 'key-usage', first: 0, chain: () => leafWith({ keyUsage: null }) },
  {
    what: 'a leaf that may sign',
    rule: 'leaf-key-usage',
    first: 0,
    chain: () => leafWith({ keyUsage: keyUsageBits.keyCertSign }),
  },
  {
    what: 'an issuer that may not sign',
    rule: 'signing-key-usage',
    first: 0,
    chain: () => authorityWith({ keyUsage: keyUsageBits.digitalSignature }),
  },
  {
    what: 'no purpose of a client',
    rule: 'extended-key-usage',
    first: 0,
    chain: () => leafWith({ purposes: [Buffer.from('2b06010505070301', 'hex')] }),
  },
  {
    what: 'a path that is too long',
    rule: 'path-length',
    first: 0,
    chain: () => authorityWithLimit(),
  },
  {
    what: 'an authority of another trust domain',
    rule: 'trust-domain',
    first: 0,
    chain: () => authorityWith({ uris: ['spiffe://bruges.example'] }),
  },
];

/** The second authority from the top allows none below it. */
function authorityWithLimit(): readonly Forged[] {
  const authorities = pile(impostor, 6, { pathLength: 0 });
  return [forgeLeaf(authorities[0] as Forged, web), ...authorities];
}

/** Refused before a chain exists: a certificate that breaks them cannot be parsed. */
const ofParsing: readonly Rule[] = [
  'malformed-der',
  'version-3',
  'duplicate-extension',
  'subject-alternative-name',
  'key-identifier',
];
/** Not of chains that callers present. */
const ofOthers: readonly Rule[] = [
  'request-version',
  'session-reused',
  'expected-id',
  'server-name',
  'web-authority',
  'pinned-key',
];

test('the table has every rule by which a chain can be refused', () => {
  const covered = new Set([...cases.map(({ rule }) => rule), ...ofParsing, ...ofOthers]);
  assert.deepEqual([...covered].toSorted(), Object.keys(rules).toSorted());
});

/** A site that counts what it verifies off its main thread. It never verifies anything there. */
function site(bundles = new BundleTable().set('lubeck.example', root)) {
  const verified: string[] = [];
  const verifier = new ChainVerifier({
    bundles,
    queue: {
      of:
        (source) =>
        (...parts) => {
          verified.push(source);
          return poolVerify(...parts);
        },
    },
  });
  const counted = () => verified.splice(0).length;
  /** As a new connection: the same bytes, parsed again. */
  const present = (ders: readonly Buffer[]) =>
    // The verifier has the limit too, so a chain that is too long is not parsed by `parseChain`.
    ders.length > maxChainLength ? ders.flatMap((der) => parseChain([der])) : parseChain(ders);
  return { bundles, verifier, counted, present };
}

const ruleOf = (verdict: { readonly refusal: unknown } | undefined): Rule | undefined =>
  brokenRule(verdict?.refusal);

suite('a stranger costs a site signatures', () => {
  for (const { what, rule, chain: forged, first } of cases) {
    test(`${first} with ${what} (${rule}), and none later`, async () => {
      const { bundles, verifier, counted, present } = site();
      const ders = forged().map(({ der }) => der);
      const connection = present(ders);
      const before = verifier.recall(connection, nowMs);
      assert.equal(before === undefined, first > 0, 'whether a signature must be verified');
      assert.equal(ruleOf(await verifier.judgeFor('a', connection, nowMs)), rule);
      assert.equal(counted(), first);
      for (let request = 0; request < 5; request++) {
        assert.equal(ruleOf(verifier.recall(connection, nowMs)), rule);
      }
      assert.equal(ruleOf(verifier.recall(present(ders), nowMs)), rule, 'on another connection');
      bundles.set('lubeck.example', root, forgeRoot('lubeck.example'));
      assert.equal(ruleOf(verifier.recall(present(ders), nowMs)), rule, 'with a changed bundle');
      assert.equal(counted(), 0);
    });
  }

  test('none with certificates that cannot be read', () => {
    const { der } = forgeLeaf(root, web, {
      ca: null,
      extra: [extension('551d13', true, Buffer.from('3003010100', 'hex'))],
    });
    assert.throws(
      () => parseChain([der]),
      (error) => brokenRule(error) === 'malformed-der',
    );
  });

  test('one with a genuine authority of ours above its own leaf, and the link above it once for all', async () => {
    const { verifier, counted, present } = site();
    const genuine = forge({
      issuer: root,
      ca: true,
      uris: ['spiffe://lubeck.example'],
      extra: keyIds(3, 1),
    });
    const posing = { ...genuine, key: p521() };
    for (const expected of [2, 1, 1]) {
      const chain = present([forgeLeaf(posing, web).der, genuine.der]);
      assert.equal(ruleOf(await verifier.judgeFor('a', chain, nowMs)), 'signature');
      assert.equal(counted(), expected);
    }
  });

  test('as many as there are authorities to choose from, where none has a key identifier, and at most four', async () => {
    const subject = name('test', 'everybody');
    const same = { subject, issuerName: subject };
    const roots = Array.from({ length: 10 }, () => forgeRoot('lubeck.example', same));
    const { verifier, counted, present } = site(new BundleTable().set('lubeck.example', ...roots));
    const top = forge({ ca: true, ...same });
    const chain = [forgeLeaf(top, web), top].map(({ der }) => der);
    assert.equal(ruleOf(await verifier.judgeFor('a', present(chain), nowMs)), 'size-limit');
    assert.equal(counted(), 4);
  });
});

test('a refusal holds exactly as long as the times in it say', async () => {
  const { verifier, counted, present } = site();
  const notBeforeMs = wholeSecond(nowMs + 60_000);
  const notAfterMs = notBeforeMs + 60_000;
  const chain = present([
    forgeLeaf(root, web, { notBeforeMs, notAfterMs, extra: keyIds(9, 1) }).der,
  ]);
  const early = verifier.recall(chain, nowMs);
  assert.equal(ruleOf(early), 'not-yet-valid');
  assert.equal(verifier.recall(chain, notBeforeMs - 1), early);
  assert.equal((await verifier.judgeFor('a', chain, notBeforeMs))?.svid?.id.toString(), web);
  assert.equal(verifier.recall(chain, notAfterMs + 999)?.svid?.id.toString(), web);
  const late = verifier.recall(chain, notAfterMs + 1000);
  assert.equal(ruleOf(late), 'expired');
  assert.equal(verifier.recall(chain, notAfterMs + 1_000_000 * hourMs), late, 'for ever after');
  assert.equal(
    verifier.recall(chain, notAfterMs)?.svid?.id.toString(),
    web,
    'a clock that was wrong',
  );
  assert.equal(counted(), 1);
});

test('a chain that many present at once costs its signature once', async () => {
  const { verifier, counted, present } = site();
  const ders = leafWith({}).map(({ der }) => der);
  const verdicts = await Promise.all(
    Array.from({ length: 20 }, (_, at) => verifier.judgeFor(`${at}`, present(ders), nowMs)),
  );
  assert.ok(verdicts.every((verdict) => ruleOf(verdict) === 'signature'));
  assert.equal(counted(), 1);
});

test('after a change of the bundle, valid chains cost no signature, and lose their authority at once', async () => {
  const { bundles, verifier, counted, present } = site();
  const chain = present([forgeLeaf(root, web, { extra: keyIds(9, 1) }).der]);
  assert.ok((await verifier.judgeFor('a', chain, nowMs))?.svid);
  assert.equal(counted(), 1);
  bundles.set('lubeck.example', forgeRoot('lubeck.example'), root);
  assert.ok(verifier.recall(chain, nowMs)?.svid);
  bundles.set('lubeck.example', forgeRoot('lubeck.example'));
  assert.equal(ruleOf(verifier.recall(chain, nowMs)), 'unknown-authority');
  bundles.remove('lubeck.example');
  assert.equal(ruleOf(verifier.recall(chain, nowMs)), 'no-bundle');
  bundles.set('lubeck.example', root);
  assert.ok(verifier.recall(chain, nowMs)?.svid);
  assert.equal(counted(), 0);
});

test('a refusal does not keep the bundle that it was judged with', async () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage = runInNewContext('gc') as () => void;
  const { bundles, verifier, present } = site();
  // As a peer that publishes one bundle after the other, and is refused once with each.
  const olds = Array.from({ length: 20 }, () => {
    const issuer = forgeRoot('lubeck.example');
    bundles.set('lubeck.example', issuer);
    const chain = present([forgeLeaf(impostor, web).der]);
    assert.equal(ruleOf(verifier.recall(chain, nowMs)), 'unknown-authority');
    return new WeakRef(bundles.bundleFor(trustDomain) as Bundle);
  });
  bundles.set('lubeck.example', root);
  await turn();
  collectGarbage();
  const left = olds.filter((old) => old.deref() !== undefined).length;
  assert.ok(left < 3, `${left} old bundles are still in memory`);
});

test('wrong signatures use up the budget of their source, and valid ones do not', async () => {
  const clock = new VirtualClock();
  const bundles = new BundleTable().set('lubeck.example', root);
  let verified = 0;
  const verifier = new ChainVerifier({
    bundles,
    budget: new TokenBuckets({ clock, maxKeys: 10, ...strangerRate }),
    queue: {
      of:
        () =>
        (...parts) => {
          verified += 1;
          return poolVerify(...parts);
        },
    },
  });
  const quick = forgeRoot('lubeck.example');
  bundles.set('lubeck.example', root, quick);
  const wrong = () => parseChain([forgeLeaf(quick, web, { signingKey: other }).der]);
  const other = ecKey();
  const most = strangerRate.burst / verificationMs;
  let refused = 0;
  while ((await verifier.judgeFor('a', wrong(), nowMs)) !== undefined) refused += 1;
  assert.equal(refused, most);
  assert.equal(verified, most);
  assert.equal(ruleOf(await verifier.judgeFor('b', wrong(), nowMs)), 'signature', 'another source');
  await clock.advance(1000);
  for (let at = 0; at < most + 100; at++) {
    const key = (at % 255) + 1;
    const leaf = forgeLeaf(quick, web, { serial: Buffer.of(1, key, at & 0xff, 1) });
    assert.ok((await verifier.judgeFor('a', parseChain([leaf.der]), nowMs))?.svid);
  }
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Entry } from '../../core/store/store.ts';
import { Bundle, type JwtAuthority } from '../../core/identity/bundle/bundle.ts';
import { bundleLife, type FederationLike, sourceOf } from '../../api/bundle-life.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import {
  FederatedBundles,
  federationSummaries,
  federationsCollection,
} from './federated-bundles.ts';
import { sharesAuthority } from '../../core/identity/bundle/shares-authority.ts';
import { forgeRoot, type Forged } from '../../core/identity/x509/test-forge.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const bruges = TrustDomain.parse('bruges.example');
const ours = forgeRoot('lubeck.example');
const theirs = forgeRoot('bruges.example');
const own = { bundle: new Bundle(lubeck, [ours.certificate]) };

const documentOf = (...roots: readonly Forged[]): string =>
  encodeSpiffeBundle(
    new Bundle(
      bruges,
      roots.map(({ certificate }) => certificate),
    ),
    { sequence: 1, refreshHintSeconds: 300 },
  );

/** A store that holds one federation, which a test can change. */
function scene() {
  let entry: Entry | undefined;
  let revision = 0;
  const bundles = new FederatedBundles(
    {
      get: (collection, name) =>
        collection === federationsCollection && name === bruges.name ? entry : undefined,
    },
    own,
  );
  return {
    bundles,
    put: (federation: FederationLike) => {
      entry = {
        collection: federationsCollection,
        name: bruges.name,
        revision: ++revision,
        value: Buffer.from(JSON.stringify(federation)),
      };
    },
    remove: () => {
      entry = undefined;
    },
  };
}

test('our own trust domain is always ours, whatever the store says', () => {
  const { bundles } = scene();
  assert.equal(bundles.bundleFor(lubeck), own.bundle);
});

test('a trust domain without a federation is not believed', () => {
  assert.equal(scene().bundles.bundleFor(bruges), undefined);
});

test('the bundle that was accepted last is believed, and the bootstrap until there is one', () => {
  const { bundles, put } = scene();
  const newer = forgeRoot('bruges.example');
  const bundleSource = { httpsSpiffe: { bundleBootstrap: documentOf(theirs) } };
  put({ spec: { bundleSource } });
  assert.deepEqual(
    bundles.bundleFor(bruges)?.authorities.map(({ fingerprint }) => fingerprint),
    [theirs.certificate.fingerprint],
  );
  put({ spec: { bundleSource }, status: { bundle: documentOf(newer) } });
  assert.deepEqual(
    bundles.bundleFor(bruges)?.authorities.map(({ fingerprint }) => fingerprint),
    [newer.certificate.fingerprint],
  );
});

test('a static bundle is believed at once', () => {
  const { bundles, put } = scene();
  put({ spec: { bundleSource: { static: { bundle: documentOf(theirs) } } } });
  assert.equal(bundles.bundleFor(bruges)?.authorities.length, 1);
});

test('quarantine, deletion and removal end trust at the next question, and resuming brings it back', () => {
  const { bundles, put, remove } = scene();
  const status = { bundle: documentOf(theirs) };
  put({ status });
  assert(bundles.bundleFor(bruges));
  put({ status, spec: { quarantined: true } });
  assert.equal(bundles.bundleFor(bruges), undefined);
  put({ status, spec: { quarantined: false } });
  assert(bundles.bundleFor(bruges));
  put({ status, metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } });
  assert.equal(bundles.bundleFor(bruges), undefined);
  put({ status });
  remove();
  assert.equal(bundles.bundleFor(bruges), undefined);
});

test('a bundle that holds a key of ours is not believed, in whatever certificate', () => {
  const { bundles, put } = scene();
  const disguised = forgeRoot('bruges.example', { key: ours.key });
  put({ status: { bundle: documentOf(theirs, disguised) } });
  assert.equal(bundles.bundleFor(bruges), undefined);
});

test('a bundle is not believed any more as soon as a key of it becomes ours, as below one root of an organisation', () => {
  const { bundles, put } = scene();
  put({ status: { bundle: documentOf(theirs) } });
  assert(bundles.bundleFor(bruges));
  own.bundle = new Bundle(lubeck, [ours.certificate, theirs.certificate]);
  assert.equal(bundles.bundleFor(bruges), undefined);
  own.bundle = new Bundle(lubeck, [ours.certificate]);
  assert(bundles.bundleFor(bruges));
});

const jwtKey = (forged: Forged): JwtAuthority => ({
  keyId: 'a',
  publicKey: forged.certificate.publicKey,
});
const withJwt = (...keys: readonly JwtAuthority[]): string =>
  encodeSpiffeBundle(new Bundle(bruges, [theirs.certificate], keys), {
    sequence: 1,
    refreshHintSeconds: 300,
  });

test('JWT authorities are believed with the others', () => {
  const { bundles, put } = scene();
  put({ status: { bundle: withJwt(jwtKey(forgeRoot('bruges.example'))) } });
  assert.deepEqual([...(bundles.bundleFor(bruges)?.jwtAuthorities.keys() ?? [])], ['a']);
});

test('a key of ours is not believed as a JWT authority either', () => {
  const { bundles, put } = scene();
  put({ status: { bundle: withJwt(jwtKey(ours)) } });
  assert.equal(bundles.bundleFor(bruges), undefined);
});

test('where connections count, a shared JWT authority is none', () => {
  const shared = jwtKey(forgeRoot('bruges.example'));
  const [one, other] = [theirs, forgeRoot('bruges.example')].map(
    ({ certificate }) => new Bundle(bruges, [certificate], [shared]),
  ) as [Bundle, Bundle];
  assert.equal(sharesAuthority(one, other), true);
  assert.equal(sharesAuthority(one, other, 'x509'), false);
});

test('a document that cannot be read is not believed', () => {
  const { bundles, put } = scene();
  put({ status: { bundle: '{' } });
  assert.equal(bundles.bundleFor(bruges), undefined);
});

test('a change beside the bundle leaves the very same bundle', () => {
  const { bundles, put } = scene();
  const status = { bundle: documentOf(theirs) };
  put({ status });
  const before = bundles.bundleFor(bruges);
  put({ status, spec: { quarantined: false } });
  assert.equal(bundles.bundleFor(bruges), before);
});

test('a summary has what tells the life of a bundle, and no document', () => {
  const document = documentOf(theirs);
  const federation = {
    metadata: { name: bruges.name, uid: 'u', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { bundleSource: { httpsSpiffe: { bundleBootstrap: document } }, staleAfterSeconds: 60 },
    status: {
      bundle: document,
      source: 'https_spiffe',
      syncedAt: '2026-01-01T00:00:00Z',
      authorities: [{ fingerprint: 'f', notAfter: '2027-01-01T00:00:00Z' }],
      conditions: [{ type: 'Ready', status: 'True', message: 'x' }],
    },
  };
  const entry: Entry = {
    collection: federationsCollection,
    name: bruges.name,
    revision: 1,
    value: Buffer.from(JSON.stringify(federation)),
  };
  const summary = federationSummaries.of(entry);
  assert.equal(federationSummaries.of(entry), summary);
  assert.deepEqual(bundleLife(summary), bundleLife(federation));
  assert.equal(sourceOf(summary), 'https_spiffe');
  assert.equal(summary.hasDocument, true);
  assert.ok(!JSON.stringify(summary).includes('x5c'));
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { apiVersion, type Resource } from '../api/object.ts';
import { pruneObject, type Untyped, validateObject } from '../api/resource-schema.ts';
import { TrustDomain } from '../api/trust-domain.ts';
import { hasCode } from '../core/errors/error.ts';
import { Bundle } from '../core/identity/bundle.ts';
import { encodeSpiffeBundle } from '../core/identity/spiffe-bundle.ts';
import { type Forged, forgeRoot } from '../core/identity/test-forge.ts';
import { admitFederation } from './admit-federation.ts';

const ours = forgeRoot('lubeck.example');
const theirs = forgeRoot('bruges.example');
const own = new Bundle(TrustDomain.parse('lubeck.example'), [ours.certificate]);
const nowMs = Date.UTC(2026, 0);

const documentOf = (...roots: readonly Forged[]): string =>
  encodeSpiffeBundle(
    new Bundle(
      TrustDomain.parse('bruges.example'),
      roots.map(({ certificate }) => certificate),
    ),
    { sequence: 1, refreshHintSeconds: 300 },
  );

const endpoint = (changes: object = {}) => ({
  bundleSource: {
    httpsSpiffe: {
      bundleEndpointURL: 'https://bruges.example:8443/',
      endpointSpiffeID: 'spiffe://bruges.example/hansa/site',
      bundleBootstrap: documentOf(theirs),
      ...changes,
    },
  },
});

/** The fields that the schema and then the plane object to. */
function problems(spec: unknown, name = 'bruges.example'): string[] {
  const object = {
    apiVersion,
    kind: 'SPIFFEFederation',
    metadata: { name },
    spec,
  } as Untyped;
  const pruned = pruneObject(spiffeFederationKind, object);
  // `<nil>` stands for rules that are not asked where a field is missing.
  const errors = validateObject(spiffeFederationKind, pruned.object)
    .map(({ field }) => field)
    .filter((field) => field !== '<nil>');
  if (errors.length > 0) return errors;
  try {
    admitFederation(pruned.object as unknown as Resource, own, nowMs);
    return [];
  } catch (error) {
    assert(hasCode(error, 'HANSA_INVALID'), String(error));
    return (error.details?.causes ?? []).map(({ field = '' }) => field);
  }
}

suite('a SPIFFEFederation is accepted', () => {
  test('with an endpoint', () => assert.deepEqual(problems(endpoint()), []));
  test('with a static bundle', () =>
    assert.deepEqual(problems({ bundleSource: { static: { bundle: documentOf(theirs) } } }), []));
  test('with an endpoint that a server of SPIRE answers on, below a path', () => {
    const spire = endpoint({
      bundleEndpointURL: 'https://[::1]:8443/bundle?x=y',
      endpointSpiffeID: 'spiffe://bruges.example/spire/server',
    });
    assert.deepEqual(problems(spire), []);
  });
  test('with a name that has an underscore', () =>
    assert.deepEqual(
      problems({ bundleSource: { static: { bundle: documentOf(theirs) } } }, 'bruges_1.example'),
      [],
    ));
});

suite('a SPIFFEFederation whose bootstrap has expired since', () => {
  const metadata = { name: 'bruges.example' };
  const old = endpoint({
    bundleBootstrap: documentOf(forgeRoot('bruges.example', { notAfterMs: nowMs - 1000 })),
  });
  const federation = (spec: object): Resource => ({ metadata, spec }) as unknown as Resource;
  const admit = (spec: object): void =>
    admitFederation(federation(spec), own, nowMs, federation(old));

  test('can still be quarantined', () => admit({ ...old, quarantined: true }));
  test('can still be given another URL', () => {
    const { httpsSpiffe } = old.bundleSource;
    const bundleEndpointURL = 'https://bruges.example:9443/';
    admit({ bundleSource: { httpsSpiffe: { ...httpsSpiffe, bundleEndpointURL } } });
  });
  test('is not given another that has expired', () => {
    const another = documentOf(forgeRoot('bruges.example', { notAfterMs: nowMs - 2000 }));
    assert.throws(() => admit(endpoint({ bundleBootstrap: another })), /expired/);
  });
});

suite('a SPIFFEFederation is refused', () => {
  const httpsSpiffe = 'spec.bundleSource.httpsSpiffe';
  const refused: Record<string, [unknown, string]> = {
    'without a source': [{ bundleSource: {} }, 'spec.bundleSource'],
    'with two sources': [
      { bundleSource: { ...endpoint().bundleSource, static: { bundle: documentOf(theirs) } } },
      'spec.bundleSource',
    ],
    'without the ID of its endpoint': [
      endpoint({ endpointSpiffeID: undefined }),
      `${httpsSpiffe}.endpointSpiffeID`,
    ],
    'without a bundle to begin with': [
      endpoint({ bundleBootstrap: undefined }),
      `${httpsSpiffe}.bundleBootstrap`,
    ],
    'with http': [
      endpoint({ bundleEndpointURL: 'http://bruges.example/' }),
      `${httpsSpiffe}.bundleEndpointURL`,
    ],
    'with a user in its URL': [
      endpoint({ bundleEndpointURL: 'https://me:secret@bruges.example/' }),
      `${httpsSpiffe}.bundleEndpointURL`,
    ],
    'with a URL that is none': [
      endpoint({ bundleEndpointURL: 'https://[bruges/' }),
      `${httpsSpiffe}.bundleEndpointURL`,
    ],
    'with an endpoint without a path in its ID': [
      endpoint({ endpointSpiffeID: 'spiffe://bruges.example' }),
      `${httpsSpiffe}.endpointSpiffeID`,
    ],
    'with an endpoint whose ID has dots for a segment': [
      endpoint({ endpointSpiffeID: 'spiffe://bruges.example/../site' }),
      `${httpsSpiffe}.endpointSpiffeID`,
    ],
    'with a bundle that cannot be read': [
      endpoint({ bundleBootstrap: '{"keys":' }),
      `${httpsSpiffe}.bundleBootstrap`,
    ],
    'with a bundle of nobody': [
      endpoint({ bundleBootstrap: '{"keys":[]}' }),
      `${httpsSpiffe}.bundleBootstrap`,
    ],
    'with a bundle that holds our own authority': [
      endpoint({ bundleBootstrap: documentOf(theirs, ours) }),
      `${httpsSpiffe}.bundleBootstrap`,
    ],
    'with a static bundle that holds our own key in another certificate': [
      {
        bundleSource: {
          static: { bundle: documentOf(forgeRoot('bruges.example', { key: ours.key })) },
        },
      },
      'spec.bundleSource.static.bundle',
    ],
    'with a bundle whose authorities have all expired': [
      endpoint({
        bundleBootstrap: documentOf(forgeRoot('bruges.example', { notAfterMs: nowMs - 1000 })),
      }),
      `${httpsSpiffe}.bundleBootstrap`,
    ],
  };
  for (const [what, [spec, field]] of Object.entries(refused)) {
    test(what, () => assert.deepEqual(problems(spec), [field]));
  }

  test('with the name of our own trust domain', () => {
    assert.deepEqual(problems(endpoint(), 'lubeck.example'), ['metadata.name']);
  });

  test('and no password of a URL is repeated', () => {
    const spec = endpoint({ bundleEndpointURL: 'https://me:secret@bruges.example/' });
    const object = { metadata: { name: 'bruges.example' }, spec } as unknown as Resource;
    assert.throws(
      () => admitFederation(object, own, nowMs),
      (error) => error instanceof Error && !error.message.includes('secret'),
    );
  });
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { apiVersion, type Resource } from '../../api/object.ts';
import { pruneObject, type Untyped, validateObject } from '../../api/resource-schema.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { hasCode } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forge, type Forged, forgeRoot } from '../../core/identity/x509/test-forge.ts';
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

/** What the schema and then the plane object to. */
function causes(spec: unknown, name: string): readonly { field?: string; message: string }[] {
  const object = {
    apiVersion,
    kind: 'SPIFFEFederation',
    metadata: { name },
    spec,
  } as Untyped;
  const pruned = pruneObject(spiffeFederationKind, object);
  // `<nil>` stands for rules that are not asked where a field is missing.
  const errors = validateObject(spiffeFederationKind, pruned.object).filter(
    ({ field }) => field !== '<nil>',
  );
  if (errors.length > 0) return errors;
  try {
    admitFederation(pruned.object as unknown as Resource, own, nowMs);
    return [];
  } catch (error) {
    assert(hasCode(error, 'HANSA_INVALID'), String(error));
    return error.details?.causes ?? [];
  }
}

function problems(spec: unknown, name = 'bruges.example'): string[] {
  return causes(spec, name).map(({ field = '' }) => field);
}

function refusalOf(spec: unknown): string {
  return causes(spec, 'bruges.example')
    .map(({ message }) => message)
    .join('; ');
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
      problems(
        { bundleSource: { static: { bundle: documentOf(forgeRoot('bruges_1.example')) } } },
        'bruges_1.example',
      ),
      [],
    ));
});

const web = (changes: object = {}) => ({
  bundleSource: { httpsWeb: { bundleEndpointURL: 'https://bruges.example/', ...changes } },
});
const pin = `sha256/${'A'.repeat(43)}=`;
const privateAuthority = certificatePem(forge({ ca: true }).der);

suite('a SPIFFEFederation by httpsWeb is accepted', () => {
  test('with nothing but a URL', () => assert.deepEqual(problems(web()), []));
  test('with a private authority and pinned keys', () => {
    assert.deepEqual(problems(web({ caBundle: privateAuthority, pinnedKeys: [pin] })), []);
  });
});

suite('a SPIFFEFederation by httpsWeb is refused', () => {
  const at = 'spec.bundleSource.httpsWeb';
  const refused: Record<string, [unknown, string]> = {
    'without a URL': [web({ bundleEndpointURL: undefined }), `${at}.bundleEndpointURL`],
    'with http': [web({ bundleEndpointURL: 'http://bruges.example/' }), `${at}.bundleEndpointURL`],
    'with a user in its URL': [
      web({ bundleEndpointURL: 'https://me@bruges.example/' }),
      `${at}.bundleEndpointURL`,
    ],
    'with an authority that is no PEM': [web({ caBundle: 'x' }), `${at}.caBundle`],
    'with an authority that is none': [
      web({ caBundle: certificatePem(forge({ ca: false }).der) }),
      `${at}.caBundle`,
    ],
    'with a pin of another hash': [
      web({ pinnedKeys: [`sha1/${'A'.repeat(27)}=`] }),
      `${at}.pinnedKeys[0]`,
    ],
    'with a pin that is too short': [web({ pinnedKeys: ['sha256/AAAA'] }), `${at}.pinnedKeys[0]`],
    'with no pin in its list of pins': [web({ pinnedKeys: [] }), `${at}.pinnedKeys`],
    'beside another source': [
      { bundleSource: { ...web().bundleSource, ...endpoint().bundleSource } },
      'spec.bundleSource',
    ],
  };
  for (const [what, [spec, field]] of Object.entries(refused)) {
    test(what, () => assert.deepEqual(problems(spec), [field]));
  }
});

test('a SPIFFEFederation by httpsSpiffe without an ID tells what to write', () => {
  const { endpointSpiffeID: _none, ...httpsSpiffe } = endpoint().bundleSource.httpsSpiffe;
  const object = {
    apiVersion,
    kind: 'SPIFFEFederation',
    metadata: { name: 'bruges.example' },
    spec: { bundleSource: { httpsSpiffe } },
  } as unknown as Untyped;
  const [error] = validateObject(spiffeFederationKind, object);
  assert.match(JSON.stringify(error), /spiffe:\/\/TRUST-DOMAIN\/spire\/server/);
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
    'with the bundle of another trust domain': [
      endpoint({ bundleBootstrap: documentOf(forgeRoot('reval.example')) }),
      `${httpsSpiffe}.bundleBootstrap`,
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

  test('and no password of a URL is repeated, by the schema neither', () => {
    const bundleEndpointURL = 'https://me:secret@bruges.example/';
    for (const spec of [endpoint({ bundleEndpointURL }), web({ bundleEndpointURL })]) {
      assert.match(refusalOf(spec), /^(?!.*secret).*without user and password$/);
    }
  });

  test('and what is no https URL is told what to write', () => {
    for (const bundleEndpointURL of ['http://bruges.example/', 'bruges.example', 'https://a/#b']) {
      for (const spec of [endpoint({ bundleEndpointURL }), web({ bundleEndpointURL })]) {
        assert.match(refusalOf(spec), /write an https URL, such as/);
      }
    }
  });
});

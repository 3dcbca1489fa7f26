import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { compileFederatedTrustDomains, relationshipsOf } from './relationships.ts';
import { peerDomain, specOf } from '../spire/test-spire-servers.ts';

const className = 'ours';

function federated(name: string, spec: object = {}, labels: object = {}) {
  return {
    metadata: { name, labels },
    spec: {
      className,
      trustDomain: 'c.example',
      bundleEndpointURL: 'https://c.example:8443/',
      bundleEndpointProfile: {
        type: 'https_spiffe',
        endpointSPIFFEID: 'spiffe://c.example/spire/server',
      },
      ...spec,
    },
  };
}

const none = { held: [] };
const spec = specOf({ bundleEndpoint: {}, federatesWith: [peerDomain] });
const of = (...objects: readonly unknown[]) =>
  relationshipsOf({ spec, ...none }, objects, className);

suite('the relationships of a SPIRE server', () => {
  test('come from its SpireServer and from objects of users', () => {
    const { list, problems } = of(federated('c', { trustDomainBundle: '{"keys":[]}' }));
    assert.deepEqual(problems, []);
    assert.deepEqual(list, [
      {
        trustDomain: 'b.example',
        bundleEndpointURL: 'https://federation.b.example/',
        profile: 'https_spiffe',
        endpointSpiffeID: 'spiffe://b.example/spire/server',
        from: 'SpireServer',
      },
      {
        trustDomain: 'c.example',
        bundleEndpointURL: 'https://c.example:8443/',
        profile: 'https_spiffe',
        endpointSpiffeID: 'spiffe://c.example/spire/server',
        bundle: '{"keys":[]}',
        from: 'ClusterFederatedTrustDomain c',
      },
    ]);
  });

  test('carry the bootstrap bundle of their SpireServer, also to spire-controller-manager', () => {
    const bundled = specOf({
      bundleEndpoint: {},
      federatesWith: [{ ...peerDomain, trustDomainBundle: '{"keys":[]}' }],
    });
    const relationships = relationshipsOf({ spec: bundled, ...none }, [], className);
    assert.equal(relationships.list[0]?.bundle, '{"keys":[]}');
    const [written] = compileFederatedTrustDomains(relationships, className);
    assert.match(JSON.stringify(written), /"trustDomainBundle":"\{/);
  });

  test('leave out objects of another class', () => {
    assert.equal(of(federated('c', { className: 'theirs' })).list.length, 1);
    assert.equal(of(federated('c', { className: undefined })).list.length, 1);
  });

  test('are none while federation is off', () => {
    const off = specOf({ enabled: false, bundleEndpoint: {}, federatesWith: [peerDomain] });
    assert.deepEqual(relationshipsOf({ spec: off, ...none }, [federated('c')], className).list, []);
    assert.deepEqual(
      relationshipsOf({ spec: specOf(), ...none }, [federated('c')], className).list,
      [],
    );
  });

  test('of one trust domain count once, and a contradiction is a problem', () => {
    const other = { bundleEndpointURL: 'https://evil.example/' };
    const { list, problems } = of(federated('d'), federated('c', other));
    assert.deepEqual(list.map(({ from }) => from).toSorted(), [
      'ClusterFederatedTrustDomain c',
      'SpireServer',
    ]);
    assert.deepEqual(
      problems.map(({ reason, from }) => [reason, from]),
      [['Duplicate', 'ClusterFederatedTrustDomain d']],
    );
    assert.deepEqual(of(federated('c'), federated('d')).problems, []);
  });

  const bad: readonly (readonly [string, object])[] = [
    ['no trust domain', { trustDomain: 'No Domain' }],
    ['no URL', { bundleEndpointURL: 'nowhere' }],
    ['a URL without TLS', { bundleEndpointURL: 'http://c.example/' }],
    ['user information in its URL', { bundleEndpointURL: 'https://a:b@c.example/' }],
    ['a quote in its URL', { bundleEndpointURL: 'https://c.example/"' }],
    ['an unknown profile', { bundleEndpointProfile: { type: 'http' } }],
    ['no SPIFFE ID', { bundleEndpointProfile: { type: 'https_spiffe' } }],
    ['a huge bundle', { trustDomainBundle: 'x'.repeat(300_000) }],
  ];
  for (const [what, fields] of bad) {
    test(`leave out an object with ${what}, and say so`, () => {
      const { list, problems } = of(federated('c', fields));
      assert.equal(list.length, 1);
      assert.deepEqual(
        problems.map(({ reason }) => reason),
        ['Malformed'],
      );
    });
  }

  test('leave out the own trust domain', () => {
    const { list, problems } = of(federated('c', { trustDomain: 'a.example' }));
    assert.equal(list.length, 1);
    assert.equal(problems[0]?.reason, 'OwnTrustDomain');
  });

  test('of any objects never throw', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (objects) => {
        of(...objects);
      }),
    );
  });
});

suite('objects for spire-controller-manager', () => {
  test('repeat federatesWith, and not the objects of users', () => {
    const [only, ...rest] = compileFederatedTrustDomains(of(federated('c')), className);
    assert.deepEqual(rest, []);
    assert.deepEqual(only?.['spec'], {
      className,
      trustDomain: 'b.example',
      bundleEndpointURL: 'https://federation.b.example/',
      bundleEndpointProfile: {
        type: 'https_spiffe',
        endpointSPIFFEID: 'spiffe://b.example/spire/server',
      },
    });
  });

  test('are not read back as objects of users', () => {
    const relationships = of();
    const own = compileFederatedTrustDomains(relationships, className);
    assert.deepEqual(of(...own), relationships);
  });

  test('have legal names that differ for each trust domain', () => {
    const domains = fc.uniqueArray(fc.stringMatching(/^[a-z0-9._-]{1,255}$/), {
      minLength: 2,
      maxLength: 5,
    });
    fc.assert(
      fc.property(domains, (trustDomains) => {
        const list = trustDomains.map((trustDomain) => ({
          trustDomain,
          bundleEndpointURL: 'https://x/',
          profile: 'https_web' as const,
          from: 'SpireServer',
        }));
        const names = compileFederatedTrustDomains({ list, ...none, problems: [] }, className).map(
          ({ metadata }) => metadata.name,
        );
        assert.equal(new Set(names).size, trustDomains.length);
        for (const name of names) {
          assert.match(name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
          assert.ok(name.length <= 253);
        }
      }),
    );
  });
});

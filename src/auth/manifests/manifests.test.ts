import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type Manifest, siteUser } from '../../core/kube/manifests/manifest.ts';
import { accessManifests } from './access-manifests.ts';
import { authConfigManifests } from './auth-config.ts';
import { namespaceOf } from './manifest.ts';
import { caConfigMap, planPublication } from './published-ca.ts';
import { serviceManifests } from './service-manifests.ts';

const named = (manifests: readonly Manifest[]): readonly string[] =>
  manifests.map(({ kind, metadata: { namespace, name } }) =>
    [kind, ...(namespace === undefined ? [] : [namespace]), name].join(' '),
  );
const rulesOf = (manifests: readonly Manifest[]): readonly unknown[] =>
  manifests.flatMap(({ rules }) => (rules as readonly unknown[] | undefined) ?? []);

suite('the rights of a site', () => {
  const subject = { kind: 'ServiceAccount' } as const;
  const trustDomain = 'lubeck.example';

  test('do not take the rights of another site in the same cluster away', () => {
    const sites = ['lubeck.example', 'bruges.example'].map((each) =>
      accessManifests({ subject, trustDomain: each, namespace: `hansa-${each}` }),
    );
    const [lubeck, bruges] = sites.map(
      (manifests) => new Map(named(manifests).map((name, index) => [name, manifests[index]])),
    );
    const shared = [...(lubeck ?? [])].filter(([name]) => bruges?.has(name));
    assert.deepEqual(
      shared.map(([name]) => name),
      ['ClusterRole hansa-token-reviewer'],
    );
    for (const [name, manifest] of shared) assert.deepEqual(manifest, bruges?.get(name));
  });

  test('are reviews, public keys, and its own token', () => {
    const manifests = accessManifests({ subject, trustDomain });
    assert.deepEqual(named(manifests), [
      'Namespace kube-fed',
      'ServiceAccount kube-fed hansa',
      'ClusterRole hansa-token-reviewer',
      'ClusterRoleBinding hansa-token-reviewer-lubeck.example',
      'Role kube-fed hansa-own-token',
      'RoleBinding kube-fed hansa-own-token',
    ]);
    assert.deepEqual(rulesOf(manifests), [
      { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
      {
        nonResourceURLs: ['/.well-known/openid-configuration', '/openid/v1/jwks'],
        verbs: ['get'],
      },
      {
        apiGroups: [''],
        resources: ['serviceaccounts/token'],
        resourceNames: ['hansa'],
        verbs: ['create'],
      },
    ]);
  });

  test('include one ConfigMap where the site publishes its CA', () => {
    const manifests = accessManifests({
      subject,
      trustDomain,
      namespace: 'sites',
      name: 'lubeck',
      publishCaIn: 'kube-fed',
    });
    assert.deepEqual(named(manifests).slice(0, 3), [
      'Namespace sites',
      'Namespace kube-fed',
      'ServiceAccount sites lubeck',
    ]);
    assert.deepEqual(rulesOf(manifests).at(-1), {
      apiGroups: [''],
      resources: ['configmaps'],
      resourceNames: ['hansa-ca'],
      verbs: ['get', 'patch'],
    });
  });

  test('never contain a wildcard, a Secret or a right to grant rights', () => {
    const text = JSON.stringify(
      rulesOf(accessManifests({ subject, trustDomain, publishCaIn: 'kube-fed' })),
    );
    for (const word of ['*', 'secrets', 'bind', 'escalate', 'impersonate', 'list']) {
      assert.ok(!text.includes(`"${word}"`), word);
    }
  });
});

suite('the configuration for JWT-SVIDs', () => {
  const options = {
    trustDomain: 'lubeck.example',
    issuer: 'https://oidc.lubeck.example',
    audience: 'app1',
  };

  test('accepts the site itself and none of its workloads', () => {
    const { configuration } = authConfigManifests(options);
    assert.deepEqual(configuration, {
      apiVersion: 'apiserver.config.k8s.io/v1',
      kind: 'AuthenticationConfiguration',
      jwt: [
        {
          issuer: { url: 'https://oidc.lubeck.example', audiences: ['app1'] },
          claimValidationRules: [
            {
              expression: 'claims.sub == "spiffe://lubeck.example/hansa/site"',
              message: 'only spiffe://lubeck.example/hansa/site may authenticate',
            },
          ],
          claimMappings: { username: { claim: 'sub', prefix: 'hansa:' } },
        },
      ],
    });
  });

  test('names the CA of a private issuer', () => {
    const { configuration } = authConfigManifests({ ...options, issuerCa: 'PEM' });
    assert.match(JSON.stringify(configuration), /"certificateAuthority":"PEM"/);
  });

  test('gives rights to the user, and a ServiceAccount without rights for the proof of the keys', () => {
    const { access } = authConfigManifests(options);
    assert.deepEqual(named(access), [
      'Namespace kube-fed',
      'ClusterRole hansa-token-reviewer',
      'ClusterRoleBinding hansa-token-reviewer-lubeck.example',
      'ServiceAccount kube-fed hansa-key-proof',
      'Role kube-fed hansa-key-proof',
      'RoleBinding kube-fed hansa-key-proof-lubeck.example',
    ]);
    // `hansa cluster add` takes an account with the trust domain for that of the site.
    const account = access.find(({ kind }) => kind === 'ServiceAccount');
    assert.equal(account?.metadata.labels?.['hansa.dev/trust-domain'], undefined);
    assert.deepEqual(rulesOf(access).at(-1), {
      apiGroups: [''],
      resources: ['serviceaccounts/token'],
      resourceNames: ['hansa-key-proof'],
      verbs: ['create'],
    });
    assert.deepEqual(access.at(-1)?.['subjects'], [
      {
        kind: 'User',
        apiGroup: 'rbac.authorization.k8s.io',
        name: 'hansa:spiffe://lubeck.example/hansa/site',
      },
    ]);
    assert.equal(siteUser('lubeck.example'), 'hansa:spiffe://lubeck.example/hansa/site');
  });
});

suite('the Services', () => {
  const options = {
    namespace: 'kube-fed',
    clusters: ['app2', 'app1'],
    addresses: ['192.0.2.7', '2001:db8::7'],
    port: 8443,
    trustDomain: 'lubeck.example',
    ca: 'PEM',
  };

  test('are api, and one for each cluster with an endpoint called api', () => {
    const manifests = serviceManifests(options);
    assert.deepEqual(named(manifests), [
      'Namespace kube-fed',
      'ConfigMap kube-fed hansa-ca',
      'Service kube-fed api',
      'EndpointSlice kube-fed api-ipv4',
      'EndpointSlice kube-fed api-ipv6',
      'Service kube-fed app1',
      'EndpointSlice kube-fed app1-ipv4',
      'EndpointSlice kube-fed app1-ipv6',
      'Service kube-fed app2',
      'EndpointSlice kube-fed app2-ipv4',
      'EndpointSlice kube-fed app2-ipv6',
    ]);
    const slice = manifests.find(({ metadata }) => metadata.name === 'app1-ipv4');
    assert.deepEqual(slice?.['endpoints'], [
      { addresses: ['192.0.2.7'], conditions: { ready: true }, hostname: 'api' },
    ]);
    assert.equal(slice?.metadata.labels?.['kubernetes.io/service-name'], 'app1');
    const api = manifests.find(({ metadata }) => metadata.name === 'api-ipv4');
    assert.deepEqual(api?.['endpoints'], [
      { addresses: ['192.0.2.7'], conditions: { ready: true } },
    ]);
    const service = manifests.find(
      ({ kind, metadata }) => kind === 'Service' && metadata.name === 'app1',
    );
    assert.match(JSON.stringify(service), /"clusterIP":"None"/);
  });

  test('need IP addresses', () => {
    for (const addresses of [[], ['lubeck.example'], ['192.0.2.7', '300.0.0.1']]) {
      assert.throws(() => serviceManifests({ ...options, addresses }), /IP addresses/);
    }
  });

  test('are in the namespace of the base domain, if it names one', () => {
    assert.equal(namespaceOf('kube-fed.svc.cluster.local'), 'kube-fed');
    assert.equal(namespaceOf('sites.svc'), 'sites');
    assert.equal(namespaceOf('reviews.example'), undefined);
    assert.equal(namespaceOf('svc.cluster.local'), undefined);
  });
});

suite('the ConfigMap with the CA', () => {
  const wanted = { namespace: 'kube-fed', trustDomain: 'lubeck.example', ca: 'PEM' };

  test('is written when it differs, and left alone when it is current', () => {
    assert.deepEqual(planPublication(caConfigMap(wanted), wanted), { do: 'nothing' });
    assert.deepEqual(planPublication(caConfigMap({ ...wanted, ca: 'OLD' }), wanted), {
      do: 'write',
    });
    assert.deepEqual(planPublication({ ...caConfigMap(wanted), data: null }, wanted), {
      do: 'write',
    });
  });

  test('of another site or without our label is left alone', () => {
    const other = caConfigMap({ ...wanted, trustDomain: 'bruges.example' });
    assert.deepEqual(planPublication(other, wanted), {
      do: 'leave',
      why: 'it belongs to bruges.example',
    });
    for (const found of [undefined, null, {}, { metadata: { labels: null } }, 'text']) {
      assert.equal(planPublication(found, wanted).do, 'leave');
    }
  });
});

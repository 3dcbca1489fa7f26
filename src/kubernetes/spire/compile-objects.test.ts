import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { compileExposure, type ExposureType } from './compile-exposure.ts';
import { compileObjects, type ServerFacts } from './compile-objects.ts';
import { confHashAnnotation } from './spire-names.ts';
import { federations, peerDomain, serverFacts, specOf } from './test-spire-servers.ts';

const all: ReadonlySet<ExposureType> = new Set(['Route', 'TLSRoute', 'Ingress']);
const facts: ServerFacts = serverFacts(all);

const namesOf = (manifests: readonly Manifest[]): readonly string[] =>
  manifests.map(({ kind, metadata }) => `${kind}/${metadata.name}`).toSorted();

type Json = Readonly<Record<string, unknown>>;

function find(manifests: readonly Manifest[], kind: string, name = 'spire-server'): Json {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  assert.ok(found, `${kind}/${name}`);
  return found;
}

/** Of the first container of the StatefulSet. */
function containerOf(manifests: readonly Manifest[]) {
  const { spec } = find(manifests, 'StatefulSet') as {
    readonly spec: {
      readonly template: {
        readonly metadata: { readonly annotations: Readonly<Record<string, string>> };
        readonly spec: {
          readonly containers: readonly {
            readonly name: string;
            readonly command?: readonly string[];
            readonly args?: readonly string[];
            readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
            readonly volumeMounts: readonly { readonly name: string }[];
          }[];
          readonly volumes: readonly { readonly name: string; readonly secret?: unknown }[];
        };
      };
    };
  };
  return spec.template;
}

suite('the objects of a SPIRE server', () => {
  test('without federation leave out all that only federation needs', () => {
    const { wanted, unwanted, exposure } = compileObjects(specOf(), facts);
    assert.deepEqual(namesOf(wanted), [
      'ClusterRole/spire-server-spire',
      'ClusterRoleBinding/spire-server-spire',
      'ConfigMap/spire-bundle',
      'ConfigMap/spire-server',
      'Role/spire-server',
      'RoleBinding/spire-server',
      'Service/spire-server',
      'ServiceAccount/spire-server',
      'StatefulSet/spire-server',
    ]);
    assert.deepEqual(namesOf(unwanted), [
      'Ingress/spire-server-federation',
      'NetworkPolicy/spire-server-federation',
      'Route/spire-server-federation',
      'Service/spire-server-federation',
      'TLSRoute/spire-server-federation',
    ]);
    assert.equal(exposure, undefined);
  });

  test('of a federation that is turned off are those without federation', () => {
    const off = specOf({ enabled: false, bundleEndpoint: {} });
    assert.deepEqual(compileObjects(off, facts), compileObjects(specOf(), facts));
  });

  test('with federation include the Service, one exposure and the port', () => {
    const { wanted, unwanted } = compileObjects(specOf(federations['https_spiffe']), facts);
    const service = find(wanted, 'Service', 'spire-server-federation');
    assert.deepEqual((service['spec'] as Json)['ports'], [
      { protocol: 'TCP', name: 'federation', port: 9443, targetPort: 9443 },
    ]);
    find(wanted, 'Route', 'spire-server-federation');
    assert.deepEqual(namesOf(unwanted), [
      'Ingress/spire-server-federation',
      'NetworkPolicy/spire-server-federation',
      'TLSRoute/spire-server-federation',
    ]);
    const [server] = containerOf(wanted).spec.containers;
    assert.ok(server?.ports?.some(({ containerPort }) => containerPort === 9443));
  });

  test('belong to the SpireServer, so that they go with it', () => {
    const { wanted } = compileObjects(specOf(federations['https_spiffe']), facts);
    for (const { kind, metadata } of wanted) {
      const { ownerReferences } = metadata as unknown as {
        readonly ownerReferences: readonly { readonly uid: string }[];
      };
      assert.deepEqual(
        ownerReferences.map(({ uid }) => uid),
        [facts.uid],
        kind,
      );
    }
  });

  test('mount the Secret of a serving certificate, and only that', () => {
    const spec = specOf(federations['https_web by a serving certificate']);
    const template = containerOf(compileObjects(spec, facts).wanted).spec;
    assert.deepEqual(
      template.volumes.filter(({ secret }) => secret !== undefined),
      [{ name: 'federation-certs', secret: { secretName: 'federation-tls' } }],
    );
    const acme = specOf(federations['https_web by ACME']);
    const other = containerOf(compileObjects(acme, facts).wanted).spec;
    assert.ok(other.volumes.every(({ secret }) => secret === undefined));
  });

  test('run SPIRE by the entry point of its image, which is `spire-server run`', () => {
    const [server] = containerOf(compileObjects(specOf(), facts).wanted).spec.containers;
    assert.deepEqual(server?.args, ['-config', '/run/spire/config/server.conf']);
    assert.equal(server.command, undefined);
  });

  test('do not change with a relationship, so that nothing restarts', () => {
    const alone = compileObjects(specOf({ bundleEndpoint: {} }), facts);
    const spec = specOf({ bundleEndpoint: {}, federatesWith: [peerDomain] });
    assert.deepEqual(compileObjects(spec, facts), alone);
  });

  test('carry the hash of server.conf on the Pods', () => {
    const { wanted, confHash } = compileObjects(specOf({ bundleEndpoint: {} }), facts);
    assert.equal(containerOf(wanted).metadata.annotations[confHashAnnotation], confHash);
    assert.notEqual(compileObjects(specOf(), facts).confHash, confHash);
  });

  test('have a sidecar only where no controller manager hands over relationships', () => {
    const names = (sidecarImage: string | undefined) =>
      containerOf(compileObjects(specOf(), { ...facts, sidecarImage }).wanted).spec.containers.map(
        ({ name }) => name,
      );
    assert.deepEqual(names(undefined), ['spire-server']);
    assert.deepEqual(names('hansa:1'), ['spire-server', 'hansa']);
  });

  test('limit the bundle endpoint to address ranges, and leave the other ports open', () => {
    const spec = specOf({ bundleEndpoint: {}, networkPolicy: { fromCIDRs: ['10.1.0.0/16'] } });
    const policy = find(
      compileObjects(spec, facts).wanted,
      'NetworkPolicy',
      'spire-server-federation',
    );
    assert.deepEqual((policy['spec'] as Json)['ingress'], [
      {
        ports: [8081, 8080, 9402].map((port) => ({ protocol: 'TCP', port })),
      },
      {
        ports: [{ protocol: 'TCP', port: 8443 }],
        from: [{ ipBlock: { cidr: '10.1.0.0/16' } }],
      },
    ]);
  });
});

suite('the exposure of the bundle endpoint', () => {
  const compile = (federation: object, ...served: readonly ExposureType[]) => {
    const spec = specOf({ bundleEndpoint: {}, ...federation });
    assert.ok(spec.federation);
    return compileExposure(spec.federation, { namespace: 'spire', served: new Set(served) });
  };
  const specIn = ({ manifest }: ReturnType<typeof compile>): Json =>
    (manifest?.['spec'] ?? {}) as Json;
  const host = 'federation.a.example';
  const gateway = { name: 'edge', namespace: 'gateways' };
  const servingCert = {
    bundleEndpoint: { profile: 'https_web', httpsWeb: { servingCert: { secretName: 'tls' } } },
  };

  test('is a Route with passthrough for https_spiffe and ACME', () => {
    for (const name of ['https_spiffe', 'https_web by ACME']) {
      const { tls } = specIn(compile({ ...federations[name] }, 'Route', 'Ingress'));
      assert.equal((tls as Json)['termination'], 'passthrough');
    }
  });

  test('is a Route that encrypts again for a serving certificate, or passes through on demand', () => {
    const terminationOf = (federation: object): unknown =>
      (specIn(compile(federation, 'Route'))['tls'] as Json)['termination'];
    assert.equal(terminationOf(servingCert), 'reencrypt');
    const exposure = { termination: 'passthrough' };
    assert.equal(terminationOf({ ...servingCert, exposure }), 'passthrough');
  });

  test('is a TLSRoute where a Gateway is named, and an Ingress otherwise', () => {
    const tls = compile({ exposure: { host, gateway } }, 'TLSRoute', 'Ingress');
    assert.equal(tls.manifest?.kind, 'TLSRoute');
    assert.equal(tls.manifest?.apiVersion, 'gateway.networking.k8s.io/v1');
    assert.deepEqual(specIn(tls)['parentRefs'], [gateway]);
    const ingress = compile({ exposure: { host } }, 'TLSRoute', 'Ingress');
    assert.equal(ingress.manifest?.kind, 'Ingress');
  });

  test('takes the host of ACME where no other is set', () => {
    const found = compile({ ...federations['https_web by ACME'] }, 'Ingress');
    assert.equal('host' in found ? found.host : undefined, 'federation.a.example');
  });

  test('is left to the user on demand', () => {
    assert.deepEqual(compile({ exposure: { type: 'None' } }, 'Route'), {});
  });

  const problems: readonly (readonly [string, object, readonly ExposureType[], RegExp])[] = [
    ['nothing is served', {}, [], /neither Route, TLSRoute nor Ingress/],
    ['the wanted type is not served', { exposure: { type: 'Route' } }, ['Ingress'], /not serve/],
    ['an Ingress has no host', {}, ['Ingress'], /exposure\.host/],
    [
      'a TLSRoute has no Gateway',
      { exposure: { type: 'TLSRoute', host } },
      ['TLSRoute'],
      /gateway/,
    ],
    [
      'TLS should end before SPIRE with https_spiffe',
      { exposure: { termination: 'reencrypt' } },
      ['Route'],
      /Use passthrough/,
    ],
    [
      'an Ingress should encrypt again',
      { ...servingCert, exposure: { host, termination: 'reencrypt' } },
      ['Ingress'],
      /only a Route .* Use passthrough/,
    ],
    [
      'a TLSRoute should encrypt again',
      { ...servingCert, exposure: { host, gateway, termination: 'reencrypt' } },
      ['TLSRoute'],
      /only a Route .* Use passthrough/,
    ],
  ];
  for (const [why, federation, served, message] of problems) {
    test(`is a problem that names the fix if ${why}`, () => {
      const { problem } = compile(federation, ...served) as {
        readonly problem?: { readonly message: string };
      };
      assert.match(problem?.message ?? '', message);
    });
  }
});

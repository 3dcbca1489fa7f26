import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { readSpireServer } from './read-spire-server.ts';
import {
  acme,
  federations,
  hostileFederations,
  many,
  peerDomain,
  refusedFederations,
  spireServer,
} from './test-spire-servers.ts';

suite('a SpireServer', () => {
  for (const [name, federation] of Object.entries(federations)) {
    test(`is read with ${name}`, () => {
      assert.deepEqual(readSpireServer(spireServer(federation)).problems, []);
    });
  }

  test('gets the defaults of the schema', () => {
    const { spec } = readSpireServer(spireServer({ bundleEndpoint: {} }));
    assert.deepEqual(spec?.federation, {
      enabled: true,
      withholdStaleBundles: false,
      bundleEndpoint: {
        port: 8443,
        address: '0.0.0.0',
        profile: 'https_spiffe',
        refreshHint: 300,
      },
    });
  });

  test('has the name cluster', () => {
    const { problems } = readSpireServer({ ...spireServer(), metadata: { name: 'other' } });
    assert.deepEqual(problems, [
      'metadata.name: a cluster has one SpireServer, with the name cluster',
    ]);
  });

  for (const [rule, federation, problem] of refusedFederations) {
    test(`is refused with ${rule}, and the problem names the field`, () => {
      const { problems } = readSpireServer(spireServer(federation));
      assert.match(problems.join('\n'), problem);
    });
  }

  test('without a method of attestation is refused, because SPIRE would not start', () => {
    const { spec, problems } = readSpireServer(spireServer(undefined, { nodeAttestors: [] }));
    assert.equal(spec, undefined);
    assert.match(problems.join(), /^spec\.nodeAttestors: /);
  });

  test('may federate with more trust domains where the limit says so', () => {
    const federation = { bundleEndpoint: {}, federatesWith: many(51) };
    const { problems } = readSpireServer(spireServer(federation), { maxFederatedClusters: 60 });
    assert.deepEqual(problems, []);
  });

  for (const [what, entry, held] of [
    ['a port beyond 65535', { bundleEndpointUrl: 'https://c.example:65536/' }, ['c.example']],
    ['no URL', { bundleEndpointUrl: undefined }, ['c.example']],
    ['no SPIFFE ID', { endpointSpiffeId: undefined }, ['c.example']],
    ['no trust domain', { trustDomain: 'C example' }, []],
    ['the trust domain of the server', { trustDomain: 'a.example' }, []],
    ['the trust domain of another entry', { trustDomain: 'b.example' }, []],
  ] as const) {
    test(`is read without an entry that has ${what}, and with the others`, () => {
      const c = { ...peerDomain, trustDomain: 'c.example', ...entry };
      const federation = { bundleEndpoint: {}, federatesWith: [peerDomain, c] };
      const read = readSpireServer(spireServer(federation));
      assert.deepEqual(read.spec?.federation?.federatesWith, [peerDomain]);
      assert.equal(read.problems.length, 1);
      assert.match(read.problems[0] ?? '', /^spec.*federatesWith/);
      assert.deepEqual(read.spec && read.held.map(({ trustDomain }) => trustDomain), held);
    });
  }

  test('of any form is read or refused, and never throws', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (federation, spec) => {
        const fields = typeof spec === 'object' && spec !== null ? (spec as object) : {};
        const object = { metadata: { name: 'cluster' }, spec: { ...fields, federation } };
        const { spec: read, problems } = readSpireServer(object);
        assert.equal(read === undefined, read === undefined && problems.length > 0);
        readSpireServer(federation);
      }),
    );
  });
});

suite('a SpireServer with a hostile text', () => {
  for (const [what, field, federation] of hostileFederations) {
    test(`is refused with ${what} in ${field}, in a short message that names the field`, () => {
      const { problems } = readSpireServer(spireServer(federation));
      const found = problems.find((problem) => problem.startsWith(`spec.federation.${field}: `));
      assert.ok(found !== undefined, problems.join().slice(0, 500));
    });
  }
});

suite('a SpireServer of another operator', () => {
  test('has its trust domain in the settings of the site', () => {
    const object = { metadata: { name: 'cluster' }, spec: { federation: { bundleEndpoint: {} } } };
    assert.equal(readSpireServer(object).spec, undefined);
    const { spec } = readSpireServer(object, { trustDomain: 'a.example', clusterName: 'a' });
    assert.deepEqual([spec?.trustDomain, spec?.clusterName], ['a.example', 'a']);
  });

  test('writes flags as text, and the Secret under another name', () => {
    const acmeServer = spireServer({
      managedRoute: 'false',
      bundleEndpoint: {
        profile: 'https_web',
        httpsWeb: { acme: { ...acme, tosAccepted: 'true' } },
      },
    });
    const { federation } = readSpireServer(acmeServer).spec ?? {};
    assert.equal(federation?.bundleEndpoint.httpsWeb?.acme?.tosAccepted, true);
    assert.equal(federation?.exposure?.type, 'None');
    const certServer = spireServer({
      managedRoute: 'true',
      bundleEndpoint: {
        profile: 'https_web',
        httpsWeb: { servingCert: { externalSecretRef: 'tls', fileSyncInterval: 86_400 } },
      },
    });
    assert.deepEqual(
      readSpireServer(certServer).spec?.federation?.bundleEndpoint.httpsWeb?.servingCert,
      { secretName: 'tls', fileSyncInterval: 3600 },
    );
  });

  test('that has not accepted the terms of service is refused', () => {
    const server = spireServer({
      bundleEndpoint: {
        profile: 'https_web',
        httpsWeb: { acme: { ...acme, tosAccepted: 'false' } },
      },
    });
    assert.match(readSpireServer(server).problems.join(), /tosAccepted must be true/);
  });
});

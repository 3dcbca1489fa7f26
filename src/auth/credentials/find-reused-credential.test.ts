import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { clusterOf, type WrittenSpec } from '../../core/kube/credentials/test-credentials.ts';
import { findReusedCredential } from './find-reused-credential.ts';

const named = (name: string, spec: WrittenSpec) => ({
  metadata: { name },
  spec: clusterOf(spec).spec,
});

suite('a credential', () => {
  const credentials: Record<string, WrittenSpec> = {
    'spec.credential.tokenFile': { tokenFile: 'app1/token' },
    'spec.credential.clientCertificate.keyFile': {
      clientCertificate: { certFile: 'app1/cert', keyFile: 'app1/key' },
    },
    'spec.credential.jwtSVID.audience': { jwtSVID: { audience: 'app1' } },
  };
  const evil = 'https://evil.example';
  for (const [field, credential] of Object.entries(credentials)) {
    test(`is not shared with another API server: ${field}`, () => {
      const app1 = named('app1', { credential });
      const thief = named('evil', { credential, apiServer: evil });
      const found = findReusedCredential(thief, [app1, thief]);
      assert.deepEqual(
        { field: found?.field, cluster: found?.cluster },
        { field, cluster: 'app1' },
      );
    });

    test(`may be used by the same Cluster, and for the same API server: ${field}`, () => {
      const app1 = named('app1', { credential });
      const again = named('again', { credential, apiServer: 'https://APP1.example:6443/' });
      assert.equal(findReusedCredential(app1, [app1]), undefined);
      assert.equal(findReusedCredential(again, [app1]), undefined);
    });
  }

  test('does not go to another machine at the same address', () => {
    const credential = { tokenFile: 'app1/token' };
    const app1 = named('app1', { credential });
    const ways: WrittenSpec[] = [
      { proxyURL: 'http://evil.example:3128' },
      { tlsServerName: 'evil.example' },
      { caFile: 'evil/ca.crt', caBundle: undefined },
    ];
    for (const way of ways) {
      const thief = named('evil', { credential, ...way });
      assert.equal(findReusedCredential(thief, [app1])?.cluster, 'app1', JSON.stringify(way));
    }
  });

  test('of the Pod and stored ones are bound already', () => {
    for (const credential of [{ inCluster: true }, {}]) {
      const thief = named('evil', { credential, apiServer: evil });
      assert.equal(findReusedCredential(thief, [named('app1', { credential })]), undefined);
    }
  });

  test('does not matter to a Cluster without an API server', () => {
    const credential = { tokenFile: 'app1/token' };
    const without = named('x', { credential, apiServer: undefined });
    const app1 = named('app1', { credential });
    assert.equal(findReusedCredential(without, [app1]), undefined);
    assert.equal(findReusedCredential(app1, [without]), undefined);
  });
});

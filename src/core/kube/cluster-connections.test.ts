import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, suite, test } from 'node:test';
import type { Cluster } from '../../api/kinds/cluster.ts';
import { systemClock } from '../clock/system.ts';
import { HansaError, hasCode } from '../errors/error.ts';
import { certificatePem } from '../identity/x509/pem.ts';
import { forge } from '../identity/x509/test-forge.ts';
import { type ClusterSources, clusterConnector } from './cluster-connections.ts';
import {
  serve,
  stopServers,
  testAuthority,
  testCa,
  testLeaf,
  testToken,
} from './test-api-server.ts';

after(stopServers);

const get = { method: 'GET', path: '/version' } as const;

const clusterAt = (apiServer: string | undefined, spec: object = {}): Cluster =>
  ({
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Cluster',
    metadata: { name: 'app1', uid: 'u-1' },
    spec: { issuer: 'https://kubernetes.default.svc', apiServer, ...spec },
  }) as unknown as Cluster;

const sources = (extra: Partial<ClusterSources> = {}): ClusterSources => ({
  sourceOf: () => ({ current: () => testToken }),
  caOf: () => testCa,
  ...extra,
});

suite('the client of a cluster', () => {
  test('reaches its API server with its CA, its credential and its server name', async () => {
    const leaf = testLeaf(testAuthority, ['app1.example']);
    const server = await serve(({ headers }, response) => response.end(headers.authorization), {
      leaf,
    });
    const cluster = clusterAt(server.endpoint.server.href, { tlsServerName: 'app1.example' });
    const client = clusterConnector(sources(), systemClock)(cluster);
    assert.equal((await client.request(get)).body.toString(), 'Bearer secret-token');
    client.close();
  });

  test('asks no source and opens nothing before its first request', async () => {
    const server = await serve((_request, response) => response.end());
    const asked: string[] = [];
    const connect = clusterConnector(
      sources({
        sourceOf: () => {
          asked.push('credential');
          return { current: () => testToken };
        },
        caOf: () => {
          asked.push('ca');
          return testCa;
        },
      }),
      systemClock,
    );
    connect(clusterAt(server.endpoint.server.href)).close();
    assert.deepEqual(asked, []);
    assert.equal(server.sockets.length, 0);
  });

  test('trusts the new CA after a change, and ends connections of the old one', async () => {
    const server = await serve((_request, response) => response.end('{}'));
    let ca = testCa;
    const client = clusterConnector(
      sources({ caOf: () => Promise.resolve(ca) }),
      systemClock,
    )(clusterAt(server.endpoint.server.href));
    await client.request(get);
    await client.request(get);
    assert.equal(server.sockets.length, 1);
    ca = certificatePem(forge({ ca: true }).der);
    await assert.rejects(client.request(get), (caught) =>
      hasCode(caught, 'HANSA_CERTIFICATE_INVALID'),
    );
    const [first] = server.sockets;
    if (first?.closed === false) await once(first, 'close');
    ca = testCa;
    assert.equal((await client.request(get)).status, 200);
    client.close();
  });

  test('rejects with the error of a CA that cannot be read, and uses no other', async () => {
    const server = await serve(() => assert.fail('it got a request'));
    const unreadable = new HansaError('HANSA_UNAVAILABLE', 'Cannot read app1/ca.crt.');
    for (const caOf of [
      () => {
        throw unreadable;
      },
      () => Promise.reject(unreadable),
    ]) {
      const client = clusterConnector(
        sources({ caOf }),
        systemClock,
      )(clusterAt(server.endpoint.server.href));
      await assert.rejects(client.request(get), unreadable);
      await assert.rejects(client.stream(get), unreadable);
    }
  });

  test('does not exist without apiServer', () => {
    assert.throws(
      () => clusterConnector(sources(), systemClock)(clusterAt(undefined)),
      (caught) => hasCode(caught, 'HANSA_UNAVAILABLE') && /app1.*apiServer/.test(caught.message),
    );
  });
});

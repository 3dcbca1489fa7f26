// An endpoint that authenticates itself, accepts a request and never answers holds up nothing else: not other
// relationships, not new ones, not issuing. A site, its sidecar and real SPIRE servers.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { createServer as createDoor, type AddressInfo, connect, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { createServer, type Server as SilentServer } from 'node:https';
import type { Relationship } from '../../src/kubernetes/spire-relationships/parse-relationship.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type OperatedSpire, OperatorSite } from './operated-spire.ts';
import { type SpireServer, startSpire } from './spire.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kube-apiserver',
    'kube-controller-manager',
    'kubectl',
    'spire-server',
  ));

suite('a bundle endpoint that never answers', { skip }, () => {
  let etcd: Etcd;
  let site: OperatorSite;
  let a: OperatedSpire;
  let silent: SilentServer;
  /** Requests without an answer. */
  let hanging = 0;
  const servers: SpireServer[] = [];
  const doors: Server[] = [];
  let b: Relationship;
  let c: Relationship;
  let d: Relationship;

  /** A real SPIRE server, which others on the node reach through a door. */
  const startOther = async (trustDomain: string): Promise<[SpireServer, Relationship]> => {
    const server = await startSpire(trustDomain);
    servers.push(server);
    const { gateway } = a.spire.kubelet.host;
    const port = Number(new URL(server.bundleEndpoint).port);
    const door = createDoor((inside) => {
      const outside = connect(port, '127.0.0.1');
      inside.pipe(outside).pipe(inside);
      inside.on('error', () => outside.destroy());
      outside.on('error', () => inside.destroy());
    });
    doors.push(door);
    await new Promise<void>((resolve) => door.listen(0, gateway, resolve));
    const relationship: Relationship = {
      trustDomain,
      bundleEndpointURL: `https://${gateway}:${(door.address() as AddressInfo).port}/`,
      profile: 'https_spiffe',
      endpointSpiffeID: `spiffe://${trustDomain}/spire/server`,
      bundle: await server.bundle(),
      from: 'SpireServer',
    };
    return [server, relationship];
  };
  const startSilent = async (server: SpireServer, real: Relationship): Promise<Relationship> => {
    const folder = join(temporaryFolder(), 'silent');
    await mkdir(folder, { recursive: true });
    const endpointSpiffeID = `spiffe://${real.trustDomain}/silent`;
    await server.run('x509', 'mint', '-spiffeID', endpointSpiffeID, '-write', folder);
    const [cert, key] = await Promise.all(
      ['svid.pem', 'key.pem'].map((name) => readFile(join(folder, name))),
    );
    silent = createServer({ cert, key }, (_request, response) => {
      hanging++;
      response.once('close', () => hanging--);
    });
    const { gateway } = a.spire.kubelet.host;
    await new Promise<void>((resolve) => silent.listen(0, gateway, resolve));
    const { port } = silent.address() as AddressInfo;
    return { ...real, endpointSpiffeID, bundleEndpointURL: `https://${gateway}:${port}/` };
  };
  const isFresh = (trustDomain: string) =>
    a.untilEntry(trustDomain, (entry) => entry?.state === 'Fresh' && entry.reason === undefined);
  const known = (): Promise<string> => a.spire.run('federation', 'list');

  before(async () => {
    etcd = await startEtcd();
    site = await OperatorSite.start();
    a = await site.add('a', etcd);
    await a.federate([]);
    await a.spire.ready();
    const [server, ofB] = await startOther('b.example');
    [, c] = await startOther('c.example');
    [, d] = await startOther('d.example');
    b = await startSilent(server, ofB);
    await a.federate([b, c]);
    await until(async () => hanging > 0, 'SPIRE waits for the endpoint');
  });
  after(async () => {
    silent?.closeAllConnections();
    silent?.close();
    for (const door of doors) door.close();
    await Promise.all(servers.map((server) => server.stop()));
    await site?.stop();
    await etcd?.stop();
  });

  test('is named, while another relationship is refreshed and SVIDs are issued', async () => {
    await isFresh('c.example');
    await a.spire.run('x509', 'mint', '-spiffeID', 'spiffe://a.example/web');
    await a.untilEntry('b.example', (entry) => /answer/.test(entry?.message ?? ''));
    await a.spire.run('federation', 'refresh', '-id', 'spiffe://c.example');
  });

  test('does not keep SPIRE from a new relationship', async () => {
    await a.federate([b, c, d]);
    await isFresh('d.example');
  });

  test('loses all trust when it is removed, and still holds up no other', async () => {
    await a.spire.run(
      'entry',
      'create',
      '-parentID=spiffe://a.example/agent',
      '-spiffeID=spiffe://a.example/web',
      '-selector=unix:uid:1000',
      '-federatesWith=spiffe://b.example',
      '-federatesWith=spiffe://c.example',
    );
    await a.federate([c]);
    await until(
      async () => !/b\.example/.test(await a.spire.run('bundle', 'list')),
      'SPIRE has no bundle of b.example',
    );
    assert.doesNotMatch(await a.spire.run('entry', 'show'), /FederatesWith.*b\.example/);
    await until(async () => !/d\.example/.test(await known()), 'd.example is gone');
    assert.ok(hanging > 0);
    // Deleting it now would block SPIRE.
    assert.match(await known(), /b\.example/);
    await a.federate([c, d]);
    await isFresh('d.example');
    await a.spire.run('federation', 'refresh', '-id', 'spiffe://c.example');
  });

  test('is gone when its connections end', async () => {
    silent.closeAllConnections();
    await until(async () => !/b\.example/.test(await known()), 'b.example is gone');
    await a.spire.run('federation', 'refresh', '-id', 'spiffe://c.example');
    assert.doesNotMatch(await a.spire.run('bundle', 'list'), /b\.example/);
  });
});

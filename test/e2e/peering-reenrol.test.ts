// A site loses its whole data folder, or only its keys, and starts over as the same peer. Its workloads
// call across the sites again, under the grants from before. A thief with the lost keys gets nothing.

import assert from 'node:assert/strict';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { connect, createServer } from 'node:tls';
import type { FederationPeer } from '../../src/api/kinds/federation-peer.ts';
import type { WitnessedSummary } from '../../src/peering/routes/witness-routes.ts';
import { temporaryFolder } from './daemon.ts';
import { PeeringSite, startPair } from './peering-pair.ts';
import { until } from './until.ts';

interface Received {
  readonly svids: readonly { readonly certificate: string; readonly privateKey: string }[];
  readonly federatedBundles: Readonly<Record<string, string>>;
}

const uid = process.getuid?.() ?? 0;
const object = (kind: string, name: string, spec: object) =>
  JSON.stringify({ apiVersion: 'hansa.dev/v1alpha1', kind, metadata: { name }, spec });

/** What the workload of a site gets now. */
async function received(site: PeeringSite): Promise<Received> {
  return JSON.parse(await site.must(['svid', 'fetch', '-o', 'json'])) as Received;
}

/** A call with mutual TLS. Each side trusts exactly the bundle that its site delivers. Resolves to the name of the caller. */
function call(db: Received, web: Received): Promise<string> {
  const [server, client] = [db.svids[0], web.svids[0]];
  return new Promise((resolve, reject) => {
    const service = createServer({
      cert: server?.certificate,
      key: server?.privateKey,
      ca: db.federatedBundles['bruges.example'] ?? 'none',
      requestCert: true,
      rejectUnauthorized: true,
    });
    const over = (settle: () => void) => {
      service.close();
      settle();
    };
    service.on('secureConnection', (socket) => {
      const name = socket.getPeerX509Certificate()?.subjectAltName ?? '';
      socket.destroy();
      over(() => resolve(name));
    });
    service.on('tlsClientError', (error) => over(() => reject(error)));
    service.listen(0, '127.0.0.1', () => {
      const { port } = service.address() as { readonly port: number };
      const socket: TLSSocket = connect({
        host: '127.0.0.1',
        port,
        cert: client?.certificate,
        key: client?.privateKey,
        ca: web.federatedBundles['lubeck.example'] ?? 'none',
        // A SPIFFE ID instead of a host name.
        checkServerIdentity: () => undefined,
      });
      socket.on('error', () => undefined);
    });
  });
}

suite('a site that lost its keys', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;
  let thief: PeeringSite | undefined;
  let lost: Received;
  let uidBefore: string;

  const peerAt = async (site: PeeringSite, name: string): Promise<FederationPeer> =>
    JSON.parse(await site.must(['get', 'federationpeers', name, '-o', 'json'])) as FederationPeer;
  const fingerprint = async (site: PeeringSite): Promise<string> =>
    (await site.must(['trust', 'bundle', 'fingerprint'])).trim();
  const web = () =>
    bruges.must(
      ['apply', '-f', '-'],
      object('WorkloadEntry', 'web', {
        spiffeID: 'spiffe://bruges.example/web',
        selectors: [`unix:uid:${uid}`],
        federatesWith: ['lubeck.example'],
      }),
    );
  /** Both workloads have the bundle of the other site, and the service knows its caller. */
  const callsAgain = async (): Promise<void> => {
    await until(
      async () => (await received(bruges)).federatedBundles['lubeck.example'] !== undefined,
    );
    await until(
      async () => (await received(lubeck)).federatedBundles['bruges.example'] !== undefined,
    );
    const caller = await call(await received(lubeck), await received(bruges));
    assert.equal(caller, 'URI:spiffe://bruges.example/web');
    const check = ['grant', 'check', '--from', 'spiffe://bruges.example/web', '--offer', 'db'];
    assert.match(await lubeck.must([...check, '--method', 'GET']), /^allowed: grant bruges-db/);
    assert.match(await bruges.must(['peer', 'catalog', 'lubeck.example']), /^offer +db +read /m);
  };

  before(async () => {
    [lubeck, bruges] = (await startPair('lubeck', 'bruges')) as [PeeringSite, PeeringSite];
    await bruges.accept(await lubeck.invite(['--for', 'bruges.example']));
    await lubeck.until('bruges.example', 'active');
    const db = { spiffeID: 'spiffe://lubeck.example/db' };
    const entry = { ...db, selectors: [`unix:uid:${uid}`], federatesWith: ['bruges.example'] };
    await lubeck.must(['apply', '-f', '-'], object('WorkloadEntry', 'db', entry));
    await lubeck.must(['apply', '-f', '-'], object('ServiceOffer', 'db', db));
    const grant = ['grant', 'create', 'bruges-db', '--peer', 'bruges.example', '--offer', 'db'];
    const identity = ['--identity', 'spiffe://bruges.example/web'];
    await lubeck.must([...grant, ...identity, '--any-network', '--any-address']);
    await web();
    await callsAgain();
    lost = await received(bruges);
    uidBefore = (await peerAt(lubeck, 'bruges.example')).metadata.uid;
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop(), thief?.stop()]));

  test('is rejected when it comes back without its data, and its peer says what to do', async () => {
    await bruges.stop('SIGKILL');
    const stolen = temporaryFolder();
    cpSync(bruges.dataDir, join(stolen, 'bruges'), { recursive: true });
    thief = new PeeringSite(stolen, 'bruges');
    await bruges.lose();
    await bruges.start();
    await lubeck.until('bruges.example', 'degraded');
    await until(async () => (await lubeck.peer('bruges.example'))?.cause === 'Untrusted');
    const shown = await lubeck.must(['peer', 'show', 'bruges.example']);
    assert.match(shown, /hansa peer reenrol bruges\.example/);
    const ordinary = await bruges.accept(await lubeck.invite(['--for', 'bruges.example']));
    assert.match(ordinary.stderr, /must revoke or re-enrol it first/);
  });

  test('starts over with a fresh invitation, as the same peer with the same grants', async () => {
    const again = ['peer', 'reenrol', 'bruges.example'];
    const line = await lubeck.must([...again, '--fingerprint', await fingerprint(bruges)]);
    assert.equal((await lubeck.peer('bruges.example'))?.state, 'proposed');
    assert.deepEqual((await received(lubeck)).federatedBundles, {});
    const accepted = await bruges.accept(line);
    assert.equal(accepted.code, 0, accepted.stderr);
    assert.match(accepted.stderr, /trusts only the new keys of this site/);
    await lubeck.until('bruges.example', 'active');
    const { metadata, status } = await peerAt(lubeck, 'bruges.example');
    assert.equal(metadata.uid, uidBefore);
    assert.equal(status?.reenrolments, 1);
    await web();
    await callsAgain();
    await assert.rejects(
      call(await received(lubeck), { ...(await received(bruges)), svids: lost.svids }),
    );
  });

  test('has a new audit log, which its peer cosigns after an operator looked at it', async () => {
    const found = async (): Promise<WitnessedSummary | undefined> => {
      const list = JSON.parse(await lubeck.must(['witness', 'list', '-o', 'json'])) as {
        readonly logs: readonly WitnessedSummary[];
      };
      return list.logs.find(({ name }) => name === 'bruges.example');
    };
    await until(async () => (await found())?.finding !== undefined);
    const { finding, events = 0 } = (await found()) ?? {};
    assert.equal(finding?.reason, 'KeyChanged');
    // It is verified from its first checkpoint on, and not cosigned.
    assert.ok(events > 0);
    await lubeck.must(['witness', 'acknowledge', 'bruges.example']);
    await until(async () => {
      const { finding: left, events: now = 0 } = (await found()) ?? {};
      return left === undefined && now > 0;
    });
  });

  test('has no place for a thief with the lost keys, who has even the invitation', async () => {
    await bruges.stop('SIGKILL');
    await bruges.lose();
    const line = await lubeck.must(['peer', 'reenrol', 'bruges.example']);
    const impostor = thief as PeeringSite;
    await impostor.start();
    const { code, stderr } = await impostor.accept(line);
    assert.notEqual(code, 0);
    assert.match(
      stderr,
      /for new keys of bruges\.example, and the bundle .* has a key from before/,
    );
    assert.equal((await lubeck.peer('bruges.example'))?.state, 'proposed');
    const denied = await lubeck.must(['audit', 'list', '--outcome', 'deny', '-o', 'json']);
    assert.match(denied, /contains a key that bruges\.example has lost/);
    await impostor.stop();
    // The invitation is still good for the right site, which an operator compares.
    await bruges.start();
    const waiting = await bruges.accept(line);
    assert.match(waiting.stdout, /is proposed: waits for the operator of lubeck\.example/);
    const { fingerprint: shown } = (await lubeck.peer('bruges.example')) ?? {};
    assert.equal(shown, await fingerprint(bruges));
    await lubeck.must(['peer', 'confirm', 'bruges.example']);
    await lubeck.until('bruges.example', 'active');
    await web();
    await callsAgain();
  });

  test('keeps its peer too where it lost only its keys, also after an invitation expired', async () => {
    const { uid: kept } = (await peerAt(bruges, 'lubeck.example')).metadata;
    await bruges.must(['trust', 'rotate', '--emergency', '--fresh']);
    await lubeck.must(['peer', 'reenrol', 'bruges.example', '--ttl', '1s']);
    await lubeck.until('bruges.example', 'proposed', /the invitation to re-enrol it expired/);
    const list = await lubeck.run(['peer', 'list']);
    assert.match(list.stderr, /To invite it again: hansa peer reenrol bruges\.example/);
    // Both die in the middle of it.
    const line = await lubeck.must([
      'peer',
      'reenrol',
      'bruges.example',
      '--fingerprint',
      await fingerprint(bruges),
    ]);
    await lubeck.stop('SIGKILL');
    await lubeck.start();
    const accepting = bruges.accept(line);
    await until(async () => (await bruges.peer('lubeck.example'))?.reenrolments === 1);
    await Promise.all([lubeck.stop('SIGKILL'), bruges.stop('SIGKILL')]);
    await accepting;
    await Promise.all([lubeck.start(), bruges.start()]);
    await lubeck.until('bruges.example', 'active');
    await bruges.until('lubeck.example', 'active');
    assert.equal((await peerAt(bruges, 'lubeck.example')).metadata.uid, kept);
    assert.equal((await peerAt(lubeck, 'bruges.example')).metadata.uid, uidBefore);
    await callsAgain();
  });

  test('has all of it in the audit log of its peer', async () => {
    assert.match(await lubeck.must(['audit', 'verify']), /verified/);
    const log = await lubeck.must(['audit', 'list', '--verb', 'peer.reenrol', '-o', 'json']);
    assert.match(log, /degraded → proposed: admin lets it start over with new keys/);
    const revoked = await lubeck.run(['peer', 'revoke', 'bruges.example']);
    assert.equal(revoked.code, 0, revoked.stderr);
    const { code, stderr } = await lubeck.run(['peer', 'reenrol', 'bruges.example']);
    assert.equal(code, 5);
    assert.match(stderr, /it is revoked.*exchange a new invitation.*HANSA_PEER_STATE/);
  });
});

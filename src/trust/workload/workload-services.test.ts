import assert from 'node:assert/strict';
import type { EventEmitter } from 'node:events';
import { connect as connectHttp2, constants } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { readFileSync, realpathSync, statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { describe, type TestContext, test } from 'node:test';
import { Metadata, status } from '@grpc/grpc-js';
import { parseChain, validateChain } from '../../core/identity/x509/svid-validator.ts';
import {
  fetchBundles,
  fetchSvids,
  openAuthority,
  ownSelector,
  ownUid,
  put,
  putEntry,
  putFederation,
  remove,
  startTestSite,
  streamsAre,
  streamsExceed,
} from './test-workload-site.ts';
import { onSiteAndAgent } from '../agent/test-workload-hosts.ts';
import type { WorkloadLimits } from './socket/workload-connections.ts';

async function site(t: TestContext, limits: Partial<WorkloadLimits> = {}) {
  const started = await startTestSite(limits);
  t.after(started.stop);
  return started;
}

function opened<S extends { close(): void }>(t: TestContext, stream: S): S {
  t.after(() => stream.close());
  return stream;
}

function closed(emitter: EventEmitter): Promise<void> {
  return new Promise((resolve) => {
    emitter.once('close', () => resolve());
  });
}

onSiteAndAgent('the Workload API', (host) => {
  test('gives a process the SVID of the entry that matches it', async (t) => {
    const { store, socket, authority, clock, issued } = await host.site(t);
    await putEntry(store, 'web', { selectors: [ownSelector, `unix:path:${process.execPath}`] });
    const message = await opened(t, fetchSvids(socket)).next();
    assert.equal(message.svids.length, 1);
    const [svid] = message.svids;
    assert.equal(svid?.spiffeId, 'spiffe://lubeck.example/web');
    assert.equal(svid.hint, 'web');
    assert.deepEqual(Buffer.from(svid.bundle), authority.certificate.der);
    const validated = validateChain(
      parseChain([svid.x509Svid]),
      { bundleFor: () => authority.bundle },
      clock.now(),
    );
    assert.equal(validated.id.toString(), 'spiffe://lubeck.example/web');
    assert.deepEqual(message.federatedBundles, {});
    if (!host.audits) return;
    assert.equal(issued.length, 1);
    assert.match(issued[0]?.reason ?? '', /spiffe:\/\/lubeck\.example\/web, serial number/);
  });

  test('gives every matching identity, each with a hint of its own, in order of names', async (t) => {
    const { store, socket } = await host.site(t);
    await putEntry(store, 'b');
    await putEntry(store, 'a');
    await putEntry(store, 'other', { selectors: [`unix:uid:${ownUid + 1}`] });
    await putEntry(store, 'elsewhere', { selectors: [ownSelector, 'unix:path:/usr/bin/other'] });
    const { svids } = await opened(t, fetchSvids(socket)).next();
    assert.deepEqual(
      svids.map(({ hint }) => hint),
      ['a', 'b'],
    );
  });

  test('recognizes a process by the names of its user and group', async (t) => {
    const { store, socket } = await host.site(t);
    const { username: user, gid } = userInfo();
    const groups = readFileSync('/etc/group', 'utf8');
    const group = new RegExp(`^([^:]+):[^:]*:${gid}:`, 'm').exec(groups)?.[1];
    await putEntry(store, 'named', { selectors: [`unix:user:${user}`, `unix:group:${group}`] });
    await putEntry(store, 'other', { selectors: ['unix:user:nobody-at-all'] });
    const { svids } = await opened(t, fetchSvids(socket)).next();
    assert.deepEqual(
      svids.map(({ hint }) => hint),
      ['named'],
    );
  });

  test('opens its socket to every user', async (t) => {
    const { socket } = await host.site(t);
    assert.equal(statSync(socket).mode & 0o777, 0o666);
  });

  test('refuses a call without the security header', async (t) => {
    const { store, socket } = await host.site(t);
    await putEntry(store, 'web');
    for (const value of [undefined, 'false', 'TRUE']) {
      const metadata = new Metadata();
      if (value !== undefined) metadata.set('workload.spiffe.io', value);
      const refusal = await opened(t, fetchSvids(socket, metadata)).end();
      assert.equal(refusal.code, status.INVALID_ARGUMENT);
      assert.match(refusal.details, /workload\.spiffe\.io/);
    }
  });

  test('denies a process that no entry matches, and tells the audit log', async (t) => {
    const { socket, denials } = await host.site(t);
    const refusals = [
      await opened(t, fetchSvids(socket)).end(),
      await opened(t, fetchBundles(socket)).end(),
    ];
    assert.deepEqual(
      refusals.map(({ code }) => code),
      [status.PERMISSION_DENIED, status.PERMISSION_DENIED],
    );
    if (!host.audits) return;
    assert.equal(denials.length, 2);
    assert.equal(denials[0]?.actor.user, `unix:uid:${ownUid}`);
    // What an entry could name, so that nobody has to guess.
    const { reason = '' } = denials[0];
    assert.match(reason, new RegExp(`; its selectors are unix:uid:${ownUid}, unix:gid:\\d+, `));
    assert.ok(reason.includes(`unix:path:${realpathSync(process.execPath)}`), reason);
  });

  test('never issues what is reserved or foreign, even if such an entry is in the store', async (t) => {
    const { store, socket } = await host.site(t);
    await putEntry(store, 'site', { spiffeID: 'spiffe://lubeck.example/hansa/site' });
    await putEntry(store, 'foreign', { spiffeID: 'spiffe://bruges.example/web' });
    const refusal = await opened(t, fetchSvids(socket)).end();
    assert.equal(refusal.code, status.PERMISSION_DENIED);
  });

  test('pushes the new state when entries change, and ends the stream with the last', async (t) => {
    const { store, socket } = await host.site(t);
    await putEntry(store, 'web');
    const stream = opened(t, fetchSvids(socket));
    const first = await stream.next();
    await putEntry(store, 'other', { selectors: [`unix:uid:${ownUid + 1}`] });
    await putEntry(store, 'also');
    const second = await stream.next();
    assert.deepEqual(
      second.svids.map(({ hint }) => hint),
      ['also', 'web'],
    );
    // What did not change is the same SVID: nobody has to shake hands anew for another's sake.
    assert.deepEqual(second.svids[1]?.x509Svid, first.svids[0]?.x509Svid);
    await remove(store, 'workloadentries', 'also');
    assert.equal((await stream.next()).svids.length, 1);
    await remove(store, 'workloadentries', 'web');
    assert.equal((await stream.end()).code, status.PERMISSION_DENIED);
  });

  test('hands out a new SVID with a new key after half of the life, and not before', async (t) => {
    const { store, socket, clock, services } = await host.site(t);
    await putEntry(store, 'web', { ttlSeconds: 600 });
    const stream = opened(t, fetchSvids(socket));
    const first = await stream.next();
    clock.offsetMs = 260_000;
    services.refresh();
    const again = await opened(t, fetchSvids(socket)).next();
    assert.deepEqual(again.svids[0]?.x509Svid, first.svids[0]?.x509Svid);
    clock.offsetMs = 301_000;
    services.refresh();
    const second = await stream.next();
    assert.notDeepEqual(second.svids[0]?.x509Svid, first.svids[0]?.x509Svid);
    assert.notDeepEqual(second.svids[0]?.x509SvidKey, first.svids[0]?.x509SvidKey);
    assert.equal(stream.waiting, 0);
  });

  test('hands out a new SVID when its authority is tainted', async (t) => {
    const { store, socket, authority } = await host.site(t);
    await putEntry(store, 'web');
    const stream = opened(t, fetchSvids(socket));
    const first = await stream.next();
    const none = () => [];
    await authority.prepare('x509', none);
    const prepared = await stream.next();
    assert.deepEqual(prepared.svids[0]?.x509Svid, first.svids[0]?.x509Svid);
    assert.ok((prepared.svids[0]?.bundle.length ?? 0) > (first.svids[0]?.bundle.length ?? 0));
    await authority.activate('x509', undefined, none);
    await authority.taint('x509', undefined, none);
    const tainted = await stream.next();
    assert.notDeepEqual(tainted.svids[0]?.x509Svid, first.svids[0]?.x509Svid);
  });

  test('gives the bundle of a federation without a peer to those who federate with it', async (t) => {
    const { store, socket, clock, authority } = await host.site(t);
    const spire = await openAuthority('spire.example', clock);
    await putFederation(store, spire);
    await putEntry(store, 'web', { federatesWith: ['spire.example'] });
    const { federatedBundles } = await opened(t, fetchSvids(socket)).next();
    assert.deepEqual(Object.keys(federatedBundles), ['spiffe://spire.example']);
    const { bundles } = await opened(t, fetchBundles(socket)).next();
    assert.deepEqual(Object.keys(bundles), ['spiffe://lubeck.example', 'spiffe://spire.example']);
    assert.deepEqual(
      Buffer.from(bundles['spiffe://lubeck.example'] as Uint8Array),
      authority.certificate.der,
    );
  });

  test('gives bundles of federations by their labels, and takes them when those change', async (t) => {
    const { store, socket, clock } = await host.site(t);
    const spire = await openAuthority('spire.example', clock);
    const label = (zone: string) => putFederation(store, spire, { zone });
    await label('south');
    await putEntry(store, 'web', { federatesWithSelector: { matchLabels: { zone: 'north' } } });
    const stream = opened(t, fetchBundles(socket));
    const domains = async () => Object.keys((await stream.next()).bundles);
    assert.deepEqual(await domains(), ['spiffe://lubeck.example']);
    await label('north');
    assert.deepEqual(await domains(), ['spiffe://lubeck.example', 'spiffe://spire.example']);
    await label('east');
    assert.deepEqual(await domains(), ['spiffe://lubeck.example']);
  });

  test("gives a peer's bundle exactly while the peer is trusted and a grant covers", async (t) => {
    const { store, socket, clock } = await host.site(t);
    const bruges = await openAuthority('bruges.example', clock);
    const peer = (state: string) =>
      put(store, 'federationpeers', 'bruges.example', {
        spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
        status: { state },
      });
    await putFederation(store, bruges);
    await peer('active');
    await putEntry(store, 'db', { federatesWith: ['*'] });
    await put(store, 'serviceoffers', 'db', { spec: { spiffeID: 'spiffe://lubeck.example/db' } });
    const stream = opened(t, fetchBundles(socket));
    const domains = async () => Object.keys((await stream.next()).bundles);
    assert.deepEqual(await domains(), ['spiffe://lubeck.example']);
    await put(store, 'federationgrants', 'bruges-db', {
      spec: {
        peer: 'bruges.example',
        offers: ['db'],
        nodeInstances: { ids: ['spiffe://bruges.example/web'] },
        networks: { unrestricted: true },
        sourceCIDRs: { unrestricted: true },
      },
    });
    assert.deepEqual(await domains(), ['spiffe://lubeck.example', 'spiffe://bruges.example']);
    await peer('suspended');
    assert.deepEqual(await domains(), ['spiffe://lubeck.example']);
    await peer('degraded');
    assert.deepEqual(await domains(), ['spiffe://lubeck.example', 'spiffe://bruges.example']);
    await remove(store, 'federationgrants', 'bruges-db');
    assert.deepEqual(await domains(), ['spiffe://lubeck.example']);
  });

  test('ends streams with UNAVAILABLE when the site stops', async (t) => {
    const started = await host.site(t);
    await putEntry(started.store, 'web');
    const stream = opened(t, fetchSvids(started.socket));
    await stream.next();
    await started.stop();
    assert.ok([status.UNAVAILABLE, status.CANCELLED].includes((await stream.end()).code));
  });
});

describe('bounds of the workload socket', () => {
  /** Longer than any of these tests takes: it is over where they say so. */
  const requestMs = 600_000;

  test('1,000 streams that never send their request are refused, and others are served', async (t) => {
    const { store, socket, metrics, denials, clock } = await site(t, { requestMs });
    await putEntry(store, 'web');
    const session = connectHttp2('http://localhost', {
      createConnection: () => connect(socket),
    });
    session.on('error', () => undefined);
    t.after(() => session.destroy());
    const ends: Promise<unknown>[] = [];
    for (let index = 0; index < 1000; index++) {
      const half = session.request({
        [constants.HTTP2_HEADER_METHOD]: 'POST',
        [constants.HTTP2_HEADER_PATH]: '/SpiffeWorkloadAPI/FetchX509SVID',
        'content-type': 'application/grpc',
        te: 'trailers',
        'workload.spiffe.io': 'true',
      });
      half.on('error', () => undefined);
      half.resume();
      ends.push(closed(half));
    }
    // Meanwhile the same user is served on another connection.
    assert.equal((await opened(t, fetchSvids(socket)).next()).svids.length, 1);
    await streamsExceed(metrics, 1);
    await clock.elapseUntil(Promise.all(ends), requestMs);
    // How many of them were late, and how many were one too many, depends on the speed of the machine.
    assert.match(metrics.expose(), /hansa_workload_refusals_total\{reason="late"\} [1-9]/);
    await streamsAre(metrics, 1);
    assert.equal(denials[0]?.reason, 'a stream without a complete request');
  });

  test('a user who holds too many streams is refused more of them', async (t) => {
    const { store, socket } = await site(t, { streamsPerUser: 3 });
    await putEntry(store, 'web');
    for (let index = 0; index < 3; index++) await opened(t, fetchSvids(socket)).next();
    assert.equal((await opened(t, fetchSvids(socket)).end()).code, status.RESOURCE_EXHAUSTED);
  });

  test('connections that say nothing are closed, and beyond a number not taken', async (t) => {
    const { store, socket, metrics, clock } = await site(t, {
      requestMs,
      connectionsPerUser: 50,
      connectsPerSecond: 1e6,
    });
    await putEntry(store, 'web');
    const silent: Socket[] = Array.from({ length: 1000 }, () => connect(socket));
    t.after(() => silent.forEach((one) => one.destroy()));
    const ended = silent.map((one) => {
      one.on('error', () => undefined).resume();
      return closed(one);
    });
    await clock.elapseUntil(Promise.all(ended), requestMs);
    while (!metrics.expose().includes('hansa_workload_connections 0\n')) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal((await opened(t, fetchSvids(socket)).next()).svids.length, 1);
  });

  test('a user who comes again and again is turned away until time has passed', async (t) => {
    const { store, socket, metrics, clock } = await site(t, {
      requestMs,
      connectionsPerUser: 20,
      // One in a quarter of an hour: none comes while the test runs.
      connectsPerSecond: 0.001,
    });
    await putEntry(store, 'web');
    const comeAndGo = async (): Promise<void> => {
      const session = connectHttp2('http://localhost', { createConnection: () => connect(socket) });
      session.on('error', () => undefined).once('remoteSettings', () => session.destroy());
      await closed(session);
    };
    for (let times = 0; times < 20; times++) await comeAndGo();
    assert.doesNotMatch(metrics.expose(), /hansa_workload_refusals_total\{reason="limit"\} [1-9]/);
    for (let times = 0; times < 5; times++) await comeAndGo();
    assert.match(metrics.expose(), /hansa_workload_refusals_total\{reason="limit"\} 5\n/);
    clock.monotonicOffsetMs += 2_500_000;
    await comeAndGo();
    assert.equal((await opened(t, fetchSvids(socket)).next()).svids.length, 1);
    await comeAndGo();
    assert.match(metrics.expose(), /hansa_workload_refusals_total\{reason="limit"\} 6\n/);
  });

  const checkCall = '/envoy.service.auth.v3.Authorization/Check';
  /** Begins a message of that length, without an entry and without the rest of it. */
  const begun = (t: TestContext, socket: string, length: number) => {
    const session = connectHttp2('http://localhost', { createConnection: () => connect(socket) });
    session.on('error', () => undefined);
    t.after(() => session.destroy());
    const call = session.request({
      [constants.HTTP2_HEADER_METHOD]: 'POST',
      [constants.HTTP2_HEADER_PATH]: checkCall,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    call.on('error', () => undefined).resume();
    const head = Buffer.alloc(5);
    head.writeUInt32BE(length, 1);
    call.write(head);
    return { session, call };
  };

  test('a request in pieces of one byte ends its connection long before it is whole', async (t) => {
    const { socket, metrics, denials } = await site(t);
    const { session, call } = begun(t, socket, 200_000);
    const ended = closed(session);
    let sent = 0;
    const drip = (): void => {
      if (!call.destroyed && ++sent < 200_000) call.write(Buffer.alloc(1), drip);
    };
    drip();
    await ended;
    assert.ok(sent < 10_000, `${sent} pieces`);
    assert.match(metrics.expose(), /hansa_workload_refusals_total\{reason="flood"\} 1\n/);
    assert.equal(denials[0]?.reason, 'requests in too many frames, or too large in total');
  });

  test('requests that are held for one user are so large together, over all connections', async (t) => {
    const { socket, store, metrics } = await site(t, { requestBytesPerUser: 500_000 });
    await putEntry(store, 'web');
    const first = begun(t, socket, 200_000);
    first.call.write(Buffer.alloc(199_999));
    const second = begun(t, socket, 200_000);
    second.call.write(Buffer.alloc(200_000));
    const third = begun(t, socket, 200_000);
    const ended = [first, second, third].map(({ session }) => closed(session));
    third.call.write(Buffer.alloc(199_999));
    await Promise.race(ended);
    assert.match(metrics.expose(), /hansa_workload_refusals_total\{reason="flood"\} 1\n/);
    // The room of the one that was ended is free again.
    assert.equal((await opened(t, fetchSvids(socket)).next()).svids.length, 1);
  });

  test('large requests in usual pieces, one after the other, are answered', async (t) => {
    const { socket } = await site(t, { requestBytesPerUser: 300_000 });
    const session = connectHttp2('http://localhost', { createConnection: () => connect(socket) });
    t.after(() => session.destroy());
    for (let index = 0; index < 5; index++) {
      const call = session.request({
        [constants.HTTP2_HEADER_METHOD]: 'POST',
        [constants.HTTP2_HEADER_PATH]: checkCall,
        'content-type': 'application/grpc',
        te: 'trailers',
      });
      call.resume();
      const message = Buffer.alloc(5 + 250_000);
      message.writeUInt32BE(250_000, 1);
      call.end(message);
      await closed(call);
      assert.equal(call.rstCode, 0);
    }
    assert.equal(session.destroyed, false);
  });

  test('garbage, half a handshake and messages that are none end with their connection', async (t) => {
    const { store, socket, metrics, clock } = await site(t, { requestMs });
    await putEntry(store, 'web');
    const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
    const broken = [
      'GET / HTTP/1.1\r\n\r\n',
      preface,
      `${preface}${'\xff'.repeat(100)}`,
      '\0'.repeat(9000),
    ];
    const ended = broken.map((text) => {
      const one = connect(socket);
      one.on('error', () => undefined).resume();
      one.write(Buffer.from(text, 'latin1'));
      return closed(one);
    });
    await clock.elapseUntil(Promise.all(ended), requestMs);
    const session = connectHttp2('http://localhost', { createConnection: () => connect(socket) });
    session.on('error', () => undefined);
    t.after(() => session.destroy());
    const statusOf = async (path: string, body: Buffer): Promise<unknown> => {
      const call = session.request({
        [constants.HTTP2_HEADER_METHOD]: 'POST',
        [constants.HTTP2_HEADER_PATH]: path,
        'content-type': 'application/grpc',
        te: 'trailers',
        'workload.spiffe.io': 'true',
      });
      let answer: unknown;
      call.on('response', (headers) => {
        answer = headers['grpc-status'];
      });
      call.on('error', () => undefined).resume();
      call.end(body);
      await closed(call);
      return Number(answer);
    };
    const frame = (message: Buffer, length = message.length): Buffer => {
      const head = Buffer.alloc(5);
      head.writeUInt32BE(length, 1);
      return Buffer.concat([head, message]);
    };
    const check = '/envoy.service.auth.v3.Authorization/Check';
    assert.equal(await statusOf(check, frame(Buffer.from('ffffffff', 'hex'))), status.INTERNAL);
    assert.equal(
      await statusOf(check, frame(Buffer.alloc(10), 2 ** 31)),
      status.RESOURCE_EXHAUSTED,
    );
    assert.equal(
      await statusOf('/SpiffeWorkloadAPI/Nothing', frame(Buffer.alloc(0))),
      status.UNIMPLEMENTED,
    );
    assert.equal(await statusOf('/', frame(Buffer.alloc(0))), status.UNIMPLEMENTED);
    assert.equal((await opened(t, fetchSvids(socket)).next()).svids.length, 1);
    await streamsAre(metrics, 1);
  });
});

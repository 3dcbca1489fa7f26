import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2, type Settings } from 'node:http2';
import { connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import { yieldToEventLoop } from '../../../core/clock/yield-to-event-loop.ts';
import { frame, frameType, RawConnection } from '../../../core/rpc/test-frames.ts';
import { onSiteAndAgent, type StartedHost } from '../../agent/test-workload-hosts.ts';
import { fetchSvids, putEntry, startTestSite } from '../test-workload-site.ts';
import { streamBytes } from './grpc-front.ts';
import { defaultLimits, type WorkloadLimits } from './workload-connections.ts';

/** A call of the Workload API that has everything. */
export const fetchHeaders: Readonly<Record<string, string>> = {
  ':method': 'POST',
  ':scheme': 'http',
  ':path': '/SpiffeWorkloadAPI/FetchX509SVID',
  ':authority': 'localhost',
  'content-type': 'application/grpc',
  te: 'trailers',
  'workload.spiffe.io': 'true',
};

const padding = { 'x-one': 'v'.repeat(3_500), 'x-two': 'v'.repeat(3_500) };
const callBytes = streamBytes + 8 * 1024;

function gauge({ metrics }: Pick<StartedHost, 'metrics'>, name: string): number {
  const value = new RegExp(`^hansa_workload_${name} (\\d+)$`, 'm').exec(metrics.expose())?.[1];
  assert.ok(value !== undefined, name);
  return Number(value);
}

/** Calls that never end, and why they are refused. */
const refusals: Readonly<
  Record<
    string,
    {
      readonly headers?: Readonly<Record<string, string>>;
      readonly limits?: Partial<WorkloadLimits>;
      /** What follows the headers of each call. */
      readonly data?: Buffer;
    }
  >
> = {
  'too large headers': { headers: { 'x-three': 'v'.repeat(8_000) } },
  'a wrong content type': { headers: { 'content-type': 'text/plain' } },
  'an unknown method': { headers: { ':path': '/Nothing/Here' } },
  'no security header': { headers: { 'workload.spiffe.io': 'false' } },
  'an invalid timeout': { headers: { 'grpc-timeout': 'soon' } },
  'a timeout that is over': { headers: { 'grpc-timeout': '0n' } },
  'an unknown compression': {
    headers: { 'grpc-encoding': 'odd' },
    data: Buffer.from([1, 0, 0, 0, 0]),
  },
  'a message that is too large': { data: Buffer.from([0, 255, 0, 0, 0]) },
  'messages beyond the first': { data: Buffer.alloc(10) },
  'too many streams of the user': { limits: { streamsPerUser: 0 } },
  'a user that is full': { limits: { requestBytesPerUser: 30_000 } },
};

onSiteAndAgent('a call that is refused and never ends', (host) => {
  for (const [name, { headers, limits, data }] of Object.entries(refusals)) {
    test(`holds nothing, and its connection ends after a few: ${name}`, async (t) => {
      const started = await host.site(t, limits);
      const connection = new RawConnection(connect(started.socket));
      t.after(() => connection.socket.destroy());
      const all = { ...fetchHeaders, ...padding, ...headers };
      let most = 0;
      let calls = 0;
      for (; !connection.socket.destroyed; await yieldToEventLoop()) {
        // As many as it takes: what is refused must not make room for more.
        if (calls < 10_000 && connection.socket.writableLength < 100_000) {
          const stream = connection.call(all);
          calls++;
          if (data !== undefined) connection.socket.write(frame(frameType.data, 0, stream, data));
        }
        most = Math.max(most, gauge(started, 'request_bytes'));
      }
      // What the kernel and the site had read of it when the connection ended.
      const inFlight = 128 * 1024;
      const mayHold = defaultLimits.refusalsPerConnection * callBytes + inFlight;
      assert.ok(most <= mayHold, `${most} bytes after ${calls} calls`);
      while (gauge(started, 'request_bytes') > 0) await yieldToEventLoop();
      assert.equal(gauge(started, 'streams'), 0);
    });
  }

  test('after its time, and the same user is served meanwhile', async (t) => {
    const requestMs = 600_000;
    const started = await host.site(t, { requestMs });
    await putEntry(started.store, 'web');
    const connection = new RawConnection(connect(started.socket));
    t.after(() => connection.socket.destroy());
    const calls = defaultLimits.streamsPerConnection;
    for (let index = 0; index < calls; index++) {
      connection.call({ ...fetchHeaders, ...padding });
    }
    while (gauge(started, 'streams') < calls) await yieldToEventLoop();
    assert.ok(gauge(started, 'request_bytes') >= calls * streamBytes);
    const stream = fetchSvids(started.socket);
    t.after(() => stream.close());
    await stream.next();
    await started.clock.elapseUntil(connection.closed, requestMs);
    while (gauge(started, 'streams') > 1) await yieldToEventLoop();
    assert.ok(gauge(started, 'request_bytes') < 2 * callBytes);
  });
});

async function site(t: TestContext, limits: Partial<WorkloadLimits> = {}) {
  const started = await startTestSite(limits);
  t.after(started.stop);
  return started;
}

test('a user with many connections holds no more than its share', async (t) => {
  const requestBytesPerUser = 1_000_000;
  const started = await site(t, { requestBytesPerUser });
  const connections = Array.from({ length: 30 }, () => new RawConnection(connect(started.socket)));
  t.after(() => {
    for (const { socket } of connections) socket.destroy();
  });
  let most = 0;
  for (let index = 0; index < 20; index++) {
    for (const connection of connections) {
      if (!connection.socket.destroyed) connection.call({ ...fetchHeaders, ...padding });
    }
    await yieldToEventLoop();
    most = Math.max(most, gauge(started, 'request_bytes'));
  }
  while (gauge(started, 'request_bytes') < requestBytesPerUser / 2) await yieldToEventLoop();
  most = Math.max(most, gauge(started, 'request_bytes'));
  // Each connection may have one call that is refused now.
  assert.ok(most <= requestBytesPerUser + connections.length * callBytes, `${most}`);
});

test('calls that their caller resets at once leave nothing', async (t) => {
  const started = await site(t);
  const connection = new RawConnection(connect(started.socket));
  t.after(() => connection.socket.destroy());
  for (let index = 0; index < 500; index++) {
    const { 'content-type': _, ...odd } = fetchHeaders;
    connection.reset(connection.call(index % 2 === 0 ? fetchHeaders : odd));
  }
  const last = connection.call({ ...fetchHeaders, ':path': '/Nothing/Here' });
  while (!connection.came.has(frameType.headers)) await yieldToEventLoop();
  connection.reset(last);
  while (gauge(started, 'request_bytes') > 0) await yieldToEventLoop();
  assert.equal(gauge(started, 'streams'), 0);
});

test('the settings of a connection say how large headers may be', async (t) => {
  const started = await site(t);
  const session = connectHttp2('http://localhost', {
    createConnection: () => connect(started.socket),
  });
  t.after(() => session.destroy());
  const [settings] = (await once(session, 'remoteSettings')) as [Settings];
  assert.equal(settings.maxHeaderListSize, 8 * 1024);
  assert.equal(settings.maxConcurrentStreams, defaultLimits.streamsPerConnection);
});

test('too large headers are reported as a flood', async (t) => {
  const started = await site(t);
  const connection = new RawConnection(connect(started.socket));
  t.after(() => connection.socket.destroy());
  connection.call({ ...fetchHeaders, 'x-one': 'v'.repeat(9_000) });
  await connection.closed;
  assert.equal(connection.came.get(frameType.headers), 1);
  assert.match(started.metrics.expose(), /hansa_workload_refusals_total\{reason="flood"\} 1\n/);
});

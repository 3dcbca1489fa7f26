import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import { connect } from 'node:net';
import { test } from 'node:test';
import { status } from '@grpc/grpc-js';
import { startTestSite } from '../test-workload-site.ts';

test('a call with a head beyond all measure is refused, and ends its connection', async (t) => {
  const { socket, metrics, stop } = await startTestSite();
  t.after(stop);
  const session = connectHttp2('http://localhost', { createConnection: () => connect(socket) });
  t.after(() => session.destroy());
  session.on('error', () => undefined);
  const ended = new Promise<void>((resolve) => {
    session.once('close', () => resolve());
  });
  const call = session.request({
    ':method': 'POST',
    // Open to everybody, and for as long as they like.
    ':path': '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
    'content-type': 'application/grpc',
    te: 'trailers',
    'x-one': 'v'.repeat(9000),
    'x-two': 'v'.repeat(9000),
  });
  call.on('error', () => undefined);
  const [head] = (await once(call, 'response')) as [IncomingHttpHeaders];
  assert.equal(head['grpc-status'], String(status.RESOURCE_EXHAUSTED));
  await ended;
  assert.match(metrics.expose(), /hansa_workload_refusals_total\{reason="flood"\} 1\n/);
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import { connect, createSecureServer, createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo, Server } from 'node:net';
import { after, suite, test } from 'node:test';
import type { SecureContextOptions } from 'node:tls';
import { Prefix } from '../../api/values/prefix.ts';
import { systemClock } from '../../core/clock/system.ts';
import { svidServerOptions } from '../../core/identity/tls/server.ts';
import { credentialOf, forgeLeaf, forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { addressOf, SourceAddresses } from './source-address.ts';

const servers: Server[] = [];
after(() => {
  for (const server of servers) server.close();
});

const credential = credentialOf(
  forgeLeaf(forgeRoot('lubeck.example'), 'spiffe://lubeck.example/hansa/site'),
);
const { certificateChain: cert, privateKey: key } = credential;

interface Told {
  readonly status: number;
  readonly text: string;
}

/** A server that answers with the source of the request. */
async function scene(...proxies: readonly string[]) {
  const denied: string[] = [];
  const metrics = new MetricsRegistry();
  const sources = new SourceAddresses({
    clock: systemClock,
    metrics,
    proxies: proxies.map((range) => Prefix.parse(range)),
    denied: (listener, address, { code }) => denied.push(`${listener} ${address} ${code}`),
  });
  let handled = 0;
  const handler = sources.before('federation', (request, response) => {
    handled += 1;
    response.end(String(addressOf(request)));
  });
  const listen = async (server: Server): Promise<number> => {
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const port = await listen(createServer(handler));
  const h2Port = await listen(createHttp2Server(handler as never));
  const tlsPort = await listen(
    createSecureServer({ ...svidServerOptions(credential), allowHTTP1: true }, handler as never),
  );
  const ask = async (headers: Record<string, string | string[]>, body = ''): Promise<Told> => {
    const request = httpRequest({ host: '127.0.0.1', port, method: 'POST', headers });
    request.end(body);
    const [response] = await once(request, 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
    return { status: response.statusCode as number, text: Buffer.concat(chunks).toString() };
  };
  const askOverHttp2 = async (
    headers: Record<string, string | string[]>,
    tls?: SecureContextOptions,
  ): Promise<Told> => {
    const session =
      tls === undefined
        ? connect(`http://127.0.0.1:${h2Port}`)
        : connect(`https://127.0.0.1:${tlsPort}`, { ...tls, rejectUnauthorized: false });
    const stream = session.request({ ':path': '/', ...headers });
    const [head] = await once(stream, 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
    session.close();
    return { status: head[':status'] as number, text: Buffer.concat(chunks).toString() };
  };
  return { ask, askOverHttp2, denied, metrics, sources, handled: () => handled };
}

suite('the source of a request', () => {
  test('is the address of the connection', async () => {
    const { ask, denied } = await scene();
    assert.equal((await ask({})).text, '127.0.0.1');
    assert.deepEqual(denied, []);
  });

  for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip']) {
    test(`is not what ${name} of an unlisted proxy says, and that is recorded`, async () => {
      const { ask, askOverHttp2, denied, metrics } = await scene('192.0.2.0/24');
      for (const told of [await ask({ [name]: '10.9.9.9' }), await askOverHttp2({ [name]: 'x' })]) {
        assert.deepEqual(told, { status: 200, text: '127.0.0.1' });
      }
      assert.deepEqual(denied, Array(2).fill('federation 127.0.0.1 HANSA_FORBIDDEN'));
      assert.match(metrics.expose(), /headers_total\{listener="federation",result="ignored"\} 2/);
    });
  }

  test('is what a listed proxy says, over both versions of HTTP', async () => {
    const { ask, askOverHttp2, denied, metrics } = await scene('127.0.0.0/8');
    const headers = { 'x-forwarded-for': '203.0.113.9, 192.0.2.1, 127.0.0.7' };
    assert.equal((await ask(headers)).text, '192.0.2.1');
    assert.equal((await askOverHttp2(headers)).text, '192.0.2.1');
    assert.deepEqual(denied, []);
    assert.match(metrics.expose(), /headers_total\{listener="federation",result="used"\} 2/);
  });

  test('is not what a header says that came over TLS with a client certificate', async () => {
    const { askOverHttp2, denied, metrics } = await scene('127.0.0.1/32');
    for (const header of ['192.0.2.1', 'unknown']) {
      const told = await askOverHttp2({ 'x-forwarded-for': header }, { cert, key });
      assert.deepEqual(told, { status: 200, text: '127.0.0.1' });
    }
    assert.deepEqual(denied, Array(2).fill('federation 127.0.0.1 HANSA_FORBIDDEN'));
    assert.match(metrics.expose(), /headers_total\{listener="federation",result="ignored"\} 2/);
    // The proxy ends TLS and opens its own connection without a certificate.
    assert.equal((await askOverHttp2({ 'x-forwarded-for': '192.0.2.1' }, {})).text, '192.0.2.1');
  });

  test('is the last of several headers, in whichever way they were sent', async () => {
    const { ask } = await scene('127.0.0.1/32');
    const lines = ['203.0.113.9', '192.0.2.1'];
    assert.equal((await ask({ 'x-forwarded-for': lines })).text, '192.0.2.1');
  });

  test('is the proxy itself where it names no client, or only in another header', async () => {
    const { ask } = await scene('127.0.0.1/32');
    assert.equal((await ask({})).text, '127.0.0.1');
    assert.equal((await ask({ forwarded: 'for=192.0.2.1' })).text, '127.0.0.1');
  });

  test('that cannot be read is refused before any handler, and the body is not the next request', async () => {
    const { ask, askOverHttp2, denied, handled, metrics } = await scene('127.0.0.1/32');
    const told = await ask({ 'x-forwarded-for': 'unknown' }, 'x'.repeat(100_000));
    assert.equal(told.status, 400);
    assert.match(told.text, /X-Forwarded-For.*not an IP address/);
    assert.equal((await askOverHttp2({ 'x-forwarded-for': '' })).status, 400);
    assert.equal(handled(), 0);
    assert.deepEqual(denied, Array(2).fill('federation 127.0.0.1 HANSA_BAD_REQUEST'));
    assert.match(metrics.expose(), /headers_total\{listener="federation",result="refused"\} 2/);
  });
});

test('a proxy is recognized in either form of its address', async () => {
  const { sources } = await scene('192.0.2.0/24', '2001:db8::/32');
  for (const address of ['192.0.2.9', '::ffff:192.0.2.9', '2001:db8::9']) {
    assert.equal(sources.isProxy(address), true, address);
  }
  for (const address of ['192.0.3.9', '2001:db9::9', '', 'x']) {
    assert.equal(sources.isProxy(address), false, address);
  }
});

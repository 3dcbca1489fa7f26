import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { after, suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import { systemClock } from '../../clock/system.ts';
import { HansaError, hasCode } from '../../errors/error.ts';
import { readPeerChain } from './peer-chain.ts';
import { brokenRule } from '../x509/rules.ts';
import { validateChain } from '../x509/svid-validator.ts';
import { BundleTable, credentialOf, forgeLeaf, forgeRoot } from '../x509/test-forge.ts';
import { guardServer, svidServerOptions } from './server.ts';
import { TlsTransport } from './tls-transport.ts';
import type { ConnectOptions } from './transport.ts';

const lubeck = forgeRoot('lubeck.example');
const site = forgeLeaf(lubeck, 'spiffe://lubeck.example/hansa/site');
const bruges = forgeRoot('bruges.example');
const caller = forgeLeaf(bruges, 'spiffe://bruges.example/hansa/site');
const bundles = new BundleTable().set('lubeck.example', lubeck);
const transport = new TlsTransport({ clock: systemClock, credential: () => credentialOf(caller) });

const servers: Server[] = [];
after(() => {
  for (const server of servers) server.close();
});

async function listen(server: Server): Promise<URL> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

/** Whether each connection was a resumed one. */
async function serve(handler: RequestListener): Promise<URL & { connections: boolean[] }> {
  const server = createServer(svidServerOptions(credentialOf(site)), handler);
  guardServer(server);
  const connections: boolean[] = [];
  server.on('secureConnection', (socket) => connections.push(socket.isSessionReused()));
  return Object.assign(await listen(server), { connections });
}

const verify: ConnectOptions['verify'] = (chain) => {
  const { id } = validateChain(chain, bundles, Date.now());
  assert(id.equals(SpiffeId.parse('spiffe://lubeck.example/hansa/site')));
};

const connect = (url: URL, options: Partial<ConnectOptions> = {}) =>
  transport.connect({ url, verify, asSite: false, timeoutMs: 60_000, ...options });

const get = (path: string) => ({ method: 'GET', path }) as const;

suite('a connection', () => {
  test('carries requests one after the other, over one socket, to whom was verified', async () => {
    const url = await serve((request, response) => {
      request.resume();
      response.setHeader('etag', '"1"').end(`${request.method} ${request.url}`);
    });
    const connection = await connect(url);
    const first = await connection.request(get('/a?b=c'), 100);
    assert.equal(first.status, 200);
    assert.equal(first.headers['etag'], '"1"');
    assert.equal(first.body.toString(), 'GET /a?b=c');
    const second = await connection.request(
      { method: 'POST', path: '/d', body: Buffer.from('x') },
      100,
    );
    assert.equal(second.body.toString(), 'POST /d');
    assert.equal(url.connections.length, 1);
    assert.equal(connection.peerChain[0]?.fingerprint, site.certificate.fingerprint);
    connection.close();
  });

  test('shows our SVID where we come as a site, and nothing where we do not', async () => {
    const url = await serve((request, response) => {
      response.end(String(readPeerChain(request.socket as TLSSocket)[0]?.fingerprint));
    });
    const ask = async (asSite: boolean): Promise<string> => {
      const connection = await connect(url, { asSite });
      const { body } = await connection.request(get('/'), 100);
      connection.close();
      return body.toString();
    };
    assert.equal(await ask(true), caller.certificate.fingerprint);
    assert.equal(await ask(false), 'undefined');
  });

  test('never resumes a session', async () => {
    const url = await serve((_request, response) => response.end('ok'));
    for (let i = 0; i < 2; i++) {
      const connection = await connect(url);
      await connection.request(get('/'), 100);
      connection.close();
    }
    assert.deepEqual(url.connections, [false, false]);
  });

  test('goes to no address that is refused, by name or by number, and sends it nothing', async () => {
    const url = await serve((_request, response) => response.end('ok'));
    const refusal = new HansaError('HANSA_FORBIDDEN', 'Not there.');
    const asked: string[] = [];
    for (const host of ['127.0.0.1', 'localhost']) {
      const there = new URL(`https://${host}:${url.port}`);
      const checkAddress = (address: string): void => {
        asked.push(address);
        throw refusal;
      };
      await assert.rejects(connect(there, { checkAddress }), refusal);
    }
    assert.equal(asked[0], '127.0.0.1');
    assert.match(asked[1] ?? '', /^(?:127\.0\.0\.1|::1)$/);
    assert.equal(url.connections.length, 0);
    // And where nobody minds, a name leads where it always did.
    const connection = await connect(new URL(`https://localhost:${url.port}`), {
      checkAddress: () => undefined,
    });
    connection.close();
  });

  test('bears an interim answer or two, and not one after the other for ever', async () => {
    const url = await serve((request, response) => {
      for (let i = 0; i < Number(request.headers['x-interim']); i++) {
        response.writeEarlyHints({ link: '</style.css>; rel=preload' });
      }
      response.end('ok');
    });
    const ask = async (interim: number) => {
      const connection = await connect(url);
      try {
        const headers = { 'x-interim': String(interim) };
        return (await connection.request({ ...get('/'), headers }, 100)).body.toString();
      } finally {
        connection.close();
      }
    };
    assert.equal(await ask(8), 'ok');
    await assert.rejects(ask(9), /more than 8 interim responses/);
  });

  test('does not follow a redirect', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(302, { location: 'https://elsewhere.example/' }).end();
    });
    const connection = await connect(url);
    assert.equal((await connection.request(get('/'), 100)).status, 302);
    connection.close();
  });
});

suite('nobody is believed before verify has said so', () => {
  test('what verify throws is what connect rejects with, and the server sees no request', async () => {
    let requests = 0;
    const url = await serve((_request, response) => {
      requests++;
      response.end();
    });
    await assert.rejects(
      connect(url, {
        verify: (chain) => void validateChain(chain, new BundleTable(), Date.now()),
      }),
      (error) => brokenRule(error) === 'no-bundle',
    );
    assert.equal(requests, 0);
  });

  test('http and URLs with a user are refused before anything is resolved', async () => {
    for (const text of ['http://127.0.0.1/', 'https://me:secret@127.0.0.1/']) {
      await assert.rejects(connect(new URL(text)), (error) => {
        assert(hasCode(error, 'HANSA_BAD_REQUEST'));
        assert.doesNotMatch(error.message, /secret/);
        return true;
      });
    }
  });
});

suite('a server that does harm by its answer', () => {
  const rejectsWith = async (
    url: URL,
    code: 'HANSA_UNREACHABLE' | 'HANSA_TOO_LARGE',
    options: Partial<ConnectOptions> = {},
  ): Promise<void> => {
    await assert.rejects(
      async () => {
        const connection = await connect(url, options);
        await connection.request(get('/'), 100);
      },
      (error) => {
        assert(hasCode(error, code), String(error));
        return true;
      },
    );
  };

  test('too much of it, announced', async () => {
    await rejectsWith(
      await serve((_request, response) => response.end('x'.repeat(101))),
      'HANSA_TOO_LARGE',
    );
  });

  test('too much of it, and without end', async () => {
    const url = await serve((_request, response) => {
      const more = (): void => {
        while (!response.destroyed && response.write('x'.repeat(1000)));
      };
      response.on('drain', more);
      more();
    });
    await rejectsWith(url, 'HANSA_TOO_LARGE');
  });

  test('none of it: the time for the whole connection ends', async () => {
    await rejectsWith(await serve(() => undefined), 'HANSA_UNREACHABLE', { timeoutMs: 100 });
  });

  test('half of it', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': 50 }).write('x');
      response.on('error', () => undefined);
      setImmediate(() => response.destroy());
    });
    await rejectsWith(url, 'HANSA_UNREACHABLE');
  });

  test('a header without end', async () => {
    const url = await serve((_request, response) => {
      response.setHeader('x', 'y'.repeat(20_000)).end();
    });
    await rejectsWith(url, 'HANSA_UNREACHABLE');
  });

  test('no handshake at all', async () => {
    const url = await listen(createTcpServer((socket) => socket.on('error', () => undefined)));
    await rejectsWith(url, 'HANSA_UNREACHABLE', { timeoutMs: 100 });
  });

  test('a handshake of something else', async () => {
    const url = await listen(createTcpServer((socket) => socket.end('SSH-2.0-x\r\n')));
    await rejectsWith(url, 'HANSA_UNREACHABLE');
  });

  test('nobody there', async () => {
    const server = createTcpServer();
    const url = await listen(server);
    server.close();
    await once(server, 'close');
    await rejectsWith(url, 'HANSA_UNREACHABLE');
  });
});

test('a call that is aborted rejects with the reason', async () => {
  const url = await serve(() => undefined);
  const controller = new AbortController();
  const connection = await connect(url, { signal: controller.signal });
  const pending = connection.request(get('/'), 100);
  controller.abort(new Error('enough'));
  await assert.rejects(pending, /enough/);
});

test('a request after the end of the connection is refused, and opens no other', async () => {
  const url = await serve((_request, response) => {
    response.setHeader('connection', 'close').end('bye');
  });
  const connection = await connect(url);
  await connection.request(get('/'), 100);
  await assert.rejects(connection.request(get('/'), 100), (error) =>
    hasCode(error, 'HANSA_UNREACHABLE'),
  );
  assert.equal(url.connections.length, 1);
});

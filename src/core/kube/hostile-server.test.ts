import assert from 'node:assert/strict';
import { once } from 'node:events';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { hasCode } from '../errors/error.ts';
import { certificatePem } from '../identity/x509/pem.ts';
import { forge } from '../identity/x509/test-forge.ts';
import type { KubeEndpoint } from './kube-client.ts';
import { type UnreachableReason, unreachableReason } from './kube-errors.ts';
import { clientOf, serve, serveBytes, stopServers, testCa, testLeaf } from './test-api-server.ts';

const others: Server[] = [];
after(async () => {
  await stopServers();
  for (const server of others) server.close();
});

const get = { method: 'GET', path: '/' } as const;

/** The error of one request, with its reason where it is unreachable. */
async function failureOf(endpoint: KubeEndpoint, options: object = {}): Promise<Error> {
  const client = clientOf({ endpoint });
  try {
    await client.request({ ...get, ...options });
  } catch (caught) {
    return caught as Error;
  } finally {
    client.close();
  }
  return assert.fail('the request succeeded');
}

async function assertUnreachable(
  endpoint: KubeEndpoint,
  reason: UnreachableReason,
  options: object = {},
): Promise<Error> {
  const failure = await failureOf(endpoint, options);
  assert.equal(unreachableReason(failure), reason, String(failure));
  assert.doesNotMatch(String(failure), /secret-token/);
  return failure;
}

const head = (...lines: readonly string[]): string =>
  `${['HTTP/1.1 200 OK', ...lines].join('\r\n')}\r\n\r\n`;

test('an authority counts only where all readers of the CA bundle see it', async () => {
  const hidden = forge({ ca: true });
  const { endpoint } = await serve((_, answer) => answer.end('ok'), { leaf: testLeaf(hidden) });
  const pem = certificatePem(hidden.der);
  const ways = {
    x509: pem.replaceAll(' CERTIFICATE', ' X509 CERTIFICATE'),
    trusted: pem.replaceAll(' CERTIFICATE', ' TRUSTED CERTIFICATE'),
    headers: pem.replace('CERTIFICATE-----\n', 'CERTIFICATE-----\nX-Note: text\n\n'),
  };
  for (const [way, block] of Object.entries(ways)) {
    const failure = await failureOf({ ...endpoint, caBundle: `${testCa}\n${block}` });
    assert.ok(hasCode(failure, 'HANSA_CERTIFICATE_INVALID'), `${way}: ${String(failure)}`);
  }
  const client = clientOf({ endpoint: { ...endpoint, caBundle: `${testCa}\n${pem}` } });
  assert.equal((await client.request(get)).status, 200);
  client.close();
});

test('a body in chunks of one byte does not take a hundred times its memory', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const bytes = 200_000;
  const sent = Promise.withResolvers<Socket>();
  const { endpoint } = await serveBytes((socket) => {
    socket.once('data', () => {
      socket.write(`${head('transfer-encoding: chunked')}${'1\r\nx\r\n'.repeat(bytes)}`, () =>
        sent.resolve(socket),
      );
    });
  });
  const client = clientOf({ endpoint });
  collect();
  const before = process.memoryUsage().heapUsed;
  const answer = client.request(get);
  const socket = await sent.promise;
  // The last bytes may be on their way.
  await new Promise((resolve) => setTimeout(resolve, 200));
  collect();
  const used = process.memoryUsage().heapUsed - before;
  socket.write('0\r\n\r\n');
  assert.equal((await answer).body.length, bytes);
  client.close();
  assert.ok(used < 6 * bytes, `${used} bytes`);
});

suite('an API server that cannot be reached', () => {
  test('because nothing listens is told as refused', async () => {
    const server = createServer();
    server.listen(0, 'localhost');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    await assertUnreachable({ server: new URL(`https://localhost:${port}`) }, 'refused');
  });

  test('because it does not speak TLS is told as such', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.end('HTTP/1.0 400 Bad Request\r\n\r\n');
    });
    others.push(server);
    server.listen(0, 'localhost');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await assertUnreachable({ server: new URL(`https://localhost:${port}`) }, 'tls');
  });

  test('because it closes the connection during the handshake is told as a reset', async () => {
    const server = createServer((socket) => socket.once('data', () => socket.destroy()));
    others.push(server);
    server.listen(0, 'localhost');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await assertUnreachable({ server: new URL(`https://localhost:${port}`) }, 'reset');
  });

  test('because it accepts and stays silent ends at the time limit of the request', async () => {
    const server = createServer((socket) => socket.on('error', () => undefined));
    others.push(server);
    server.listen(0, 'localhost');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const endpoint = { server: new URL(`https://localhost:${port}`) };
    await assertUnreachable(endpoint, 'timeout', { timeoutMs: 50 });
  });

  test('fails all requests that wait for it, not one after another', async () => {
    const server = createServer((socket) => socket.destroy());
    others.push(server);
    server.listen(0, 'localhost');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const endpoint = { server: new URL(`https://localhost:${port}`) };
    const client = clientOf({ endpoint }, { maxConnections: 2 });
    const results = await Promise.allSettled(Array.from({ length: 50 }, () => client.request(get)));
    assert.ok(results.every(({ status }) => status === 'rejected'));
    client.close();
  });
});

suite('a hostile response', () => {
  test('that never ends is left at the time limit', async () => {
    const { endpoint } = await serve((_request, response) => {
      const drip = setInterval(() => response.write(' '), 5);
      response.on('close', () => clearInterval(drip));
    });
    await assertUnreachable(endpoint, 'timeout', { timeoutMs: 100 });
  });

  test('that is larger than allowed is refused by its length and by its bytes', async () => {
    const { endpoint } = await serve((request, response) => {
      if (request.url === '/told') response.setHeader('content-length', 1_000_000).write('x');
      else response.end(Buffer.alloc(100_000));
    });
    for (const path of ['/told', '/untold']) {
      const failure = await failureOf(endpoint, { path, maxBytes: 99_999 });
      assert.ok(hasCode(failure, 'HANSA_TOO_LARGE'), String(failure));
    }
  });

  test('of exactly the allowed size is read', async () => {
    const { endpoint } = await serve((_request, response) => response.end(Buffer.alloc(100_000)));
    const client = clientOf({ endpoint });
    const { body } = await client.request({ ...get, maxBytes: 100_000 });
    assert.equal(body.length, 100_000);
    client.close();
  });

  test('that breaks in mid-body is a reset, never a short body', async () => {
    const { endpoint } = await serveBytes((socket) => {
      socket.once('data', () => {
        socket.write(`${head('content-length: 100')}half`, () => socket.destroy());
      });
    });
    await assertUnreachable(endpoint, 'reset');
    const chunked = await serveBytes((socket) => {
      socket.once('data', () => {
        socket.write(`${head('transfer-encoding: chunked')}4\r\nhalf\r\n`, () => socket.destroy());
      });
    });
    await assertUnreachable(chunked.endpoint, 'reset');
  });

  for (const [what, text] of [
    ['is not HTTP', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['has a broken status line', 'HTTP/1.1 abc OK\r\n\r\n'],
    ['has a broken header', `HTTP/1.1 200 OK\r\nbad header\r\n\r\n`],
    ['has two lengths', head('content-length: 1', 'content-length: 2')],
    ['has a length and chunks', head('content-length: 1', 'transfer-encoding: chunked')],
    ['has a broken chunk', `${head('transfer-encoding: chunked')}zz\r\n`],
  ] as const) {
    test(`that ${what} is refused`, async () => {
      const { endpoint } = await serveBytes((socket) => {
        socket.once('data', () => socket.write(text));
      });
      await assertUnreachable(endpoint, 'protocol');
    });
  }

  test('with endless headers is refused', async () => {
    const { endpoint } = await serveBytes((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const pour = (): void => {
          if (!socket.destroyed) socket.write(`x-filler: ${'y'.repeat(1000)}\r\n`, pour);
        };
        pour();
      });
    });
    await assertUnreachable(endpoint, 'protocol');
  });

  test('with endless interim responses is refused', async () => {
    const { endpoint } = await serveBytes((socket) => {
      socket.once('data', () => {
        const pour = (): void => {
          if (!socket.destroyed) socket.write('HTTP/1.1 103 Early Hints\r\n\r\n', pour);
        };
        pour();
      });
    });
    await assertUnreachable(endpoint, 'protocol');
  });

  test('that switches protocols is refused', async () => {
    const { endpoint } = await serveBytes((socket) => {
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'),
      );
    });
    await assertUnreachable(endpoint, 'protocol');
  });

  test('to a request that was never sent is not taken for the next one', async () => {
    let count = 0;
    const { endpoint } = await serveBytes((socket) => {
      socket.on('data', () => {
        count++;
        const body = `answer ${count}`;
        // The second response of the first request comes unasked.
        const unasked = count === 1 ? `${head('content-length: 6')}forged` : '';
        socket.write(`${head(`content-length: ${body.length}`)}${body}${unasked}`);
      });
    });
    const client = clientOf({ endpoint });
    assert.equal((await client.request(get)).body.toString(), 'answer 1');
    const second = await client.request(get).then(
      ({ body }) => body.toString(),
      (caught) => String(unreachableReason(caught)),
    );
    assert.notEqual(second, 'forged');
    client.close();
  });
});

suite('a proxy', () => {
  /** Connects to where it is told. */
  async function proxy(
    answer: (target: string, socket: Socket) => void = (target, socket) => {
      const [, host = '', port = ''] = /^(.*):(\d+)$/.exec(target) ?? [];
      const onward = connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      onward.on('error', () => socket.destroy());
    },
  ): Promise<{ url: URL; targets: string[] }> {
    const targets: string[] = [];
    const server = createHttpServer();
    server.on('connect', (request, socket) => {
      targets.push(`${request.url} ${Object.keys(request.headers).join()}`);
      socket.on('error', () => undefined);
      answer(request.url ?? '', socket as Socket);
    });
    others.push(server);
    server.listen(0, 'localhost');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return { url: new URL(`http://localhost:${port}`), targets };
  }

  test('leads to the server, which is verified behind it, and sees no token', async () => {
    const { endpoint } = await serve((_request, response) => response.end('{}'));
    const { url, targets } = await proxy();
    const client = clientOf({ endpoint: { ...endpoint, proxyURL: url } });
    assert.equal((await client.request(get)).body.toString(), '{}');
    assert.equal((await client.request(get)).body.toString(), '{}');
    assert.deepEqual(targets, [`${endpoint.server.host} host,connection`]);
    client.close();
  });

  test('that leads to another server is of no use', async () => {
    const { endpoint } = await serve(() => assert.fail('it got a request'));
    const { url } = await proxy();
    const wrong = { server: endpoint.server, proxyURL: url };
    const failure = await failureOf(wrong);
    assert.ok(hasCode(failure, 'HANSA_CERTIFICATE_INVALID'), String(failure));
  });

  test('that refuses, speaks first, talks nonsense or is not there is named', async () => {
    const { endpoint } = await serve(() => assert.fail('it got a request'));
    const texts = [
      'HTTP/1.1 407 Proxy Authentication Required\r\n\r\n',
      'HTTP/1.1 200 OK\r\n\r\nhello',
      'nonsense\r\n\r\n',
      `HTTP/1.1 200 OK\r\n${`x: ${'y'.repeat(1000)}\r\n`.repeat(100)}\r\n`,
    ];
    for (const text of texts) {
      const { url } = await proxy((_target, socket) => socket.end(text));
      const failure = await assertUnreachable({ ...endpoint, proxyURL: url }, 'proxy');
      assert.match(failure.message, /the proxy http:\/\/localhost:\d+ /);
    }
    const gone = await serve(() => undefined);
    await gone.stop();
    const proxyURL = new URL(`http://localhost:${gone.endpoint.server.port}`);
    await assertUnreachable({ ...endpoint, proxyURL }, 'proxy');
  });

  test('with https leads to the server too', async () => {
    const { endpoint } = await serve((_request, response) => response.end('{}'));
    const targets: string[] = [];
    const secure = await serve(() => assert.fail('it got a request'));
    secure.server.on('connect', (request: IncomingMessage, socket: Socket) => {
      targets.push(request.url ?? '');
      const onward = connect(Number(endpoint.server.port), 'localhost', () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
        socket.pipe(onward).pipe(socket);
      });
      for (const each of [socket, onward]) each.on('error', () => undefined);
    });
    // A process of its own, because the public authorities are read once when a process starts.
    const folder = mkdtempSync(join(tmpdir(), 'hansa-proxy-'));
    const authorities = join(folder, 'ca.pem');
    writeFileSync(authorities, testCa);
    const module = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);
    const script = `
      import { HttpKubeClient } from ${module('./http-kube-client.ts')};
      import { systemClock } from ${module('../clock/system.ts')};
      const client = new HttpKubeClient({
        endpoint: {
          server: new URL(${JSON.stringify(endpoint.server.href)}),
          proxyURL: new URL(${JSON.stringify(secure.endpoint.server.href)}),
        },
        credentials: { current: () => ({ type: 'none' }) },
        clock: systemClock,
      });
      for (let i = 0; i < 2; i++) {
        const { status, body } = await client.request({ method: 'GET', path: '/' });
        console.log(status, body.toString());
      }
      client.close();`;
    try {
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', script],
        { env: { ...process.env, NODE_EXTRA_CA_CERTS: authorities } },
      );
      assert.equal(stdout, '200 {}\n200 {}\n');
      assert.deepEqual(targets, [endpoint.server.host]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('with https must have a certificate that the public authorities signed', async () => {
    const { endpoint } = await serve(() => assert.fail('it got a request'));
    const secure = await serve(() => assert.fail('it got a request'));
    const failure = await assertUnreachable(
      { ...endpoint, proxyURL: secure.endpoint.server },
      'proxy',
    );
    assert.match(failure.message, /web-authority/);
  });
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { after, suite, test } from 'node:test';
import type { TLSSocket } from 'node:tls';
import { VirtualClock } from '../clock/virtual.ts';
import { hasCode } from '../errors/error.ts';
import { certificatePem } from '../identity/x509/pem.ts';
import { credentialOf, forge, forgeLeaf, forgeRoot } from '../identity/x509/test-forge.ts';
import type { KubeCredential } from './kube-client.ts';
import { unreachableReason } from './kube-errors.ts';
import {
  clientOf,
  serve,
  stopServers,
  testAuthority,
  testLeaf,
  testToken,
} from './test-api-server.ts';

after(stopServers);

function withBody(request: IncomingMessage, use: (body: string) => void): void {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => use(Buffer.concat(chunks).toString()));
}

const get = { method: 'GET', path: '/version' } as const;

suite('a request', () => {
  test('carries method, path, query, headers, body and token', async () => {
    const server = await serve((request, response) => {
      const { method, url, headers } = request;
      withBody(request, (body) => response.end(JSON.stringify({ method, url, headers, body })));
    });
    const client = clientOf(server);
    const response = await client.request({
      method: 'POST',
      path: '/api/v1/things',
      query: { fieldManager: 'a b' },
      body: { a: 1 },
      headers: { 'x-extra': 'yes' },
    });
    const seen = JSON.parse(response.body.toString());
    assert.equal(seen.method, 'POST');
    assert.equal(seen.url, '/api/v1/things?fieldManager=a+b');
    assert.equal(seen.body, '{"a":1}');
    assert.equal(seen.headers.authorization, 'Bearer secret-token');
    assert.equal(seen.headers['content-type'], 'application/json');
    assert.equal(seen.headers['x-extra'], 'yes');
    assert.equal(seen.headers.host, server.endpoint.server.host);
    client.close();
  });

  test('sends a Buffer as it is, below the path of the server', async () => {
    const server = await serve((request, response) => {
      withBody(request, (body) => response.end(`${request.url} ${body}`));
    });
    const url = new URL('/k8s/clusters/c-1/', server.endpoint.server);
    const client = clientOf({ endpoint: { ...server.endpoint, server: url } });
    const { body } = await client.request({
      method: 'POST',
      path: '/api',
      body: Buffer.from('raw'),
      contentType: 'application/octet-stream',
    });
    assert.equal(body.toString(), '/k8s/clusters/c-1/api raw');
    client.close();
  });

  test('is not sent where its caller says no while it waits for a credential and a connection', async () => {
    let requests = 0;
    const server = await serve((_request, response) => {
      requests++;
      response.end('{}');
    });
    let isOver = false;
    const client = clientOf(server, {
      credentials: {
        current: async () => {
          await Promise.resolve();
          isOver = true;
          return testToken;
        },
      },
    });
    const why = new Error('too late');
    const beforeSend = (): void => {
      if (isOver) throw why;
    };
    await assert.rejects(client.request({ ...get, beforeSend }), (error) => error === why);
    await client.request(get);
    await assert.rejects(client.delete('/x', {}, { beforeSend }), (error) => error === why);
    await assert.rejects(client.replace('/x', {}, { beforeSend }), (error) => error === why);
    await assert.rejects(client.create('/x', {}, { beforeSend }), (error) => error === why);
    assert.equal(requests, 1);
    client.close();
  });

  test('resolves with any status, and with headers in lower case', async () => {
    const server = await serve((_request, response) => {
      response.setHeader('Retry-After', '7').writeHead(429).end('slow down');
    });
    const client = clientOf(server);
    const { status, headers, body } = await client.request(get);
    assert.equal(status, 429);
    assert.equal(headers['retry-after'], '7');
    assert.equal(body.toString(), 'slow down');
    client.close();
  });

  test('cannot replace the credential by a header of its own', async () => {
    const server = await serve(({ headers }, response) => response.end(headers.authorization));
    const client = clientOf(server);
    const headers = { authorization: 'Bearer other', connection: 'close', host: 'other' };
    assert.equal(
      (await client.request({ ...get, headers })).body.toString(),
      'Bearer secret-token',
    );
    client.close();
  });

  test('without a credential carries none', async () => {
    const server = await serve(({ headers }, response) =>
      response.end(String(headers.authorization)),
    );
    const client = clientOf(server, { credentials: { current: () => ({ type: 'none' }) } });
    assert.equal((await client.request(get)).body.toString(), 'undefined');
    client.close();
  });

  test('with a token that is no header value is not sent, and the error does not contain it', async () => {
    const server = await serve((_request, response) => response.end());
    for (const token of ['', 'two words', 'line\r\nbreak', 'ü']) {
      const client = clientOf(server, {
        credentials: { current: () => ({ type: 'token', token }) },
      });
      await assert.rejects(client.request(get), (caught) => {
        assert.ok(hasCode(caught, 'HANSA_UNAVAILABLE'));
        assert.ok(token === '' || !caught.message.includes(token));
        return true;
      });
    }
    assert.equal(server.sockets.length, 0);
  });

  test('tells the source of the credential that it was refused', async () => {
    const server = await serve((_request, response) => response.writeHead(401).end());
    const refused: KubeCredential[] = [];
    const credential: KubeCredential = { type: 'token', token: 'old' };
    const credentials = {
      current: () => Promise.resolve(credential),
      refused: (one: KubeCredential) => refused.push(one),
    };
    const client = clientOf(server, { credentials });
    assert.equal((await client.request(get)).status, 401);
    assert.deepEqual(refused, [credential]);
    client.close();
  });

  test('rejects with the error of a source that has no credential', async () => {
    const server = await serve((_request, response) => response.end());
    const client = clientOf(server, {
      credentials: {
        current: () => {
          throw new Error('there is none');
        },
      },
    });
    await assert.rejects(client.request(get), /there is none/);
  });

  test('ends when its signal is aborted, while it waits and before it starts', async () => {
    const server = await serve(() => undefined);
    const client = clientOf(server);
    const controller = new AbortController();
    const waiting = client.request({ ...get, signal: controller.signal });
    const reason = new Error('no longer needed');
    controller.abort(reason);
    await assert.rejects(waiting, reason);
    await assert.rejects(client.request({ ...get, signal: controller.signal }), reason);
    client.close();
  });

  test('cannot contain lines that its path or a header brings along', async () => {
    const server = await serve(() => assert.fail('it got a request'));
    const client = clientOf(server);
    for (const path of ['/a b', '/a\r\nx: y', 'https://evil.example/', '/ü', '']) {
      await assert.rejects(client.request({ method: 'GET', path }), TypeError);
    }
    for (const headers of [{ 'x-a': 'b\r\nc: d' }, { 'x a': 'b' }, { 'x\r\ny': 'b' }]) {
      await assert.rejects(client.request({ ...get, headers }), TypeError);
    }
    const contentType = 'a\r\nb: c';
    const post = { method: 'POST', path: '/', body: {}, contentType } as const;
    await assert.rejects(client.request(post), TypeError);
    assert.equal(server.sockets.length, 0);
  });

  test('that is answered before it was read ends its connection, and the next one works', async () => {
    const server = await serve((_request, response) => response.writeHead(413).end('too large'));
    const client = clientOf(server);
    const post = { method: 'POST', path: '/', body: Buffer.alloc(32 * 1024 * 1024) } as const;
    const first = await client.request(post).then(
      ({ status }) => status,
      (caught: unknown) => unreachableReason(caught),
    );
    // The server may end the connection before its answer could be read.
    assert.ok(first === 413 || first === 'reset');
    assert.equal((await client.request(get)).status, 413);
    client.close();
  });

  test('follows no redirect and shows where it leads', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(302, { location: 'https://evil.example/\u00a0x' }).end();
    });
    const client = clientOf(server);
    await assert.rejects(
      client.request(get),
      (caught) => unreachableReason(caught) === 'protocol' && /evil\.example/.test(String(caught)),
    );
    client.close();
  });
});

suite('a connection', () => {
  test('is reused by requests that follow each other', async () => {
    const server = await serve((_request, response) => response.end('{}'));
    const client = clientOf(server);
    for (let i = 0; i < 5; i++) await client.request(get);
    assert.equal(server.sockets.length, 1);
    client.close();
  });

  test('exists for each concurrent request, up to the limit, and others wait', async () => {
    const held: (() => void)[] = [];
    const server = await serve((_request, response) => {
      held.push(() => response.end('{}'));
      if (held.length === 3) for (const answer of held) answer();
      else if (held.length > 3) response.end('{}');
    });
    const client = clientOf(server, { maxConnections: 3 });
    await Promise.all(Array.from({ length: 20 }, () => client.request(get)));
    assert.equal(server.sockets.length, 3);
    client.close();
  });

  test('is not waited for by more requests than the queue holds', async () => {
    const server = await serve(() => undefined);
    const client = clientOf(server, { maxConnections: 1, maxWaiting: 2 });
    const controller = new AbortController();
    const { signal } = controller;
    const [first, second] = [
      client.request({ ...get, signal }),
      client.request({ ...get, signal }),
    ];
    await assert.rejects(client.request(get), (caught) => hasCode(caught, 'HANSA_UNAVAILABLE'));
    controller.abort(new Error('over'));
    await assert.rejects(first, /over/);
    await assert.rejects(second, /over/);
    client.close();
  });

  test('ends when the client is closed, and later requests work without keeping one', async () => {
    const server = await serve((_request, response) => response.end('{}'));
    const client = clientOf(server);
    await client.request(get);
    client.close();
    const [first] = server.sockets;
    if (first?.closed === false) await once(first, 'close');
    await client.request(get);
    const second = server.sockets[1];
    assert.ok(second);
    if (!second.closed) await once(second, 'close');
  });

  test('that the server closed is replaced, and the request of a GET is sent again', async () => {
    let requests = 0;
    const server = await serve((request, response) => {
      requests++;
      // The second arrives on a connection that the server gives up.
      if (requests === 2) request.socket.destroy();
      else response.end(String(requests));
    });
    const client = clientOf(server);
    await client.request(get);
    assert.equal((await client.request(get)).body.toString(), '3');
    assert.equal(server.sockets.length, 2);
    client.close();
  });

  test('that broke in use is not tried again for a POST, unless the caller allows it', async () => {
    let requests = 0;
    const server = await serve((request, response) => {
      requests++;
      request.resume();
      if (requests % 2 === 0) request.socket.destroy();
      else response.end(String(requests));
    });
    const post = { method: 'POST', path: '/x', body: {} } as const;
    const client = clientOf(server);
    await client.request(post);
    await assert.rejects(client.request(post), (caught) => unreachableReason(caught) === 'reset');
    assert.equal(requests, 2);
    await client.request(post);
    const again = await client.request({ ...post, resendable: true });
    assert.equal(again.body.toString(), '5');
    client.close();
  });

  test('that is new and broke is not tried again', async () => {
    let requests = 0;
    const server = await serve((request) => {
      requests++;
      request.socket.destroy();
    });
    const client = clientOf(server);
    await assert.rejects(client.request(get), (caught) => unreachableReason(caught) === 'reset');
    assert.equal(requests, 1);
    client.close();
  });

  test('is replaced after ten minutes of use', async () => {
    let answer: () => void = () => undefined;
    const arrived: (() => void)[] = [];
    const server = await serve((_request, response) => {
      answer = () => response.end('{}');
      arrived.shift()?.();
    });
    const clock = new VirtualClock();
    const client = clientOf(server, { clock });
    const ask = async (passMs: number): Promise<void> => {
      const here = new Promise<void>((resolve) => arrived.push(resolve));
      const response = client.request({ ...get, timeoutMs: 3_600_000 });
      await here;
      await clock.advance(passMs);
      answer();
      await response;
    };
    await ask(599_000);
    await ask(2000);
    assert.equal(server.sockets.length, 1);
    await ask(0);
    assert.equal(server.sockets.length, 2);
    client.close();
  });

  test('resumes no session', async () => {
    const reused: boolean[] = [];
    const server = await serve((request, response) => {
      reused.push((request.socket as TLSSocket).isSessionReused());
      response.setHeader('connection', 'close').end();
    });
    const client = clientOf(server);
    await client.request(get);
    await client.request(get);
    assert.deepEqual(reused, [false, false]);
    client.close();
  });
});

suite('the server', () => {
  const rejectedWith = async (
    promise: Promise<unknown>,
    pattern: RegExp,
    code = 'HANSA_CERTIFICATE_INVALID' as const,
  ) =>
    assert.rejects(promise, (caught) => {
      assert.ok(hasCode(caught, code), String(caught));
      assert.match(caught.message, pattern);
      return true;
    });

  test('of another CA gets no request', async () => {
    const server = await serve(() => assert.fail('it got a request'));
    const caBundle = certificatePem(forge({ ca: true }).der);
    const client = clientOf({ endpoint: { ...server.endpoint, caBundle } });
    await rejectedWith(client.request(get), /Cannot trust the API server localhost.*web-authority/);
    client.close();
  });

  test('with a private CA is not trusted by the public ones', async () => {
    const server = await serve(() => assert.fail('it got a request'));
    const client = clientOf({ endpoint: { server: server.endpoint.server } });
    await rejectedWith(client.request(get), /web-authority/);
    client.close();
  });

  test('with a certificate for another name gets no request', async () => {
    const leaf = testLeaf(testAuthority, ['app1.example']);
    const server = await serve(() => assert.fail('it got a request'), { leaf });
    const client = clientOf(server);
    await rejectedWith(client.request(get), /server-name/);
    client.close();
  });

  test('may have the name that tlsServerName gives, which it is also told', async () => {
    const leaf = testLeaf(testAuthority, ['app1.example']);
    const server = await serve(
      (request, response) => response.end(String((request.socket as TLSSocket).servername)),
      { leaf },
    );
    const endpoint = { ...server.endpoint, tlsServerName: 'app1.example' };
    const client = clientOf({ endpoint });
    assert.equal((await client.request(get)).body.toString(), 'app1.example');
    client.close();
  });

  test('without TLS 1.2 is not spoken to', async () => {
    const server = await serve(() => assert.fail('it got a request'), {
      minVersion: 'TLSv1',
      maxVersion: 'TLSv1.1',
      ciphers: 'DEFAULT@SECLEVEL=0',
    });
    const client = clientOf(server);
    await assert.rejects(client.request(get), (caught) => unreachableReason(caught) === 'tls');
    client.close();
  });

  test('cannot be named by a URL with a user, a query or without https', () => {
    for (const url of ['http://a.example', 'https://u:p@a.example', 'https://a.example/?x=1']) {
      assert.throws(() => clientOf({ endpoint: { server: new URL(url) } }), TypeError);
    }
    const server = new URL('https://a.example');
    for (const proxy of ['socks5://p.example', 'http://u:p@p.example']) {
      const endpoint = { server, proxyURL: new URL(proxy) };
      assert.throws(() => clientOf({ endpoint }), TypeError);
    }
  });

  test('cannot have a CA bundle without certificates', async () => {
    const server = await serve(() => assert.fail('it got a request'));
    for (const caBundle of [
      '',
      'no PEM',
      '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
    ]) {
      const client = clientOf({ endpoint: { ...server.endpoint, caBundle } });
      await rejectedWith(client.request(get), /Cannot use the CA of the API server/);
    }
  });

  test('gets a client certificate, and a new connection after it changed', async () => {
    const users = forgeRoot('users.example');
    const seen: (string | undefined)[] = [];
    const server = await serve(
      (request, response) => {
        const chain = (request.socket as TLSSocket).getPeerX509Certificate();
        seen.push(chain?.fingerprint256);
        response.end();
      },
      { requestCert: true, rejectUnauthorized: false },
    );
    const certificateOf = (name: string): KubeCredential => {
      const leaf = credentialOf(forgeLeaf(users, `spiffe://users.example/${name}`));
      return { type: 'certificate', certificate: leaf.certificateChain, key: leaf.privateKey };
    };
    let current = certificateOf('a');
    const client = clientOf(server, { credentials: { current: () => current } });
    await client.request(get);
    await client.request(get);
    current = certificateOf('b');
    await client.request(get);
    assert.equal(seen.length, 3);
    assert.ok(seen[0] !== undefined && seen[0] === seen[1] && seen[1] !== seen[2]);
    assert.equal(server.sockets.length, 2);
    client.close();
  });

  test('gets no request with a client certificate that does not fit its key', async () => {
    const server = await serve(() => assert.fail('it got a request'));
    const users = forgeRoot('users.example');
    const [one, two] = ['a', 'b'].map((name) =>
      credentialOf(forgeLeaf(users, `spiffe://users.example/${name}`)),
    );
    const credential = {
      type: 'certificate',
      certificate: one?.certificateChain ?? '',
      key: two?.privateKey ?? '',
    } as const;
    const client = clientOf(server, { credentials: { current: () => credential } });
    await assert.rejects(client.request(get), (caught) => {
      assert.ok(hasCode(caught, 'HANSA_UNAVAILABLE'));
      assert.doesNotMatch(caught.message, /BEGIN/);
      return true;
    });
  });
});

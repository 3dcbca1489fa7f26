// Malformed, unusual and misleading requests. Each gets a clear response, affects only the object
// that it names, and does not disturb other clients.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  adminClient,
  ApiClient,
  createToken,
  Http2Client,
  RawConnection,
  resources,
  role,
  type Target,
} from './api-client.ts';
import { type Daemon, startDaemon, temporaryFolder } from './daemon.ts';

const roles = `${resources}/roles`;
const dataDir = join(temporaryFolder(), 'lubeck');
let site: Daemon;
let admin: ApiClient;
let client: ApiClient;
let target: Target;

before(async () => {
  site = await startDaemon(dataDir, ['--limits-max-request-bytes', String(1024 * 1024)]);
  admin = adminClient(dataDir);
  target = {
    origin: site.endpoints.api,
    caFile: join(dataDir, 'ca.pem'),
    token: await createToken(admin, 'caller', 'admin'),
  };
  client = new ApiClient(target);
});
after(async () => {
  client.close();
  assert.equal(await site.signal('SIGTERM'), 0);
  assert.doesNotMatch(site.log(), /cannot send an error response|"level":"error"/);
});

const authorization = (): string => `Authorization: Bearer ${target.token}\r\n`;

async function othersAreServed(): Promise<void> {
  assert.equal((await client.get(`${resources}/sites/site`)).status, 200);
}

suite('odd requests', () => {
  async function say(text: string): Promise<string> {
    const connection = await RawConnection.open(target);
    connection.send(text);
    const answer = await connection.until(/\r\n\r\n/);
    connection.close();
    return answer;
  }

  test('that are no HTTP get 400', async () => {
    for (const text of [
      'hello\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nBad Header: x\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
      'GET /healthz HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n',
      'GET /heal\0thz HTTP/1.1\r\nHost: a\r\n\r\n',
      'BREW /healthz HTTP/1.1\r\nHost: a\r\n\r\n',
    ])
      assert.match(await say(text), /^HTTP\/1\.1 400 /, text);
    // The preface of HTTP/2 where HTTP/1.1 was agreed upon.
    assert.doesNotMatch(await say('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), /^HTTP\/1\.1 2/);
    await othersAreServed();
  });

  test('HTTP/1.0 is answered and closed', async () => {
    const connection = await RawConnection.open(target);
    connection.send(`GET ${resources}/sites/site HTTP/1.0\r\n${authorization()}\r\n`);
    assert.match(await connection.closed(), /^HTTP\/1\.1 200 [^]*"kind":"Site"/);
  });

  test('pipelined requests are answered in order', async () => {
    const connection = await RawConnection.open(target);
    const ask = (path: string, more = ''): string =>
      `GET ${path} HTTP/1.1\r\nHost: a\r\n${authorization()}${more}\r\n`;
    connection.send(
      ask(`${resources}/sites/site`) +
        ask(`${roles}/none`) +
        ask('/healthz', 'Connection: close\r\n'),
    );
    const statuses = [...(await connection.closed()).matchAll(/HTTP\/1\.1 (\d+)/g)];
    assert.deepEqual(
      statuses.map(([, status]) => status),
      ['200', '404', '200'],
    );
  });

  test('what follows the last answer of a connection is not acted upon', async () => {
    await admin.request('POST', roles, { body: role('survivor') });
    const connection = await RawConnection.open(target);
    connection.send(
      `POST ${roles} HTTP/1.1\r\nHost: a\r\n${authorization()}Content-Type: application/json\r\nContent-Length: 1048577\r\n\r\n${' '.repeat(1_048_577)}DELETE ${roles}/survivor HTTP/1.1\r\nHost: a\r\n${authorization()}\r\n`,
    );
    assert.match(await connection.closed(), /^HTTP\/1\.1 413 /);
    assert.equal((await admin.request('DELETE', `${roles}/survivor`)).status, 200);
  });

  test('a refused body is never taken for the next request', async () => {
    const connection = await RawConnection.open(target);
    const smuggled = `GET ${resources}/sites/site HTTP/1.1\r\nHost: a\r\n${authorization()}\r\n`;
    connection.send(
      `POST ${roles} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong\r\nContent-Type: application/json\r\nContent-Length: ${smuggled.length}\r\n\r\n`,
    );
    connection.send(smuggled);
    const answer = await connection.closed();
    assert.match(answer, /^HTTP\/1\.1 401 /);
    assert.doesNotMatch(answer, /HTTP\/1\.1 200/);
  });

  test('unknown methods get 405, on every path and over both protocols', async () => {
    const http2 = new Http2Client(target);
    for (const path of [roles, `${roles}/viewer`, `${resources}/sites/site/status`, '/healthz']) {
      for (const method of ['OPTIONS', 'TRACE', 'PROPFIND'])
        assert.equal((await client.request(method, path)).status, 405, `${method} ${path}`);
      assert.equal((await http2.request('INVENTED', path)).status, 405, path);
    }
    http2.close();
  });

  test('HEAD gets the head of GET and no body', async () => {
    const head = await client.request('HEAD', `${roles}/viewer`);
    const get = await client.get(`${roles}/viewer`);
    assert.equal(head.status, 200);
    assert.equal(head.text, '');
    assert.equal(head.headers['content-length'], get.headers['content-length']);
    assert.equal((await client.request('HEAD', `${roles}/none`)).status, 404);
  });

  test('CONNECT and Upgrade lead nowhere', async () => {
    assert.doesNotMatch(
      await say(`CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: a\r\n${authorization()}\r\n`),
      /^HTTP\/1\.1 [12]/,
    );
    assert.doesNotMatch(
      await say(
        `GET ${roles}/none HTTP/1.1\r\nHost: a\r\n${authorization()}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      ),
      /^HTTP\/1\.1 (101|2)/,
    );
    await othersAreServed();
  });

  test('paths that are not written plainly reach no other object', async () => {
    const http2 = new Http2Client(target);
    const paths = [
      `${resources}//roles/viewer`,
      `${roles}//viewer`,
      `${roles}/../roles/viewer`,
      `${roles}/%2e%2e/roles/viewer`,
      `${roles}/..%2froles%2fviewer`,
      `${roles}/x%2f..%2fviewer`,
      `${roles}/./viewer`,
      `${roles}/viewer/`,
      `${roles}/viewer/status`,
      `${roles}/viewer%00`,
      `${roles}/viewer%20`,
      `${roles}/VIEWER`,
      `${roles}/%ff`,
      `${roles}/%`,
      `/${roles}/viewer`,
      `${resources}/Roles/viewer`,
      '/apis/hansa.dev/v1alpha1/access.tokens',
      '/apis/hansa.dev/v1alpha1/access.tokens/caller',
      '/hansa/v1/tokens/..%2f..',
      '/hansa/v1/../v1/tokens',
    ];
    for (const path of paths) {
      assert.equal((await client.get(path)).status >= 400, true, `GET ${path}`);
      assert.equal((await http2.request('GET', path)).status >= 400, true, `GET ${path}`);
      const gone = await client.request('DELETE', path);
      assert.equal(gone.status >= 400, true, `DELETE ${path}: ${gone.text}`);
    }
    http2.close();
    const { status } = await client.get(`${roles}/viewer`);
    assert.equal(status, 200);
  });

  test('writes to a name that the path encodes are checked as the name that they mean', async () => {
    const answer = await client.request('PATCH', `${roles}/a%2fb?fieldManager=t`, {
      headers: { 'content-type': 'application/apply-patch+yaml' },
      body: JSON.stringify(role('a/b')),
    });
    assert.equal(answer.status, 422, answer.text);
  });

  test('queries and headers that make no sense are refused or ignored, never fatal', async () => {
    const queries = [
      'limit=-1',
      'limit=x',
      'continue=%00',
      'resourceVersion=-1',
      'timeoutSeconds=x',
      'labelSelector=%3D%3D',
      'fieldSelector=a',
      'watch=perhaps&timeoutSeconds=1',
      'watch=1&resourceVersion=1e9',
      'pretty=%E0%A4%A',
      '&&&=&?',
      `labelSelector=${'a,'.repeat(1500)}`,
    ];
    for (const query of queries) {
      const { status } = await client.get(`${roles}?${query}`);
      assert.ok(status < 500, `${query}: ${status}`);
    }
    const headers = [
      { accept: 'a/b' },
      { accept: ';;;,,,' },
      { 'content-type': 'x' },
      { authorization: 'Basic eA==' },
      { authorization: '' },
      { expect: 'the unexpected' },
    ];
    for (const more of headers) {
      const { status } = await client.request('POST', roles, { headers: more, body: '{}' });
      assert.ok(status >= 400 && status < 500, `${JSON.stringify(more)}: ${status}`);
    }
    await othersAreServed();
  });
});

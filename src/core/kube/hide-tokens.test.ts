import assert from 'node:assert/strict';
import { after, suite, test } from 'node:test';
import { clientOf, serve, stopServers } from './test-api-server.ts';

after(stopServers);

const get = { method: 'GET', path: '/version' } as const;

/** As Go's encoding/json writes it. */
function goText(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(/[<>&]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`);
}

suite('a request', () => {
  test('hides its token where the server repeats it in a failure, in any form', async () => {
    for (const token of ['opaque-secret-1', 'a"b\\c<d>e&f']) {
      for (const shown of [token, JSON.stringify(token).slice(1, -1), goText(token)]) {
        const server = await serve((_request, response) => {
          response.writeHead(403).end(`{"kind":"Status","message":"no ${shown} here"}`);
        });
        const client = clientOf(server, {
          credentials: { current: () => ({ type: 'token', token }) },
        });
        const { body } = await client.request(get);
        assert.equal(body.toString(), '{"kind":"Status","message":"no [token] here"}');
        await assert.rejects(client.get('/version'), (caught) => {
          assert.match(String(caught), /no \[token\] here/);
          return true;
        });
        client.close();
      }
    }
  });

  test('hides its token in a redirect, and in a success only where texts are shown', async () => {
    const server = await serve(({ url, headers }, response) => {
      if (url === '/moved') response.writeHead(302, { location: `/?t=${headers.authorization}` });
      response.end(headers.authorization);
    });
    const client = clientOf(server);
    await assert.rejects(client.request({ ...get, path: '/moved' }), (caught) => {
      assert.match(String(caught), /\/\?t=Bearer \[token\]/);
      return true;
    });
    const quoted = { ...get, isQuoted: true };
    assert.equal((await client.request(quoted)).body.toString(), 'Bearer [token]');
    assert.equal((await client.request(get)).body.toString(), 'Bearer secret-token');
    const about = { ...quoted, method: 'POST', body: { token: 'secret-token' } } as const;
    assert.equal((await client.request(about)).body.toString(), 'Bearer secret-token');
    client.close();
  });

  test('keeps the length of a body in protobuf, and what a request itself is about', async () => {
    const server = await serve(({ headers }, response) => {
      response.writeHead(201, { 'content-type': 'application/vnd.kubernetes.protobuf' });
      response.end(headers.authorization);
    });
    const client = clientOf(server);
    const asked = { ...get, method: 'POST', isQuoted: true } as const;
    const { body } = await client.request({ ...asked, body: Buffer.from('other') });
    assert.equal(body.toString(), 'Bearer [token]*****');
    const own = await client.request({ ...asked, body: Buffer.from('my secret-token') });
    assert.equal(own.body.toString(), 'Bearer secret-token');
    client.close();
  });

  test('does not search for a token that is too short to be a secret', async () => {
    const server = await serve((_request, response) => response.writeHead(500).end('a b c'));
    const client = clientOf(server, {
      credentials: { current: () => ({ type: 'token', token: 'b' }) },
    });
    assert.equal((await client.request(get)).body.toString(), 'a b c');
    client.close();
  });
});

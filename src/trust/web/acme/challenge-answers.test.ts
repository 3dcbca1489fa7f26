import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { suite, test } from 'node:test';
import { freePort } from '../../../../test/e2e/free-ports.ts';
import { systemClock, systemRandom } from '../../../core/clock/system.ts';
import { hasCode } from '../../../core/errors/error.ts';
import type { TlsCredential } from '../../../core/identity/tls/options.ts';
import { httpAnswer, tlsAlpnAnswer } from './challenge-answers.ts';

const token = 'dG9rZW4tb2YtdGhlLWNoYWxsZW5nZQ';
const path = `/.well-known/acme-challenge/${token}`;

suite('the answer to HTTP-01', () => {
  test('is given under its path alone, and only while the challenge is open', async () => {
    const port = await freePort();
    const close = await httpAnswer({ host: '127.0.0.1', port }).open('a.example', token, 'answer');
    const ask = (at: string, method = 'GET'): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}${at}`, { method });
    try {
      const answer = await ask(path);
      assert.equal(answer.status, 200);
      assert.equal(await answer.text(), 'answer');
      assert.equal((await ask(path, 'HEAD')).status, 200);
      const others = ['/', `${path}/`, `${path}x`, path.slice(0, -1), `${path}?a=b`, '/metrics'];
      for (const other of others) {
        assert.equal((await ask(other)).status, 404, other);
      }
      for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
        assert.equal((await ask(path, method)).status, 404, method);
      }
    } finally {
      await close();
    }
    await assert.rejects(ask(path));
  });

  test('does not wait at its end for whoever keeps a connection open', async () => {
    const port = await freePort();
    const close = await httpAnswer({ host: '127.0.0.1', port }).open('a.example', token, 'answer');
    const silent = connect(port, '127.0.0.1');
    await once(silent, 'connect');
    silent.on('error', () => undefined);
    const ended = once(silent, 'close');
    await close();
    await ended;
  });

  test('that cannot be given says what to do', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    await assert.rejects(
      httpAnswer({ host: '127.0.0.1', port }).open('a.example', token, 'answer'),
      (error: unknown) => {
        assert.ok(hasCode(error, 'HANSA_CONFIG_INVALID'));
        assert.match(error.message, /EADDRINUSE.*Free the address, choose another with acme\.http/);
        return true;
      },
    );
    other.close();
  });
});

test('the answer to TLS-ALPN-01 is open for its name, under a key of its own each time', async () => {
  const open = new Map<string, TlsCredential>();
  const answer = tlsAlpnAnswer(
    {
      openChallenge: (name, credential) => void open.set(name, credential),
      closeChallenge: (name) => void open.delete(name),
    },
    { clock: systemClock, random: systemRandom },
  );
  const close = await answer.open('a.example', token, 'answer');
  const first = open.get('a.example');
  assert.match(first?.certificateChain ?? '', /BEGIN CERTIFICATE/);
  await close();
  assert.equal(open.size, 0);
  await answer.open('a.example', token, 'answer');
  assert.notEqual(open.get('a.example')?.privateKey, first?.privateKey);
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError } from '../errors/error.ts';
import { KubeStatusError, printableText, unreachableBy, unreachableReason } from './kube-errors.ts';

const where = 'app1.example:6443';
const failure = (code: string): HansaError =>
  unreachableBy(where, Object.assign(new Error('words of the system'), { code }));

suite('an API server that cannot be reached', () => {
  for (const [code, reason, words] of [
    ['ENOTFOUND', 'dns', 'its DNS name does not exist'],
    ['EAI_AGAIN', 'dns', 'its DNS lookup failed'],
    ['ECONNREFUSED', 'refused', 'connection refused'],
    ['EHOSTUNREACH', 'route', 'no route to its address'],
    ['ENETUNREACH', 'route', 'no route to its network'],
    ['ETIMEDOUT', 'timeout', 'connection timed out'],
    ['ECONNRESET', 'reset', 'connection reset'],
    ['EPIPE', 'reset', 'connection reset'],
    ['EPROTO', 'tls', 'the TLS handshake failed (EPROTO)'],
    [
      'ERR_SSL_WRONG_VERSION_NUMBER',
      'tls',
      'the TLS handshake failed (ERR_SSL_WRONG_VERSION_NUMBER)',
    ],
    ['EMFILE', 'reset', 'words of the system'],
  ] as const) {
    test(`is told with the reason ${reason} for ${code}`, () => {
      const error = failure(code);
      assert.equal(error.code, 'HANSA_UNREACHABLE');
      assert.equal(error.message, `Cannot reach the API server ${where}: ${words}.`);
      assert.equal(unreachableReason(error), reason);
    });
  }

  test('is the only error with such a reason', () => {
    assert.equal(unreachableReason(new Error('other')), undefined);
    const other = { details: { causes: [{ reason: 'dns', message: 'x' }] } };
    assert.equal(unreachableReason(new HansaError('HANSA_INVALID', 'x', other)), undefined);
    assert.equal(unreachableReason(new HansaError('HANSA_UNREACHABLE', 'a peer')), undefined);
  });
});

suite('a text of a server', () => {
  const token = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJpIn0.c2lnbmF0dXJl';

  test('is shown without the token that it repeats, whole or cut', () => {
    assert.equal(printableText(`got "Bearer ${token}"`, 1024), 'got "Bearer [token]"');
    for (let length = 8; length < token.length; length += 1) {
      assert.equal(printableText(`t=${token}`, length).replace('…', ''), 't=[token]');
    }
    for (const text of ['the key is eyJ', 'heyJude.example.com', 'a.b.c']) {
      assert.equal(printableText(text, 1024), text);
    }
    const body = (value: unknown) => ({
      status: 500,
      headers: {},
      body: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)),
    });
    const message = `no ${token}`;
    for (const answer of [message, { kind: 'Status', message, reason: token }]) {
      const error = new KubeStatusError(where, 'get /', body(answer));
      assert.doesNotMatch(JSON.stringify([error.message, error]), /eyJ/);
    }
  });
});

suite('a failure of an API server', () => {
  const causesOf = (details: unknown): readonly string[] => {
    const body = Buffer.from(JSON.stringify({ kind: 'Status', details }));
    return new KubeStatusError(where, 'list', { status: 504, headers: {}, body }).causes;
  };

  test('has the reasons of its causes, the first few', () => {
    const causes = [{ reason: 'ResourceVersionTooLarge' }, { reason: 'x' }];
    assert.deepEqual(causesOf({ causes }), ['ResourceVersionTooLarge', 'x']);
    assert.equal(
      causesOf({ causes: Array.from({ length: 100 }, () => ({ reason: 'x' })) }).length,
      16,
    );
  });

  test('has none where they are malformed', () => {
    for (const details of [
      undefined,
      {},
      { causes: 'x' },
      { causes: [null, 1, {}, { reason: 1 }] },
    ]) {
      assert.deepEqual(causesOf(details), []);
    }
  });
});

import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { suite, test } from 'node:test';
import { SeededRandom } from '../../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../../core/clock/virtual.ts';
import { certificatePem } from '../../../core/identity/x509/pem.ts';
import { ecKey, forge } from '../../../core/identity/x509/test-forge.ts';
import { AcmeClient } from './acme-client.ts';
import { keyAuthorization } from './acme-jws.ts';
import { orderCertificate } from './order-certificate.ts';
import { AcmeProblem } from './problem.ts';
import { drive, FakeAcme } from './test-acme-server.ts';

function scene(change: (server: FakeAcme) => void = () => undefined) {
  const clock = new VirtualClock();
  const server = new FakeAcme(clock);
  change(server);
  const opened: string[] = [];
  const client = new AcmeClient({
    transport: server.transport,
    clock,
    directoryUrl: 'https://acme.example/dir',
    caBundle: 'the PEM of the operator',
    accountKey: ecKey(),
    userAgent: 'hansa/test',
  });
  const order = async () => {
    await client.register('harbour@lubeck.example');
    return orderCertificate({
      client,
      dnsName: 'lubeck.example',
      clock,
      random: new SeededRandom('acme'),
      answer: {
        type: 'http-01',
        open: async (dnsName, token, authorized) => {
          opened.push(`open ${dnsName} ${token} ${authorized}`);
          return async () => void opened.push('close');
        },
      },
    });
  };
  const run = () =>
    drive(
      clock,
      order().then(
        (credential) => ({ credential, problem: undefined }),
        (problem: unknown) => ({ credential: undefined, problem }),
      ),
    );
  return { clock, server, client, opened, run };
}

suite('an order', () => {
  test('is carried through, and the challenge is open only meanwhile', async () => {
    const { server, client, opened, run } = scene();
    const { credential, problem } = await run();
    assert.equal(problem, undefined);
    assert.deepEqual(credential?.names, ['lubeck.example']);
    const expected = keyAuthorization(server.token, client.accountKey);
    assert.deepEqual(opened, [`open lubeck.example ${server.token} ${expected}`, 'close']);
    assert.deepEqual(server.contact, ['mailto:harbour@lubeck.example']);
  });

  test('is made of requests that are signed as RFC 8555 asks, over https with the rules of the operator', async () => {
    const { server, client, run } = scene();
    await run();
    const posts = server.posts.filter(({ url }) => url !== undefined);
    assert.ok(posts.length >= 6);
    const key = createPublicKey(client.accountKey);
    for (const { header, signed, signature, url } of posts) {
      assert.equal(header['alg'], 'ES256');
      assert.equal(header['url'], url);
      assert.equal(typeof header['nonce'], 'string');
      // Section 6.2: the key itself for a new account, the account for everything after.
      assert.equal('jwk' in header, url === 'https://acme.example/new-account');
      assert.equal('kid' in header, url !== 'https://acme.example/new-account');
      assert.ok(
        verify('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' }, signature),
      );
    }
    const nonces = posts.map(({ header }) => header['nonce']);
    assert.equal(new Set(nonces).size, nonces.length);
    assert.ok(server.rules.every(({ web }) => web?.caBundle === 'the PEM of the operator'));
    assert.ok(server.rules.every(({ asSite }) => !asSite));
  });

  test('survives nonces that are refused, but not without end', async () => {
    const some = scene((server) => {
      server.badNonces = 5;
    });
    assert.equal((await some.run()).problem, undefined);
    const all = scene((server) => {
      server.badNonces = Number.POSITIVE_INFINITY;
    });
    const { problem } = await all.run();
    assert.ok(problem instanceof AcmeProblem);
    assert.equal(problem.type, 'badNonce');
    assert.ok(all.server.posts.length <= 13);
  });

  test('waits as long as the server wishes, within reason', async () => {
    const { server, run, clock } = scene((each) => {
      each.pendingLooks = 4;
      each.retryAfter = '7';
    });
    const before = clock.monotonic();
    assert.equal((await run()).problem, undefined);
    assert.ok(clock.monotonic() - before >= 4 * 7_000);
    assert.equal(server.looks, 5);
  });

  test('is given up where the server never comes to an end, and the challenge is closed', async () => {
    const { opened, run } = scene((server) => {
      server.pendingLooks = Number.POSITIVE_INFINITY;
    });
    const { problem } = await run();
    assert.match((problem as Error).message, /the validation of lubeck\.example did not arrive/);
    assert.equal(opened.at(-1), 'close');
  });

  test('does not hammer a server that asks to be asked at once', async () => {
    const { server, run } = scene((each) => {
      each.pendingLooks = Number.POSITIVE_INFINITY;
      each.retryAfter = '0';
    });
    await run();
    assert.ok(server.looks < 200);
  });
});

suite('what an ACME server may say', () => {
  const cases: Record<string, [(server: FakeAcme) => void, RegExp]> = {
    'that the challenge failed': [
      (server) => {
        server.rejects = {
          type: 'urn:ietf:params:acme:error:dns',
          detail: 'no such name\u001b[2J\nforged line',
          subproblems: [{ type: 'urn:ietf:params:acme:error:caa', detail: 'forbidden' }],
        };
      },
      /could not prove control of lubeck\.example \(invalid\): dns: no such name\\u001b\[2J\\nforged line; caa: forbidden/,
    ],
    'nothing about why it failed': [
      (server) => {
        server.rejects = 'because';
      },
      /could not prove control of \S+ \(invalid\): the server gave no reason/,
    ],
    'that there were too many orders': [
      (server) => {
        server.refuses.set('/new-order', {
          status: 429,
          headers: { 'retry-after': '3600' },
          body: { type: 'urn:ietf:params:acme:error:rateLimited', detail: 'too many' },
        });
      },
      /^rateLimited: too many \(HTTP 429\)$/,
    ],
    'HTML in the place of JSON': [
      (server) => {
        server.refuses.set('/dir', { status: 200, headers: {}, body: '<html>' });
      },
      /the directory is not a JSON object/,
    ],
    'a directory without TLS': [
      (server) => {
        server.refuses.set('/dir', {
          status: 200,
          headers: {},
          body: { newNonce: 'http://acme.example/n', newAccount: 'x', newOrder: 'x' },
        });
      },
      /newNonce of the directory is not an https URL/,
    ],
    'that it moved': [
      (server) => {
        server.refuses.set('/dir', {
          status: 302,
          headers: { location: 'https://evil.example/' },
          body: {},
        });
      },
      /HTTP 302/,
    ],
    'no nonce': [
      (server) => {
        server.givesNonces = false;
      },
      /the server gave no nonce/,
    ],
    'a token that leads out of its path': [
      (server) => {
        server.token = '../../../../etc/passwd/and/more';
      },
      /the token of the challenge http-01 is not base64url/,
    ],
    'an authorization of another name': [
      (server) => {
        server.authorizes = 'bruges.example';
      },
      /asks for an authorization of another name/,
    ],
    'no challenge that we can answer': [
      (server) => {
        server.challengeType = 'tls-alpn-01';
      },
      /does not offer the challenge http-01 for lubeck\.example, but tls-alpn-01/,
    ],
    'that accounts are made elsewhere': [
      (server) => {
        server.externalAccountRequired = true;
      },
      /requires external account binding/,
    ],
    'a certificate for another name': [
      (server) => {
        server.issuesFor = 'bruges.example';
      },
      /cannot be used: it is not for lubeck\.example/,
    ],
    'a certificate for another key': [
      (server) => {
        server.issued = certificatePem(
          forge({ ca: false, dnsNames: ['lubeck.example'], notAfterMs: Date.UTC(2040, 0, 1) }).der,
        );
      },
      /cannot be used: the private key does not match the first certificate/,
    ],
    'no certificate at all': [
      (server) => {
        server.issued = 'thank you';
      },
      /cannot be used: it contains no certificate in PEM/,
    ],
  };
  for (const [what, [change, reason]] of Object.entries(cases)) {
    test(`${what}, and is told so`, async () => {
      const { opened, run } = scene(change);
      const { problem } = await run();
      assert.ok(problem instanceof AcmeProblem, String(problem));
      assert.match(problem.message, reason);
      assert.equal(opened.length % 2, 0);
    });
  }

  test('when to come back, which is kept in mind', async () => {
    const { run } = scene((server) => {
      server.refuses.set('/new-order', {
        status: 429,
        headers: { 'retry-after': '3600' },
        body: { type: 'urn:ietf:params:acme:error:rateLimited', detail: 'too many' },
      });
    });
    assert.equal(((await run()).problem as AcmeProblem).retryAfterMs, 3_600_000);
  });
});

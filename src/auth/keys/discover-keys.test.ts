import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { after, describe, test } from 'node:test';
import { systemClock } from '../../core/clock/system.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { TlsTransport } from '../../core/identity/tls/tls-transport.ts';
import type { Transport } from '../../core/identity/tls/transport.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import { credentialOf, forge, type Forged, purposes } from '../../core/identity/x509/test-forge.ts';
import type { KeySource } from '../clusters/compile-cluster.ts';
import { testJwks, testKubeClient, TestServer } from '../clusters/test-clusters.ts';
import { type Discovered, discoverKeys, readConfiguration } from './discover-keys.ts';

const root = forge({ ca: true });
const leafFor = (issuer: Forged, dnsNames = ['localhost']): Forged =>
  forge({ issuer, ca: false, dnsNames, purposes: [purposes.server] });
const caBundle = certificatePem(root.der);
const transport = new TlsTransport({
  clock: systemClock,
  credential: () => {
    throw new Error('an issuer gets no certificate of the site');
  },
});

const servers: Server[] = [];
after(() => {
  for (const server of servers) server.close();
});

/** Answers by path. A number is a status without a body. */
type Pages = Record<string, string | number | { status: number; location: string }>;

async function serve(pages: (origin: string) => Pages, leaf = leafFor(root)): Promise<string> {
  const listener: RequestListener = (request, response) => {
    const page = pages(origin)[request.url ?? ''] ?? 404;
    if (typeof page === 'string') response.end(page);
    else if (typeof page === 'number') response.writeHead(page).end();
    else response.writeHead(page.status, { location: page.location }).end();
  };
  const { certificateChain, privateKey } = credentialOf(leaf);
  const server = createServer({ cert: certificateChain, key: privateKey }, listener);
  servers.push(server);
  server.listen(0, 'localhost');
  await once(server, 'listening');
  const origin = `https://localhost:${(server.address() as AddressInfo).port}`;
  return origin;
}

const configurationPath = '/.well-known/openid-configuration';

const pagesOf =
  (change: Pages = {}, keys = testJwks({ a: 0 })) =>
  (origin: string): Pages => ({
    [configurationPath]: JSON.stringify({ issuer: origin, jwks_uri: `${origin}/keys` }),
    '/keys': keys,
    ...change,
  });

function discover(
  issuer: string,
  options: { ca?: string | undefined; transport?: Transport; expected?: string } = {},
): Promise<Discovered> {
  const url = new URL(`${issuer}${configurationPath}`);
  const source: KeySource = {
    from: 'issuer',
    url,
    caBundle: 'ca' in options ? options.ca : caBundle,
  };
  return discoverKeys(
    { issuer: options.expected ?? issuer, keySources: [source] },
    {
      transport: options.transport ?? transport,
      clock: systemClock,
      signal: new AbortController().signal,
    },
  );
}

const failureOf = (found: Discovered): string =>
  'failure' in found ? `${found.failure.reason}: ${found.failure.message}` : 'found';

describe('keys from the issuer', () => {
  test('are found through its OpenID configuration', async () => {
    const found = await discover(await serve(pagesOf()));
    assert.ok('found' in found, failureOf(found));
    assert.equal(found.from, 'issuer');
    assert.deepEqual(
      found.found.keys.map(({ keyId }) => keyId),
      ['a'],
    );
  });

  test('may be at another host that the issuer names', async () => {
    const other = await serve(pagesOf({}, testJwks({ b: 1 })));
    const issuer = await serve((origin) => ({
      [configurationPath]: JSON.stringify({ issuer: origin, jwks_uri: `${other}/keys` }),
    }));
    const found = await discover(issuer);
    assert.equal('found' in found && found.found.keys[0]?.keyId, 'b');
  });

  const bad: Record<string, [(origin: string) => Pages, RegExp]> = {
    'that calls itself otherwise': [
      (origin) =>
        pagesOf({
          [configurationPath]: JSON.stringify({ issuer: `${origin}/`, jwks_uri: `${origin}/keys` }),
        })(origin),
      /^IssuerMismatch: .*Set spec\.issuer/,
    ],
    'that is another cluster': [
      pagesOf({ [configurationPath]: '{"issuer":"https://evil.example","jwks_uri":"https://a/"}' }),
      /^IssuerMismatch: .*https:\/\/evil\.example/,
    ],
    'whose keys are not at an https URL': [
      (origin) => ({
        [configurationPath]: JSON.stringify({ issuer: origin, jwks_uri: 'http://a/keys' }),
      }),
      /^InvalidConfiguration: .*https/,
    ],
    'whose keys are at a URL with a password': [
      (origin) => ({
        [configurationPath]: JSON.stringify({ issuer: origin, jwks_uri: 'https://u:p@a/keys' }),
      }),
      /^InvalidConfiguration: .*a user or a password/,
    ],
    'without a jwks_uri': [
      (origin) => ({ [configurationPath]: JSON.stringify({ issuer: origin }) }),
      /^InvalidConfiguration: .*no jwks_uri/,
    ],
    'whose configuration is garbage': [
      pagesOf({ [configurationPath]: '<html>' }),
      /^InvalidConfiguration: .*not JSON/,
    ],
    'whose configuration is huge': [
      pagesOf({ [configurationPath]: ' '.repeat(100_000) }),
      /^TooLarge: /,
    ],
    'whose key set is empty': [pagesOf({}, '{"keys":[]}'), /^InvalidKeys: .*no keys/],
    'whose key set is huge': [pagesOf({}, ' '.repeat(1_000_000)), /^TooLarge: /],
    'that redirects': [
      pagesOf({ [configurationPath]: { status: 302, location: 'https://evil.example/' } }),
      /^Redirected: .*https:\/\/evil\.example\//,
    ],
    'whose keys redirect into the machine': [
      pagesOf({ '/keys': { status: 307, location: 'https://169.254.169.254/' } }),
      /^Redirected: /,
    ],
    'that has no such page': [pagesOf({ [configurationPath]: 404 }), /^UnexpectedStatus: .*404/],
    'that fails': [pagesOf({ '/keys': 500 }), /^UnexpectedStatus: .*500/],
  };
  for (const [what, [pages, message]] of Object.entries(bad)) {
    test(`are not accepted from one ${what}`, async () => {
      assert.match(failureOf(await discover(await serve(pages))), message);
    });
  }

  test('are not accepted from a server of an unknown authority', async () => {
    const issuer = await serve(pagesOf());
    assert.match(failureOf(await discover(issuer, { ca: undefined })), /^CertificateInvalid: /);
    const other = certificatePem(forge({ ca: true }).der);
    assert.match(failureOf(await discover(issuer, { ca: other })), /^CertificateInvalid: /);
  });

  test('are not accepted from a server with a certificate for another name', async () => {
    const issuer = await serve(pagesOf(), leafFor(root, ['elsewhere.example']));
    assert.match(failureOf(await discover(issuer)), /^CertificateInvalid: /);
  });

  test('are unreachable where nobody listens', async () => {
    assert.match(failureOf(await discover('https://localhost:1')), /^Unreachable: /);
  });

  test('are not fetched from an address of this machine that a remote issuer names', async () => {
    const asked: string[] = [];
    const remote: Transport = {
      connect: async ({ url, checkAddress }) => {
        checkAddress?.(url.hostname === 'metadata.example' ? '169.254.169.254' : '192.0.2.1');
        asked.push(url.hostname);
        return {
          peerChain: [],
          close: () => undefined,
          request: async () => ({
            status: 200,
            headers: {},
            body: Buffer.from(
              JSON.stringify({
                issuer: 'https://issuer.example',
                jwks_uri: 'https://metadata.example/keys',
              }),
            ),
          }),
        };
      },
    };
    const found = await discover('https://issuer.example', { transport: remote });
    assert.match(failureOf(found), /^InvalidConfiguration: .*169\.254\.169\.254/);
    assert.deepEqual(asked, ['issuer.example']);
  });
});

describe('keys from the API server', () => {
  const issuer = 'https://kubernetes.default.svc.cluster.local';
  const clock = new VirtualClock();

  function ask(server: TestServer, before: readonly KeySource[] = []): Promise<Discovered> {
    const source: KeySource = { from: 'apiServer', client: testKubeClient(server, clock) };
    return discoverKeys(
      { issuer, keySources: [...before, source] },
      { transport, clock, signal: new AbortController().signal },
    );
  }

  test('come from the API server itself, wherever its jwks_uri leads', async () => {
    const server = new TestServer();
    server.publish(issuer, { a: 0 }, 'https://elsewhere.example/keys');
    const found = await ask(server);
    assert.equal('found' in found && found.from, 'apiServer');
    assert.deepEqual(server.asked, [configurationPath, '/openid/v1/jwks']);
  });

  test('are asked for where the issuer cannot be reached, and both reasons are told', async () => {
    const server = new TestServer();
    server.publish(issuer, { a: 0 });
    const unreachable: KeySource = {
      from: 'issuer',
      url: new URL(`https://localhost:1${configurationPath}`),
      caBundle,
    };
    const found = await ask(server, [unreachable]);
    assert.equal('found' in found && found.from, 'apiServer');
    server.down = true;
    assert.match(
      failureOf(await ask(server, [unreachable])),
      /localhost:1.*Cannot call the server/,
    );
  });

  test('of another cluster with another issuer are refused', async () => {
    const server = new TestServer();
    server.publish('https://other.example', { a: 0 });
    assert.match(failureOf(await ask(server)), /^IssuerMismatch: /);
    assert.deepEqual(server.asked, [configurationPath]);
  });

  for (const [status, message] of [
    [401, /^Unauthorized: .*CredentialFresh says what to do/],
    [403, /^Forbidden: .*system:service-account-issuer-discovery/],
    [404, /^NoDiscovery: .*--service-account-issuer/],
    [429, /^UnexpectedStatus: .*429/],
    [500, /^UnexpectedStatus: .*500/],
    [302, /^Redirected: /],
  ] as const) {
    test(`say what to do where it answers ${status}`, async () => {
      const server = new TestServer();
      server.publish(issuer, { a: 0 });
      server.answers.set('/openid/v1/jwks', () => ({ status }));
      assert.match(failureOf(await ask(server)), message);
    });
  }

  test('are missing where the site has no credential', async () => {
    const server = new TestServer();
    server.answers.set(
      configurationPath,
      () => new HansaError('HANSA_UNAVAILABLE', 'There is no credential.'),
    );
    assert.match(failureOf(await ask(server)), /^CredentialMissing: There is no credential\./);
  });
});

describe('an OpenID configuration', () => {
  const read = (document: string) =>
    readConfiguration(Buffer.from(document), 'https://issuer.example', 'The issuer');

  test('loses the fragment of its jwks_uri', () => {
    const { jwksURL } = read('{"issuer":"https://issuer.example","jwks_uri":"https://a/k#f"}');
    assert.equal(jwksURL.href, 'https://a/k');
  });

  for (const document of [
    '',
    'null',
    '[]',
    '7',
    '{"issuer":7}',
    '{"issuer":["https://issuer.example"]}',
  ]) {
    test(`is refused as ${document === '' ? 'nothing' : document}`, () => {
      assert.throws(() => read(document), HansaError);
    });
  }
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:https';
import { connect as connectHttp2 } from 'node:http2';
import { after, suite, test } from 'node:test';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { Answers } from '../http/answers.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import { credentialOf, type Forged, forge, purposes } from '../../core/identity/x509/test-forge.ts';
import { certificatePem } from '../../core/identity/x509/pem.ts';
import type { TlsCredential } from '../../core/identity/tls/options.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { WebCertificate } from '../../core/plane/plane.ts';
import type { ApiRequest, PeerRequest, WebRoute } from '../../core/plane/route.ts';
import { Limits } from '../http/limits.ts';
import { listenTls } from './listeners.ts';
import { followCertificate, webDispatcher, webServerOptions } from './web-listener.ts';
import { silentLog } from '../../core/log/test-log.ts';

const root = forge({ ca: true });
const certificateFor = (name: string): Forged =>
  forge({ issuer: root, ca: false, dnsNames: [name], purposes: [purposes.server] });

/** What the types keep from a handler is not there either. */
function seenOf({ svid, peerChain, caller }: Partial<PeerRequest & ApiRequest>): string {
  return `for all ${svid?.id.toString()} ${peerChain?.length} ${caller?.user}`;
}

const routes: readonly WebRoute[] = [
  {
    listener: 'web',
    method: 'GET',
    path: '/',
    allow: 'public',
    handle: (asked) => ({
      status: 200,
      contentType: 'text/plain',
      body: seenOf(asked),
    }),
  },
  {
    listener: 'web',
    method: 'GET',
    path: '/later',
    allow: 'public',
    handle: async () => ({ status: 200, contentType: 'text/plain', body: 'later' }),
  },
  {
    listener: 'web',
    method: 'GET',
    path: '/gone',
    allow: 'public',
    handle: async () => {
      throw new HansaError('HANSA_NOT_FOUND', 'It is not here.');
    },
  },
];

class Kept implements WebCertificate {
  current: TlsCredential | undefined;
  readonly challenges = new Map<string, TlsCredential>();
  readonly #listeners = new Set<() => void>();

  constructor(first: Forged | undefined) {
    this.current = first && credentialOf(first);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  challengeFor(serverName: string): TlsCredential | undefined {
    return this.challenges.get(serverName);
  }

  swap(next: Forged): void {
    this.current = credentialOf(next);
    for (const listener of this.#listeners) listener();
  }
}

const closing: (() => unknown)[] = [];
after(async () => {
  for (const close of closing.toReversed()) await close();
});

const limits = {
  maxHeaderBytes: 32_768,
  maxConnections: 100,
  requestSeconds: 10,
  maxConcurrentRequests: 100,
  maxWatches: 0,
  requestsPerSecond: 0,
};

async function scene(first: Forged | undefined, requestsPerSecond = 0) {
  const certificate = new Kept(first);
  const metrics = new MetricsRegistry();
  const dispatcher = webDispatcher({
    answers: new Answers(systemClock, { withinMs: 60_000, maxBytes: 64 * 1024 ** 2 }),
    clock: systemClock,
    random: systemRandom,
    log: silentLog,
    metrics,
    // No second goes by, however long a request takes.
    limits: new Limits({ ...limits, requestsPerSecond }, { ...systemClock, monotonic: () => 0 }),
    bodyWithinMs: 60_000,
    routes,
  });
  const listener = await listenTls(
    { host: '127.0.0.1', port: 0 },
    webServerOptions(certificate),
    limits,
    dispatcher.listener,
    systemClock,
  );
  followCertificate(listener.server, certificate);
  closing.push(() => listener.close(100));
  const dial = (options: ConnectionOptions = {}): TLSSocket =>
    connect({
      host: '127.0.0.1',
      port: listener.address.port,
      servername: 'web.example',
      ca: certificatePem(root.der),
      ALPNProtocols: ['http/1.1'],
      ...options,
    });
  const ask = (path: string, method = 'GET') =>
    new Promise<{ status: number; body: string; retryAfter: string | undefined }>(
      (resolve, reject) => {
        const asked = request({ path, method, createConnection: () => dial() }, (answer) => {
          let body = '';
          answer.setEncoding('utf8').on('data', (text: string) => {
            body += text;
          });
          answer.on('end', () =>
            resolve({
              status: answer.statusCode ?? 0,
              body,
              retryAfter: answer.headers['retry-after'],
            }),
          );
        });
        asked.on('error', reject);
        asked.end();
      },
    );
  return { certificate, dial, ask, metrics, port: listener.address.port };
}

async function handshake(socket: TLSSocket): Promise<string> {
  await once(socket, 'secureConnect');
  const { fingerprint256 } = socket.getPeerCertificate();
  return fingerprint256.replaceAll(':', '').toLowerCase();
}

suite('what the web listener serves', () => {
  test('is the routes of planes, for anybody', async () => {
    const { ask } = await scene(certificateFor('web.example'));
    assert.deepEqual(await ask('/'), {
      status: 200,
      body: 'for all undefined 0 system:anonymous',
      retryAfter: undefined,
    });
    assert.equal((await ask('/later')).body, 'later');
    assert.equal((await ask('/', 'HEAD')).body, '');
  });

  test('is nothing else, whatever the method', async () => {
    const { ask } = await scene(certificateFor('web.example'));
    assert.equal((await ask('/apis')).status, 404);
    assert.equal((await ask('/metrics', 'POST')).status, 404);
    assert.equal((await ask('/', 'POST')).status, 405);
    assert.equal((await ask('/gone')).status, 404);
  });

  test('is served over HTTP/2, too', async () => {
    const { dial, port } = await scene(certificateFor('web.example'));
    const session = connectHttp2(`https://web.example:${port}`, {
      createConnection: () => dial({ ALPNProtocols: ['h2'] }),
    });
    closing.push(() => session.close());
    const stream = session.request({ ':path': '/' });
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
    assert.equal(headers[':status'], 200);
    stream.resume();
    await once(stream, 'end');
  });

  test('is counted by route and status, and limited by address', async () => {
    const { ask, metrics } = await scene(certificateFor('web.example'), 2);
    const answers = [await ask('/'), await ask('/nowhere'), await ask('/')];
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 404, 429],
    );
    assert.equal(answers[2]?.retryAfter, '1');
    const exposed = metrics.expose();
    assert.match(exposed, /hansa_web_requests_total\{route="\/",code="200"\} 1/);
    assert.match(exposed, /hansa_web_requests_total\{route="none",code="404"\} 1/);
    assert.match(exposed, /hansa_web_requests_total\{route="none",code="429"\} 1/);
  });
});

suite('the certificate of the web listener', () => {
  test('is presented without asking for one', async () => {
    const serving = certificateFor('web.example');
    const { dial } = await scene(serving);
    const client = forge({ issuer: root, ca: false, dnsNames: ['client.example'] });
    const { certificateChain: cert, privateKey: key } = credentialOf(client);
    const socket = dial({ cert, key });
    assert.equal(await handshake(socket), serving.certificate.fingerprint);
    assert.equal(socket.authorized, true);
    socket.destroy();
  });

  test('is swapped for new connections, and those that stand go on', async () => {
    const [old, next] = [certificateFor('web.example'), certificateFor('web.example')];
    const { certificate, dial } = await scene(old);
    const standing = dial();
    await handshake(standing);
    certificate.swap(next);
    const fresh = dial();
    assert.equal(await handshake(fresh), next.certificate.fingerprint);
    standing.write('GET /later HTTP/1.1\r\nhost: web.example\r\n\r\n');
    const [answer] = (await once(standing, 'data')) as [Buffer];
    assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    for (const socket of [standing, fresh]) socket.destroy();
  });

  test('is waited for: without one no handshake succeeds, and then it does', async () => {
    const { certificate, dial } = await scene(undefined);
    for (const options of [{}, { maxVersion: 'TLSv1.2' }] as const) {
      const [error] = (await once(dial(options), 'error')) as [NodeJS.ErrnoException];
      assert.match(error.code ?? '', /^ERR_SSL_|ECONNRESET/);
    }
    const first = certificateFor('web.example');
    certificate.swap(first);
    const socket = dial();
    assert.equal(await handshake(socket), first.certificate.fingerprint);
    socket.destroy();
  });

  for (const [version, options] of Object.entries({
    'TLS 1.3': {},
    'TLS 1.2': { maxVersion: 'TLSv1.2' },
    'TLS 1.2 with RSA only': { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-RSA-AES128-GCM-SHA256' },
    'TLS 1.1': { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
  } as const satisfies Record<string, ConnectionOptions>)) {
    const accepted = version === 'TLS 1.3' || version === 'TLS 1.2';
    test(`is ${accepted ? '' : 'not '}reached by ${version}`, async () => {
      const { dial } = await scene(certificateFor('web.example'));
      const socket = dial(options);
      if (accepted) await handshake(socket);
      else assert.ok((await once(socket, 'error'))[0]);
      socket.destroy();
    });
  }
});

suite('an ACME challenge on the web listener', () => {
  const answer = forge({ dnsNames: ['web.example'], ca: false });
  const acme = { ALPNProtocols: ['acme-tls/1'], rejectUnauthorized: false };

  for (const serving of [undefined, certificateFor('web.example')]) {
    const when = serving === undefined ? 'before there is a certificate' : 'beside the certificate';
    test(`is answered ${when}, and nothing is said after`, async () => {
      const { certificate, dial } = await scene(serving);
      certificate.challenges.set('web.example', credentialOf(answer));
      const socket = dial(acme);
      assert.equal(await handshake(socket), answer.certificate.fingerprint);
      assert.equal(socket.alpnProtocol, 'acme-tls/1');
      socket.resume();
      await once(socket, 'end');
      assert.equal(socket.bytesRead, 0);
    });
  }

  test('is refused where none is open, or one for another name', async () => {
    const { certificate, dial } = await scene(certificateFor('web.example'));
    certificate.challenges.set('other.example', credentialOf(answer));
    const [error] = (await once(dial(acme), 'error')) as [NodeJS.ErrnoException];
    assert.equal(error.code, 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL');
  });

  test('is refused to whoever names nobody', async () => {
    const { certificate, dial } = await scene(certificateFor('web.example'));
    const asked: unknown[] = [];
    certificate.challengeFor = (name) => void asked.push(name);
    const [error] = (await once(dial({ ...acme, servername: '' }), 'error')) as [
      NodeJS.ErrnoException,
    ];
    assert.equal(error.code, 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL');
    assert.deepEqual(asked, []);
  });

  test('does not change what others get', async () => {
    const serving = certificateFor('web.example');
    const { certificate, dial } = await scene(serving);
    certificate.challenges.set('web.example', credentialOf(answer));
    const socket = dial();
    assert.equal(await handshake(socket), serving.certificate.fingerprint);
    socket.destroy();
  });
});

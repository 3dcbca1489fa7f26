// Tests the ACME client of the web listener with Pebble: both challenges, renewal, restarts and
// failures.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { connect as connectPlain } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { connect, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { allKinds } from '../../src/test-planes.ts';
import { systemRandom } from '../../src/core/clock/system.ts';
import { createLog } from '../../src/core/log/json-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { loadConfig } from '../../src/server/config/config.ts';
import { type RunningSite, startSite } from '../../src/server/site.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { temporaryFolder } from '../e2e/daemon.ts';
import { freePort } from '../e2e/free-ports.ts';
import { MovableClock } from '../e2e/movable-clock.ts';
import { NameServer, type Pebble, type PebbleOptions, startPebble } from './pebble.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('pebble');
const name = 'lubeck.example';
const dayMs = 24 * 3_600_000;

interface Line {
  readonly message: string;
  readonly why?: string;
}

/** What a site logs, to be waited for. */
class Lines {
  readonly #lines: Line[] = [];
  readonly #waiting: { readonly text: string; readonly found: (line: Line) => void }[] = [];

  write(text: string): boolean {
    const line = JSON.parse(text) as Line;
    this.#lines.push(line);
    for (const each of this.#waiting.splice(0)) {
      if (line.message === each.text) each.found(line);
      else this.#waiting.push(each);
    }
    return true;
  }

  all(text: string): readonly Line[] {
    return this.#lines.filter(({ message }) => message === text);
  }

  count(text: string): number {
    return this.all(text).length;
  }

  /** The next one that is written from now on. */
  next(text: string): Promise<Line> {
    return new Promise((found) => this.#waiting.push({ text, found }));
  }
}

const obtained = 'web certificate obtained';
const refused = 'cannot obtain the web certificate';

class Scene {
  readonly folder = temporaryFolder();
  readonly clock = new MovableClock();
  readonly lines = new Lines();
  readonly httpPort: number;
  readonly tlsPort: number;
  readonly nameServer: NameServer;
  readonly challenge: string;
  pebble: Pebble | undefined;
  site: RunningSite | undefined;

  private constructor(ports: readonly [number, number], nameServer: NameServer, challenge: string) {
    [this.httpPort, this.tlsPort] = ports;
    this.nameServer = nameServer;
    this.challenge = challenge;
  }

  static async set(challenge: string, options: Partial<PebbleOptions> = {}): Promise<Scene> {
    const ports = [await freePort(), await freePort()] as const;
    const scene = new Scene(ports, await NameServer.start(), challenge);
    await scene.startPebble(options);
    return scene;
  }

  async startPebble(options: Partial<PebbleOptions> = {}): Promise<void> {
    const folder = join(this.folder, `pebble-${Math.floor(performance.now())}`);
    mkdirSync(folder);
    const { httpPort, tlsPort, nameServer } = this;
    this.pebble = await startPebble({ folder, httpPort, tlsPort, nameServer, ...options });
  }

  async startSite(changes: Record<string, string> = {}): Promise<RunningSite> {
    assert(this.pebble);
    const { config } = loadConfig({
      planes: [trustPlane],
      flags: {
        dataDir: join(this.folder, 'site'),
        trustDomain: name,
        api: '127.0.0.1:0',
        federation: '127.0.0.1:0',
        metrics: '127.0.0.1:0',
        web: `127.0.0.1:${this.tlsPort}`,
        'acme.directoryUrl': this.pebble.directoryUrl,
        'acme.domainName': name,
        'acme.email': 'harbour@lubeck.example',
        'acme.tosAccepted': 'true',
        'acme.challenge': this.challenge,
        'acme.httpAddress': `127.0.0.1:${this.httpPort}`,
        'acme.caFile': this.pebble.caFile,
        ...changes,
      },
      env: {},
      cwd: this.folder,
    });
    const { clock } = this;
    this.site = await startSite({
      config,
      kinds: allKinds,
      planes: [trustPlane],
      version: 'test',
      clock,
      random: systemRandom,
      log: createLog({ clock, sink: this.lines, level: 'info', format: 'json' }),
      metrics: new MetricsRegistry(),
    });
    return this.site;
  }

  /** A connection that believes what Pebble issued, and nothing else. */
  async dial(options: ConnectionOptions = {}): Promise<TLSSocket> {
    assert(this.pebble);
    const socket = connect({
      host: '127.0.0.1',
      port: this.tlsPort,
      servername: name,
      ca: await this.pebble.issuingRoot(),
      ALPNProtocols: ['http/1.1'],
      ...options,
    });
    await once(socket, 'secureConnect');
    return socket;
  }

  async presented(): Promise<string> {
    const socket = await this.dial();
    const { fingerprint256 } = socket.getPeerCertificate();
    socket.destroy();
    return fingerprint256;
  }

  /** What /readyz says of the certificate. */
  async readiness(): Promise<string> {
    const url = this.site?.endpoints.metrics?.replace('/metrics', '/readyz?verbose') ?? '';
    const text = await (await fetch(url)).text();
    return text.split('\n').find((line) => line.includes('web-certificate')) ?? '';
  }

  async end(): Promise<void> {
    await this.site?.stop();
    await this.pebble?.stop();
    this.nameServer.stop();
  }
}

suite('a certificate by TLS-ALPN-01', { skip }, () => {
  let scene: Scene;
  let first: string;

  before(async () => {
    scene = await Scene.set('tls-alpn-01');
    const came = scene.lines.next(obtained);
    await scene.startSite();
    await came;
    first = await scene.presented();
  });
  after(() => scene?.end());

  test('is presented, and the bundle comes under it', async () => {
    const socket = await scene.dial();
    assert.equal(socket.getPeerCertificate().subjectaltname, `DNS:${name}`);
    const asked = request({
      path: '/webapi/spiffe/bundle.json',
      host: name,
      createConnection: () => socket,
    });
    asked.end();
    const [answer] = (await once(asked, 'response')) as [NodeJS.ReadableStream];
    let body = '';
    for await (const text of answer) body += String(text);
    const { keys } = JSON.parse(body) as { readonly keys: readonly { readonly use: string }[] };
    assert.ok(keys.some(({ use }) => use === 'x509-svid'));
  });

  test('leaves no challenge open', async () => {
    await assert.rejects(scene.dial({ ALPNProtocols: ['acme-tls/1'] }), {
      code: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
    });
  });

  test('is there at once after a restart, without another order or account', async () => {
    const requests = () => [
      scene.pebble?.requests('order-plz'),
      scene.pebble?.requests('sign-me-up'),
    ];
    const earlier = requests();
    await scene.site?.stop();
    await scene.startSite();
    assert.equal(await scene.presented(), first);
    assert.equal(scene.lines.count(obtained), 1);
    assert.deepEqual(requests(), earlier);
  });

  test('is renewed early, by the same account, and connections that stand go on', async () => {
    const standing = await scene.dial();
    const accounts = scene.pebble?.requests('sign-me-up');
    scene.clock.move(50 * dayMs);
    assert.equal(scene.lines.count(obtained), 1);
    const came = scene.lines.next(obtained);
    scene.clock.move(11 * dayMs);
    await came;
    assert.notEqual(await scene.presented(), first);
    assert.equal(scene.pebble?.requests('sign-me-up'), accounts);
    standing.write(`GET / HTTP/1.1\r\nhost: ${name}\r\n\r\n`);
    const [answer] = (await once(standing, 'data')) as [Buffer];
    assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
    standing.destroy();
  });

  test('comes from a server that forgot the account, with the same key', async () => {
    const { pebble } = scene;
    assert(pebble);
    await scene.site?.stop();
    await pebble.stop();
    await scene.startPebble({ port: pebble.port });
    scene.clock.move(2 * 3_600_000);
    const came = scene.lines.next(obtained);
    await scene.startSite();
    await came;
    assert.ok(await scene.presented());
  });
});

suite('a certificate by HTTP-01', { skip }, () => {
  let scene: Scene;

  before(async () => {
    scene = await Scene.set('http-01', { nonceReject: 30 });
  });
  after(() => scene?.end());

  test('is obtained though the server refuses a third of all nonces', async () => {
    const came = scene.lines.next(obtained);
    await scene.startSite();
    await came;
    assert.ok(await scene.presented());
    // Pebble gives a name server two seconds. Where a busy machine takes longer, the next order comes a
    // minute later; none may fail for its nonces.
    assert.deepEqual(
      scene.lines.all(refused).filter(({ why }) => /nonce/i.test(why ?? '')),
      [],
    );
  });

  test('leaves nothing open without TLS', async () => {
    const socket = connectPlain(scene.httpPort, '127.0.0.1');
    const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
    assert.equal(error.code, 'ECONNREFUSED');
  });
});

suite('a certificate that does not come', { skip }, () => {
  let scene: Scene;

  before(async () => {
    scene = await Scene.set('http-01');
  });
  after(() => scene?.end());

  test('is told of with the reason of the server, and tried for again later', async () => {
    // Whoever asks there finds nobody.
    scene.nameServer.leadsTo = '127.0.0.2';
    const failed = scene.lines.next(refused);
    await scene.startSite();
    const { why } = await failed;
    assert.match(why ?? '', /^the site could not prove control of lubeck\.example \(invalid\): /);
    assert.match(await scene.readiness(), /\[-\].*could not prove control of lubeck\.example/);
    await assert.rejects(scene.dial());

    scene.nameServer.leadsTo = '127.0.0.1';
    const came = scene.lines.next(obtained);
    scene.clock.move(2 * 60_000);
    await came;
    assert.match(await scene.readiness(), /^\[\+\]/);
  });

  test('does not come from a server that is not the one that was meant', async () => {
    await scene.site?.stop();
    scene.clock.move(80 * dayMs);
    const failed = scene.lines.next(refused);
    // Nobody in the public Web PKI vouches for Pebble.
    const stranger = join(scene.folder, 'stranger.pem');
    writeFileSync(stranger, (await scene.pebble?.issuingRoot()) ?? '');
    await scene.startSite({ 'acme.caFile': stranger });
    assert.match((await failed).why ?? '', /no trusted CA signed it/);
    // What there is stays.
    assert.ok(await scene.presented());
  });
});

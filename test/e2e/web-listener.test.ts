// The web listener with a certificate from files: the status that shows it, the routes that it
// serves, the checks of `hansa doctor`, and the errors for invalid files.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import {
  credentialOf,
  type Forged,
  forge,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';
import { type Daemon, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const root = forge({ ca: true });
const dayMs = 24 * 3_600_000;
const serving = (changes: object = {}): Forged =>
  forge({
    issuer: root,
    ca: false,
    dnsNames: ['localhost', 'lubeck.example'],
    purposes: [purposes.server],
    ...changes,
  });

interface Place {
  readonly flags: readonly string[];
  write(pair: Forged, key?: Forged): void;
}

function place(folder: string): Place {
  mkdirSync(folder);
  const certFile = join(folder, 'tls.crt');
  const keyFile = join(folder, 'tls.key');
  return {
    flags: [
      '--web',
      '127.0.0.1:0',
      '--jwt-issuer',
      'https://lubeck.example',
      '--serving-cert-cert-file',
      certFile,
      '--serving-cert-key-file',
      keyFile,
    ],
    write: (pair, key = pair) => {
      writeFileSync(keyFile, credentialOf(key).privateKey);
      writeFileSync(certFile, credentialOf(pair).certificateChain);
    },
  };
}

suite('a site with a web listener', () => {
  const folder = temporaryFolder();
  const files = place(join(folder, 'tls'));
  let site: Daemon;
  let web: string;

  before(async () => {
    files.write(serving());
    site = await startDaemon(join(folder, 'lubeck'), files.flags);
    web = (site.endpoints as unknown as { readonly web: string }).web;
  });
  after(() => site?.signal('SIGTERM'));

  const doctor = (): Promise<Ran> => hansa(['doctor', '--data-dir', site.dataDir, ...files.flags]);
  const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    new Promise<{ status: number; body: string; headers: NodeJS.Dict<string | string[]> }>(
      (resolve, reject) => {
        const url = web.replace('127.0.0.1', 'localhost');
        const options = { ca: certificatePem(root.der), headers, method, family: 4 };
        const asked = request(`${url}${path}`, options, (answer) => {
          let body = '';
          answer.setEncoding('utf8').on('data', (text: string) => {
            body += text;
          });
          answer.on('end', () =>
            resolve({ status: answer.statusCode ?? 0, body, headers: answer.headers }),
          );
        });
        asked.on('error', reject);
        asked.end();
      },
    );

  test('says where it is, in the greeting and in the status of the Site', async () => {
    assert.match(site.greeting, new RegExp(`^ {2}web +${web} `, 'm'));
    const shown = await hansa(['get', 'site', '-o', 'json', '--data-dir', site.dataDir]);
    const { items } = JSON.parse(shown.stdout) as {
      readonly items: readonly { readonly status: { readonly listeners: readonly object[] } }[];
    };
    assert.ok(items[0]?.status.listeners.some((each) => JSON.stringify(each).includes(`"${web}"`)));
  });

  test('serves the bundle that is published, at both paths and by HEAD', async () => {
    const { stdout } = await hansa(['trust', 'bundle', 'show', '--data-dir', site.dataDir]);
    const whole = await get('/');
    assert.equal(whole.status, 200);
    assert.equal(whole.headers['content-type'], 'application/json');
    assert.deepEqual(JSON.parse(whole.body), JSON.parse(stdout));
    assert.equal((await get('/webapi/spiffe/bundle.json')).body, whole.body);
    const head = await get('/', {}, 'HEAD');
    assert.equal(head.status, 200);
    assert.equal(head.body, '');
    assert.equal(head.headers['content-length'], String(Buffer.byteLength(whole.body)));
    const known = await get('/', { 'if-none-match': String(whole.headers['etag']) });
    assert.equal(known.status, 304);
    assert.equal(known.body, '');
  });

  test('serves nothing of the API, of other sites, or of the operator', async () => {
    for (const path of ['/apis', '/metrics', '/readyz', '/hansa/v1/trust/bundle', '/.env']) {
      assert.equal((await get(path)).status, 404, path);
    }
  });

  test('is well by doctor, until a bad file comes; the one before it is still presented', async () => {
    const well = await doctor();
    assert.match(well.stdout, /^✓ web +https:\/\/127\.0\.0\.1:\d+, for DNS:localhost, DNS:lubeck/m);
    files.write(serving(), serving());
    let ill = well;
    await until(async () => {
      ill = await doctor();
      return ill.stdout.includes('web-certificate');
    }, 'doctor hears of the bad file');
    assert.match(
      ill.stdout,
      /^✗ daemon +trust\.web-certificate .*the private key does not match the first certificate/m,
    );
    assert.equal(ill.code, 10);
    assert.equal((await get('/')).status, 200);
    assert.match(site.log(), /cannot use the new web certificate; the previous one stays/);
  });
});

suite('a site that is started with a certificate', () => {
  const folder = temporaryFolder();
  const refused: Record<string, [(files: Place) => void, RegExp]> = {
    'that is not there': [() => undefined, /cannot read .*tls\.(crt|key): no such file/],
    'whose key is another': [
      (files) => files.write(serving(), serving()),
      /the private key does not match the first certificate/,
    ],
    'that has expired': [
      (files) => files.write(serving({ notAfterMs: Date.UTC(2026, 0, 1) })),
      /the certificate expired at 2026-01-01/,
    ],
    'without a name': [
      (files) => files.write(forge({ issuer: root, ca: false })),
      /has no subject alternative name/,
    ],
  };
  for (const [what, [prepare, reason]] of Object.entries(refused)) {
    test(`${what} does not start, and says why`, async () => {
      const files = place(join(folder, what.replaceAll(' ', '-')));
      prepare(files);
      const { code, stderr } = await hansa([
        'server',
        '--data-dir',
        join(folder, `site ${what}`),
        '--trust-domain',
        'lubeck.example',
        '--api',
        '127.0.0.1:0',
        '--metrics',
        'off',
        '--federation',
        'off',
        ...files.flags,
      ]);
      assert.notEqual(code, 0);
      assert.match(stderr, /Cannot start the web listener: /);
      assert.match(stderr, reason);
    });
  }

  test('that ends soon is warned of by doctor, running or not', async () => {
    const files = place(join(folder, 'soon'));
    files.write(serving({ notAfterMs: Date.now() + 3 * dayMs }));
    const site = await startDaemon(join(folder, 'site-soon'), files.flags);
    const ask = (): Promise<Ran> => hansa(['doctor', '--data-dir', site.dataDir, ...files.flags]);
    const running = await ask();
    await site.signal('SIGTERM');
    assert.match(running.stdout, /^! web +https:.*\(2 days\)$/m);
    assert.match((await ask()).stdout, /^! web +for localhost, lubeck\.example, valid until/m);
  });

  test('for another name than the one that clients use is a problem by doctor', async () => {
    const files = place(join(folder, 'other'));
    files.write(serving({ dnsNames: ['bruges.example'] }));
    const site = await startDaemon(join(folder, 'site-other'), files.flags);
    const { stdout } = await hansa(['doctor', '--data-dir', site.dataDir, ...files.flags]);
    await site.signal('SIGTERM');
    assert.match(stdout, /^✗ web +https:.* for DNS:bruges\.example, not for lubeck\.example$/m);
  });
});

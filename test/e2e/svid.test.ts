// `hansa svid` against a daemon: `mint` as the owner, and `watch` as a workload.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, execute, Follower, hansa, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const folder = temporaryFolder();
const dataDir = join(folder, 'lubeck');
const uid = process.getuid?.() ?? 0;
let daemon: Daemon;

const site = (...args: readonly string[]) => hansa([...args, '--data-dir', dataDir]);

async function applyEntry(name: string, extra = ''): Promise<void> {
  const manifest = `apiVersion: hansa.dev/v1alpha1
kind: WorkloadEntry
metadata: {name: ${name}}
spec:
  spiffeID: spiffe://lubeck.example/${name}
  selectors: ["unix:uid:${uid}"]
  ${extra}
`;
  const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', dataDir], {
    stdin: manifest,
  });
  assert.equal(code, 0, stderr);
}

suite('hansa svid', () => {
  before(async () => {
    daemon = await startDaemon(dataDir);
  });
  after(() => daemon.signal('SIGTERM'));

  test('mint issues what openssl believes by the bundle', async () => {
    const tls = join(folder, 'minted');
    const { code, stdout, stderr } = await site(
      'svid',
      'mint',
      'spiffe://lubeck.example/batch',
      '--ttl',
      '10m',
      '--write',
      tls,
    );
    assert.equal(code, 0, stderr);
    assert.match(stdout, /spiffe:\/\/lubeck\.example\/batch, valid until /);
    const certificate = new X509Certificate(readFileSync(join(tls, 'svid.pem')));
    assert.equal(certificate.subjectAltName, 'URI:spiffe://lubeck.example/batch');
    assert.ok(certificate.checkPrivateKey(createPrivateKey(readFileSync(join(tls, 'svid.key')))));
    assert.equal(statSync(join(tls, 'svid.key')).mode & 0o777, 0o600);
    const seconds = (certificate.validToDate.getTime() - Date.now()) / 1000;
    assert.ok(seconds > 500 && seconds <= 600);
    const verified = execFileSync(
      'openssl',
      ['verify', '-CAfile', join(tls, 'bundle.pem'), join(tls, 'svid.pem')],
      { encoding: 'utf8' },
    );
    assert.match(verified, /: OK/);
  });

  test('mint without a folder prints certificate, key and bundle', async () => {
    const { code, stdout } = await site('svid', 'mint', 'spiffe://lubeck.example/batch');
    assert.equal(code, 0);
    assert.deepEqual(stdout.match(/BEGIN [A-Z ]+/g), [
      'BEGIN CERTIFICATE',
      'BEGIN PRIVATE KEY',
      'BEGIN CERTIFICATE',
    ]);
    const events = await site('audit', 'list', '-o', 'json');
    assert.match(events.stdout, /"svid\.mint"/);
  });

  for (const [id, why] of [
    ['spiffe://lubeck.example/hansa/site', /reserved/],
    ['spiffe://lubeck.example/hansa/user/admin', /reserved/],
    ['spiffe://bruges.example/web', /identities of the form spiffe:\/\/lubeck\.example\/PATH/],
    ['spiffe://lubeck.example', /identities of/],
    ['web', /not a SPIFFE ID/],
  ] as const) {
    test(`mint refuses ${id}`, async () => {
      const { code, stdout, stderr } = await site('svid', 'mint', id);
      assert.notEqual(code, 0);
      assert.equal(stdout, '');
      assert.match(stderr, why);
    });
  }

  test('mint makes a JWT-SVID for an audience, which validate believes for it alone', async () => {
    const minted = await site('svid', 'mint', 'spiffe://lubeck.example/batch', '--audience', 'db');
    assert.equal(minted.code, 0, minted.stderr);
    assert.match(minted.stdout, /^eyJ[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const validate = (audience: string) =>
      hansa(['svid', 'validate', '--audience', audience, '--data-dir', dataDir], {
        stdin: minted.stdout,
      });
    const good = await validate('db');
    assert.equal(good.code, 0, good.stderr);
    assert.match(good.stdout, /^spiffe:\/\/lubeck\.example\/batch {3}JWT-SVID {3}until /);
    const bad = await validate('cache');
    assert.equal(bad.code, 11);
    assert.match(bad.stderr, /not for "cache".*audience; JWT-SVID §3\.2.*HANSA_JWT_INVALID/);
    const events = await site('audit', 'list', '-o', 'json');
    assert.match(events.stdout, /JWT-SVID for \[\\"db\\"\]/);
    assert.ok(!events.stdout.includes(minted.stdout.trim()));
  });

  test('mint refuses a JWT-SVID for an identity that nobody may have', async () => {
    for (const id of ['spiffe://lubeck.example/hansa/site', 'spiffe://bruges.example/web']) {
      const { code, stdout, stderr } = await site('svid', 'mint', id, '--audience', 'db');
      assert.equal(code, 7, stderr);
      assert.equal(stdout, '');
    }
  });

  test('validate judges certificates by the bundles of the site, and names the rule', async () => {
    const tls = join(folder, 'judged');
    await site('svid', 'mint', 'spiffe://lubeck.example/batch', '--write', tls);
    const good = await site('svid', 'validate', join(tls, 'svid.pem'), '-o', 'json');
    assert.equal(good.code, 0, good.stderr);
    assert.equal(
      (JSON.parse(good.stdout) as { spiffeId: string }).spiffeId,
      'spiffe://lubeck.example/batch',
    );
    const bad = await site('svid', 'validate', join(tls, 'bundle.pem'));
    assert.equal(bad.code, 11);
    assert.match(bad.stderr, /leaf-not-ca.*HANSA_CERTIFICATE_INVALID/);
  });

  test('validate takes no token from the command line, and no token without an audience', async () => {
    const { stdout } = await site('svid', 'mint', 'spiffe://lubeck.example/a', '--audience', 'db');
    const shown = await site('svid', 'validate', stdout.trim(), '--audience', 'db');
    assert.equal(shown.code, 2);
    assert.match(shown.stderr, /Every user of this machine/);
    assert.ok(!shown.stderr.includes(stdout.trim()));
    const without = await hansa(['svid', 'validate', '--data-dir', dataDir], { stdin: stdout });
    assert.equal(without.code, 2);
    assert.match(without.stderr, /add --audience/);
  });

  test('mint is refused to whoever is not the owner of the site', async () => {
    const token = join(folder, 'token');
    const { stdout } = await site('access', 'token', 'create', 'ci', '--role', 'editor');
    await execute('sh', ['-c', `umask 077; printf %s "$1" > "$2"`, 'sh', stdout.trim(), token]);
    const { code, stderr } = await hansa([
      'svid',
      'mint',
      'spiffe://lubeck.example/batch',
      '--site',
      daemon.endpoints.api,
      '--ca-file',
      join(dataDir, 'ca.pem'),
      '--token-file',
      token,
    ]);
    assert.equal(code, 7, stderr);
    assert.match(stderr, /only the owner of the site/);
  });

  test('watch is refused until an entry matches the process', async () => {
    const { code, stderr } = await site('svid', 'watch', '--once');
    assert.equal(code, 7, stderr);
    assert.match(stderr, new RegExp(`No identity is registered .*uid ${uid}`));
  });

  test('watch shows what the process gets, and every change of it', async () => {
    await applyEntry('web', 'ttlSeconds: 600');
    const once = await site('svid', 'watch', '--once', '-o', 'json');
    const { svids, jwtKeys } = JSON.parse(once.stdout) as {
      readonly svids: readonly { spiffeId: string }[];
      readonly jwtKeys: Readonly<Record<string, readonly string[]>>;
    };
    assert.equal(jwtKeys['lubeck.example']?.length, 1);
    assert.deepEqual(
      svids.map(({ spiffeId }) => spiffeId),
      ['spiffe://lubeck.example/web'],
    );
    const tls = join(folder, 'watched');
    const follower = new Follower(['svid', 'watch', '--data-dir', dataDir, '--write', tls]);
    await follower.until(/^spiffe:\/\/lubeck\.example\/web {3}until .*serial/);
    assert.match(readFileSync(join(tls, 'svid.key'), 'utf8'), /PRIVATE KEY/);
    await applyEntry('also');
    await follower.until(/^spiffe:\/\/lubeck\.example\/also/);
    await follower.interrupt();
  });

  test('watch removes the bundle of whom the site believes no more', async () => {
    await applyEntry('web');
    const tls = join(folder, 'left');
    mkdirSync(tls);
    const left = join(tls, 'federated.gone.example.pem');
    writeFileSync(left, '');
    writeFileSync(join(tls, 'other.pem'), '');
    const { code, stderr } = await site('svid', 'watch', '--once', '--write', tls);
    assert.equal(code, 0, stderr);
    assert.deepEqual(readdirSync(tls), ['bundle.pem', 'other.pem', 'svid.key', 'svid.pem']);
  });

  test('watch goes on after a restart of the site', async () => {
    await applyEntry('web');
    const follower = new Follower(['svid', 'watch', '--data-dir', dataDir, '-o', 'json']);
    const first = await follower.until(/"svids"/);
    assert.equal(await daemon.signal('SIGTERM'), 0);
    daemon = await startDaemon(dataDir);
    assert.notEqual(await follower.until(/"svids"/), first);
    await follower.interrupt();
  });

  test('watch finds the socket by the variable that every SPIFFE client reads', async () => {
    await applyEntry('web');
    const socket = join(dataDir, 'workload.sock');
    const env = { SPIFFE_ENDPOINT_SOCKET: `unix://${socket}` };
    const found = await hansa(['svid', 'watch', '--once'], { env });
    assert.equal(found.code, 0, found.stderr);
    const wrong = await hansa(['svid', 'watch', '--once'], {
      env: { SPIFFE_ENDPOINT_SOCKET: 'tcp://127.0.0.1:1' },
    });
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /unix:\/\/\/PATH/);
  });

  test('watch says what to do where no site answers', async () => {
    const { code, stderr } = await hansa(['svid', 'watch', '--once', '--data-dir', folder]);
    assert.equal(code, 8, stderr);
    assert.match(stderr, /workload\.sock does not answer\. Start the site/);
  });

  test('the site tells where the socket is', () => {
    const { workload } = JSON.parse(readFileSync(join(dataDir, 'endpoints.json'), 'utf8')) as {
      readonly workload?: string;
    };
    assert.equal(workload, join(dataDir, 'workload.sock'));
  });

  test('fetch prints a token of this process for an audience', async () => {
    await applyEntry('fetched');
    const socket = ['--socket', join(dataDir, 'workload.sock')];
    const id = ['--spiffe-id', 'spiffe://lubeck.example/fetched'];
    const one = await hansa(['svid', 'fetch', '--audience', 'db', ...id, ...socket]);
    assert.equal(one.code, 0, one.stderr);
    const validated = await hansa(
      ['svid', 'validate', '--audience', 'db', '-o', 'json', '--data-dir', dataDir],
      { stdin: one.stdout },
    );
    assert.equal(validated.code, 0, validated.stderr);
    assert.match(validated.stdout, /spiffe:\/\/lubeck\.example\/fetched/);
    const listed = await hansa(['svid', 'fetch', '--audience', 'db', '-o', 'json', ...socket]);
    const { svids } = JSON.parse(listed.stdout) as { svids: { spiffeId: string }[] };
    assert.ok(svids.some(({ spiffeId }) => spiffeId === 'spiffe://lubeck.example/fetched'));
  });

  test('fetch prints certificates without an audience, and refuses an identity without one', async () => {
    await applyEntry('fetched');
    const socket = ['--socket', join(dataDir, 'workload.sock')];
    const fetched = await hansa(['svid', 'fetch', '-o', 'json', ...socket]);
    assert.equal(fetched.code, 0, fetched.stderr);
    const { svids } = JSON.parse(fetched.stdout) as {
      svids: { spiffeId: string; certificate: string }[];
    };
    const found = svids.find(({ spiffeId }) => spiffeId === 'spiffe://lubeck.example/fetched');
    assert.match(new X509Certificate(found?.certificate ?? '').subjectAltName ?? '', /fetched/);
    const wrong = await hansa(['svid', 'fetch', '--spiffe-id', 'spiffe://x/y', ...socket]);
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /add --audience/);
  });

  test('watch runs a command whenever new files are in place', async () => {
    await applyEntry('reloaded');
    const tls = join(folder, 'reloaded');
    const runs = join(folder, 'runs');
    const command = `openssl x509 -in ${tls}/svid.pem -noout -serial >> ${runs}`;
    const args = ['svid', 'watch', '--data-dir', dataDir, '--write', tls, '--exec', command];
    const follower = new Follower(args);
    const lines = (): number =>
      existsSync(runs) ? readFileSync(runs, 'utf8').trim().split('\n').length : 0;
    try {
      await until(() => lines() >= 1);
      const first = lines();
      await applyEntry('reloaded', 'ttlSeconds: 600');
      await until(() => lines() > first);
    } finally {
      await follower.interrupt();
    }
  });

  for (const [args, why] of [
    [['--exec', 'true'], /--write/],
    [['--signal', 'HUP'], /--exec or --pid-file/],
    [['--write', 'x', '--exec', 'true', '--pid-file', 'y'], /not both/],
    [['--write', 'x', '--exec', 'true', '--once'], /--once/],
    [['--write', 'x', '--exec', 'true', '--signal', 'NOPE'], /not a signal/],
  ] as const) {
    test(`watch ${args.join(' ')} is refused`, async () => {
      const { code, stderr } = await site('svid', 'watch', ...args);
      assert.match(stderr, why);
      assert.equal(code, 2);
    });
  }
});

// Rotation of the authorities of a real site: as one operation, step by step, and as an emergency.
// One test has a peer that sends receipts, another an upstream authority.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { RotationStatus } from '../../src/trust/rotation/rotation.ts';
import { type Daemon, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';
import { PeeringSite, startSites } from './peering-pair.ts';
import { until } from './until.ts';

const phases = ({ authorities }: RotationStatus, kind: string): string =>
  authorities
    .filter((one) => one.kind === kind)
    .map(({ state }) => state)
    .join(' ');

suite('two peers, one of which rotates', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;

  before(async () => {
    [lubeck, bruges] = (await startSites(['--ca-spread-seconds', '1'], 'lubeck', 'bruges')) as [
      PeeringSite,
      PeeringSite,
    ];
    const accepted = await bruges.accept(await lubeck.invite(['--for', bruges.name]));
    assert.equal(accepted.code, 0, accepted.stderr);
    await lubeck.until(bruges.name, 'active');
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop()]));

  const rotate = async (...args: readonly string[]): Promise<RotationStatus> =>
    JSON.parse(await lubeck.must(['trust', 'rotate', ...args, '-o', 'json'])) as RotationStatus;
  const caFile = (): string => readFileSync(join(lubeck.daemon.dataDir, 'ca.pem'), 'utf8');
  const fingerprints = (pem: string): string[] =>
    (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map((text) =>
      new X509Certificate(text).fingerprint256.replaceAll(':', '').toLowerCase(),
    );

  /** Peers go on to hear of each other, with what signs now, and stay peers. */
  const heardAgain = async (): Promise<void> => {
    const seenAt = async (): Promise<string | undefined> =>
      (await bruges.peer(lubeck.name))?.lastSeen;
    for (let times = 0; times < 2; times++) {
      const last = await seenAt();
      await until(async () => (await seenAt()) !== last, 'a heartbeat is heard');
    }
    await lubeck.until(bruges.name, 'active');
    await bruges.until(lubeck.name, 'active');
  };

  test('the file of authorities follows one that is prepared at once', async () => {
    const status = await rotate('prepare');
    assert.equal(phases(status, 'x509'), 'active prepared');
    assert.deepEqual(
      fingerprints(caFile()),
      status.authorities.filter(({ kind }) => kind === 'x509').map(({ id }) => id),
    );
  });

  test('a rotation ends when the peer has confirmed, and the peers stay peers', async () => {
    const status = await rotate();
    assert.equal(phases(status, 'x509'), 'old active');
    assert.deepEqual(status.unconfirmed, []);
    const log = await lubeck.must(['audit', 'list', '--verb', 'authority.activate']);
    assert.match(log, /authority\.activate/);
    assert.doesNotMatch(log, /not confirmed/);
    await rotate('taint');
    await lubeck.until(bruges.name, 'active');
    await bruges.until(lubeck.name, 'active');
    const gone = await rotate('revoke');
    assert.equal(phases(gone, 'x509'), 'active');
    assert.equal(fingerprints(caFile()).length, 1);
    await heardAgain();
  });

  test('JWT keys rotate by themselves apart', async () => {
    const status = await rotate('--jwt');
    assert.equal(phases(status, 'jwt'), 'old active');
    assert.equal(phases(status, 'x509'), 'active');
    const bundle = JSON.parse(await lubeck.must(['trust', 'bundle', 'show'])) as {
      readonly keys: readonly { readonly use: string }[];
    };
    assert.equal(bundle.keys.filter(({ use }) => use === 'jwt-svid').length, 2);
  });

  test('an emergency with an authority that the peer holds loses nobody', async () => {
    await rotate('prepare');
    await until(async () => (await rotate('status')).unconfirmed.length === 0, 'it is confirmed');
    const replaced = await rotate('--emergency');
    assert.equal(phases(replaced, 'x509'), 'active');
    await heardAgain();
  });

  test('what the phases do not allow is refused, and says what is possible', async () => {
    for (const [args, code, words] of [
      [['activate'], 5, /none is prepared.*HANSA_AUTHORITY_STATE/s],
      [['revoke'], 5, /none is old or tainted/],
      [['taint', 'ffffffffffff'], 4, /There is no authority "ffffffffffff"/],
      [['--fresh'], 2, /--fresh needs --emergency/],
      [['prepare', '--emergency'], 2, /not with prepare/],
    ] as const) {
      const ran: Ran = await lubeck.run(['trust', 'rotate', ...args]);
      assert.equal(ran.code, code, ran.stderr);
      assert.match(ran.stderr, words);
    }
  });

  test('the table tells phases and what is waited for', async () => {
    const table = await lubeck.must(['trust', 'rotate', 'status']);
    assert.match(table, /^x509 +[0-9a-f]{16} +active +\S+ ago +in 90d/m);
    assert.match(
      table,
      /^x509: no step is due until \S+; then the site prepares the next authority\.$/m,
    );
    assert.match(table, /^jwt: no step is due until \S+; then /m);
  });

  test('after another emergency the status names who has to be given the bundle', async () => {
    const status = await rotate('--emergency', '--fresh');
    assert.deepEqual(status.unconfirmed, [bruges.name]);
    await lubeck.until(bruges.name, 'degraded');
  });
});

test('a rotation says that a peer rejects the site, and goes on without one that suspended it', async (t) => {
  const sites = await startSites(['--ca-spread-seconds', '1'], 'lubeck', 'bruges');
  const [lubeck, bruges] = sites as [PeeringSite, PeeringSite];
  t.after(() => Promise.all(sites.map((site) => site.stop())));
  await bruges.accept(await lubeck.invite(['--for', bruges.name]));
  await lubeck.until(bruges.name, 'active');
  await bruges.until(lubeck.name, 'active');
  await bruges.must(['peer', 'suspend', lubeck.name, '--yes']);
  const status = async () =>
    JSON.parse(await lubeck.must(['trust', 'rotate', 'status', '-o', 'json'])) as RotationStatus;
  await lubeck.must(['trust', 'rotate', 'prepare']);
  await until(async () => (await status()).rejectedBy.includes(bruges.name), 'it rejects the site');
  assert.match(
    await lubeck.must(['trust', 'rotate', 'status']),
    /^bruges\.example rejects this site: it suspended or revoked it/m,
  );
  // The deadline for receipts is a day.
  await lubeck.must(['trust', 'rotate']);
  const done = await status();
  assert.equal(phases(done, 'x509'), 'old active');
  assert.deepEqual(done.rotation[0]?.wentOnWithout, [bruges.name]);
});

test('a step by hand waits for nobody, and names who may be lost', async (t) => {
  const folder = temporaryFolder();
  const site = new PeeringSite(folder, 'wismar');
  t.after(() => site.stop());
  await site.start();
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = { use: 'jwt-svid', kid: 'k', ...publicKey.export({ format: 'jwk' }) };
  const federation = {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'SPIFFEFederation',
    metadata: { name: 'spire.example' },
    spec: { bundleSource: { static: { bundle: JSON.stringify({ keys: [key] }) } } },
  };
  await site.must(['apply', '-f', '-'], JSON.stringify(federation));
  await site.must(['trust', 'rotate', 'prepare']);
  const { code, stderr } = await site.run(['trust', 'rotate', 'activate']);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /These may not hold it: spire\.example\./);
});

suite('a site below an authority of its organisation', () => {
  const folder = temporaryFolder();
  const openssl = (...args: string[]): string =>
    execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
  let daemon: Daemon | undefined;
  after(() => daemon?.signal('SIGTERM'));

  const flags = (cert: string, key: string): string[] => [
    '--ca-upstream-cert-file',
    join(folder, cert),
    '--ca-upstream-key-file',
    join(folder, key),
    '--ca-upstream-bundle-file',
    join(folder, 'root.pem'),
    '--ca-key-type',
    'ec-p384',
  ];

  before(() => {
    const extensions =
      'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n';
    writeFileSync(join(folder, 'ca.ext'), extensions);
    writeFileSync(join(folder, 'short.ext'), extensions.replace('CA:TRUE', 'CA:TRUE,pathlen:0'));
    const subject = (name: string): string[] => ['-subj', `/O=Harbour/CN=${name}`];
    const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
    openssl(
      'req',
      '-x509',
      ...ec,
      '-keyout',
      'root.key',
      '-out',
      'root.pem',
      '-days',
      '3650',
      ...subject('root'),
    );
    for (const [name, extension] of [
      ['issuing', 'ca.ext'],
      ['short', 'short.ext'],
    ] as const) {
      openssl('req', ...ec, '-keyout', `${name}.key`, '-out', `${name}.csr`, ...subject(name));
      openssl(
        'x509',
        '-req',
        '-in',
        `${name}.csr`,
        '-CA',
        'root.pem',
        '-CAkey',
        'root.key',
        '-CAcreateserial',
        '-days',
        '365',
        '-extfile',
        extension,
        '-out',
        `${name}.pem`,
      );
    }
  });

  test('openssl verifies what it issues by the root, and a rotation keeps the root', async () => {
    const dataDir = join(folder, 'lubeck');
    daemon = await startDaemon(dataDir, flags('issuing.pem', 'issuing.key'));
    const site = (...args: readonly string[]) => hansa([...args, '--data-dir', dataDir]);
    const verify = async (name: string): Promise<void> => {
      const tls = join(folder, name);
      const minted = await site('svid', 'mint', 'spiffe://lubeck.example/web', '--write', tls);
      assert.equal(minted.code, 0, minted.stderr);
      const chain = join(tls, 'svid.pem');
      assert.equal(readFileSync(chain, 'utf8').match(/BEGIN/g)?.length, 3);
      const told = openssl('verify', '-CAfile', 'root.pem', '-untrusted', chain, chain);
      assert.match(told, /: OK$/m);
      assert.equal(
        new X509Certificate(readFileSync(join(tls, 'bundle.pem'))).fingerprint256,
        new X509Certificate(readFileSync(join(folder, 'root.pem'))).fingerprint256,
      );
    };
    await verify('first');
    for (const step of ['prepare', 'activate']) {
      const { code, stderr } = await site('trust', 'rotate', step);
      assert.equal(code, 0, stderr);
      assert.doesNotMatch(stderr, /These may not hold it/);
    }
    await verify('second');
    const emergency = await site('trust', 'rotate', '--emergency', '--yes');
    assert.equal(emergency.code, 0, emergency.stderr);
    assert.match(emergency.stderr, /Peers verify this site against the upstream root/);
    await verify('third');
    const judged = await site('svid', 'validate', join(folder, 'second', 'svid.pem'));
    assert.notEqual(judged.code, 0);
    assert.match(judged.stderr, /not or no longer an authority/);
  });

  test('it is a peer like any other, before a rotation and after', async (t) => {
    const below = new PeeringSite(folder, 'visby', [
      ...flags('issuing.pem', 'issuing.key'),
      '--ca-spread-seconds',
      '1',
    ]);
    const other = new PeeringSite(folder, 'reval');
    t.after(() => Promise.all([below.stop(), other.stop()]));
    await Promise.all([below.start(), other.start()]);
    const accepted = await other.accept(await below.invite(['--for', other.name]));
    assert.equal(accepted.code, 0, accepted.stderr);
    await below.until(other.name, 'active');
    await below.must(['trust', 'rotate']);
    await below.must(['trust', 'rotate', 'taint']);
    await other.stop('SIGKILL');
    await below.until(other.name, 'degraded');
    await other.start();
    await below.until(other.name, 'active');
    await other.until(below.name, 'active');
  });

  for (const [what, cert, key, words] of [
    ['allows nothing that signs below it', 'short.pem', 'short.key', /short\.pem.*path-length/s],
    ['has another key', 'issuing.pem', 'short.key', /does not match its first certificate/],
  ] as const) {
    test(`a site does not start where that authority ${what}`, async () => {
      await assert.rejects(
        startDaemon(join(folder, `none-${cert}-${key}`), flags(cert, key)),
        words,
      );
    });
  }
});

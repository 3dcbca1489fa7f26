import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { askedVersion } from '../commands/credential.ts';
import {
  type CachedCredential,
  cacheFolder,
  credentialFile,
  parseCredential,
  readCredential,
  renderCredential,
  writeCredential,
} from './credential-cache.ts';
import { renewAtMs } from './user-certificate.ts';

const credential: CachedCredential = {
  user: 'alice',
  spiffeId: 'spiffe://lubeck.example/hansa/user/alice',
  issuedAtMs: 0,
  notAfterMs: 3_600_000,
  privateKey: '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n',
  certificate: '-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n',
};
const key = { target: '/data/admin.sock', caDigest: 'c', user: '' };

function temporaryFolder(context: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-cache-'));
  context.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('what was kept comes back, from a file that nobody else can read', (context) => {
  const folder = join(temporaryFolder(context), 'deep', 'cache');
  const file = writeCredential(folder, key, credential);
  assert.equal(file, credentialFile(folder, key));
  assert.deepEqual(readCredential(file ?? ''), credential);
  assert.equal(statSync(file ?? '').mode % 0o1000, 0o600);
  assert.equal(statSync(folder).mode % 0o1000, 0o700);
  // A second one replaces it and leaves nothing behind.
  writeCredential(folder, key, { ...credential, user: 'bob' });
  assert.equal(readCredential(file ?? '')?.user, 'bob');
  assert.equal(readdirSync(folder).length, 1);
});

test('another site, authority or user has another file', () => {
  const files = [
    key,
    { ...key, target: 'https://lubeck.example' },
    { ...key, caDigest: 'd' },
    { ...key, user: 'alice' },
  ].map((one) => credentialFile('/cache', one));
  assert.equal(new Set(files).size, files.length);
});

test('a file that others could read or have put there is not used', (context) => {
  const folder = temporaryFolder(context);
  const file = writeCredential(folder, key, credential) ?? '';
  chmodSync(file, 0o640);
  assert.equal(readCredential(file), undefined);
  chmodSync(file, 0o600);
  assert.ok(readCredential(file));
  const link = join(folder, 'link.pem');
  symlinkSync(file, link);
  assert.equal(readCredential(link), undefined);
  assert.equal(readCredential(join(folder, 'none.pem')), undefined);
});

test('nothing is kept in a folder that others can enter', (context) => {
  const folder = temporaryFolder(context);
  chmodSync(folder, 0o755);
  assert.equal(writeCredential(folder, key, credential), undefined);
  assert.deepEqual(readdirSync(folder), []);
});

test('a file that is not whole, or not ours, is as good as none', (context) => {
  const text = renderCredential(credential);
  assert.deepEqual(parseCredential(text), credential);
  const folder = temporaryFolder(context);
  for (const bad of [
    '',
    'x',
    text.slice(0, 20),
    text.slice(0, text.indexOf('-----BEGIN CERTIFICATE-----')),
    text.replace('hansa credential', 'other credential'),
    text.replace('{', '['),
    text.replace('3600000', '"soon"'),
  ]) {
    assert.equal(parseCredential(bad), undefined, bad);
    const file = join(folder, 'bad.pem');
    writeFileSync(file, bad, { mode: 0o600 });
    assert.equal(readCredential(file), undefined);
  }
});

test('the cache is below XDG_CACHE_HOME or the home folder, where there is one', () => {
  assert.equal(cacheFolder({ XDG_CACHE_HOME: '/x', HOME: '/h' }), '/x/hansa/credentials');
  assert.equal(cacheFolder({ XDG_CACHE_HOME: 'x', HOME: '/h' }), '/h/.cache/hansa/credentials');
  assert.equal(cacheFolder({ HOME: '/h' }), '/h/.cache/hansa/credentials');
  assert.equal(cacheFolder({ HOME: '' }), undefined);
  assert.equal(cacheFolder({}), undefined);
});

test('a certificate is renewed when a fifth of its life is left, and a minute at least', () => {
  assert.equal(renewAtMs(credential), 2_880_000);
  assert.equal(renewAtMs({ ...credential, notAfterMs: 120_000 }), 60_000);
  assert.equal(renewAtMs({ ...credential, notAfterMs: 30_000 }), 0);
});

test('kubectl gets the version that it asked for, of those that exist', () => {
  const asked = (apiVersion: string): string => askedVersion(JSON.stringify({ apiVersion }));
  assert.equal(
    asked('client.authentication.k8s.io/v1beta1'),
    'client.authentication.k8s.io/v1beta1',
  );
  for (const info of [undefined, '', '{', 'null', '{"apiVersion":5}', '{"apiVersion":"x/v9"}'])
    assert.equal(askedVersion(info), 'client.authentication.k8s.io/v1');
});

// A relying party that knows OpenID Connect and nothing of SPIFFE verifies JWT-SVIDs of a site: it
// finds the keys by discovery on the web listener, with go-oidc.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { missingTools, requireTool } from './tool.ts';
import { makeWebPki, type WebPki } from './web-pki.ts';

const issuer = 'https://oidc.lubeck.example/tokens';

suite('an OpenID relying party', { skip: await missingTools('oidc') }, () => {
  let pki: WebPki;
  let stranger: WebPki;
  let site: Daemon;
  let judge: string;

  before(async () => {
    judge = await requireTool('oidc');
    const folder = temporaryFolder();
    for (const name of ['pki', 'stranger']) mkdirSync(join(folder, name));
    pki = makeWebPki(join(folder, 'pki'), 'oidc.lubeck.example');
    stranger = makeWebPki(join(folder, 'stranger'), 'oidc.lubeck.example');
    site = await startDaemon(join(folder, 'lubeck'), [
      '--web',
      '127.0.0.1:0',
      '--serving-cert-cert-file',
      pki.certificateFile,
      '--serving-cert-key-file',
      pki.keyFile,
      '--jwt-issuer',
      issuer,
    ]);
  });
  after(() => site?.signal('SIGTERM'));

  const run = async (...args: readonly string[]): Promise<string> => {
    const ran = await hansa([...args, '--data-dir', site.dataDir]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  const mint = (audience = 'reports'): Promise<string> =>
    run('svid', 'mint', 'spiffe://lubeck.example/batch', '--audience', audience);
  const verify = (
    token: string,
    { audience = 'reports', from = issuer, caFile = pki.rootFile } = {},
  ): Promise<Verified> => {
    const { web = '' } = site.endpoints as unknown as { readonly web?: string };
    return judged(judge, [from, audience, caFile, new URL(web).host], token);
  };

  test('verifies a JWT-SVID by the keys that it discovers', async () => {
    const { code, stdout, stderr } = await verify(await mint());
    assert.equal(code, 0, stderr);
    const { expiry, ...rest } = JSON.parse(stdout) as { readonly expiry: number };
    assert.deepEqual(rest, {
      issuer,
      subject: 'spiffe://lubeck.example/batch',
      audience: ['reports'],
    });
    assert.ok(expiry > Date.now() / 1000);
  });

  test('refuses one for another audience', async () => {
    const { code, stderr } = await verify(await mint('db'));
    assert.equal(code, 1);
    assert.match(stderr, /expected audience "reports" got \["db"\]/);
  });

  test('refuses one whose claims were changed', async () => {
    const [head, payload = '', signature] = (await mint()).trim().split('.');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object;
    const changed = Buffer.from(
      JSON.stringify({ ...claims, sub: 'spiffe://lubeck.example/admin' }),
    ).toString('base64url');
    const { code, stderr } = await verify([head, changed, signature].join('.'));
    assert.equal(code, 1);
    assert.match(stderr, /failed to verify signature/);
  });

  test('finds nothing of another issuer, and believes no other certificate', async () => {
    const elsewhere = await verify(await mint(), { from: 'https://oidc.lubeck.example' });
    assert.equal(elsewhere.code, 1);
    assert.match(elsewhere.stderr, /discovery: 404/);
    const untrusted = await verify(await mint(), { caFile: stranger.rootFile });
    assert.equal(untrusted.code, 1);
    assert.match(untrusted.stderr, /certificate signed by unknown authority/);
  });

  test('verifies what a new key signs, and what the old one signed', async () => {
    const old = await mint();
    await run('trust', 'rotate', 'prepare', '--jwt');
    await run('trust', 'rotate', 'activate', '--jwt');
    const fresh = await mint();
    assert.notEqual(old.split('.')[0], fresh.split('.')[0], 'the same key signed both');
    for (const token of [old, fresh]) {
      const { code, stderr } = await verify(token);
      assert.equal(code, 0, stderr);
    }
  });
});

interface Verified {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function judged(program: string, args: readonly string[], token: string): Promise<Verified> {
  const child = spawn(program, args);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  child.stdin.end(token);
  const code = await new Promise<number>((resolve) => {
    child.once('close', (ended) => resolve(ended ?? 1));
  });
  return { code, stdout, stderr };
}

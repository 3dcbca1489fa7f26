// A site with an upstream authority: its workloads present an intermediate certificate, and
// go-spiffe verifies them with the upstream root, as client and as server, also during a rotation
// of the intermediate.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { credentialOf, forgeRoot } from '../../src/core/identity/x509/test-forge.ts';
import { type Daemon, execute, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { missingTools, requireTool } from './tool.ts';
import { Calls, LineReader } from './workload-site.ts';

const skip = await missingTools('go-spiffe');
const db = 'spiffe://lubeck.example/db';

suite('go-spiffe as a workload of a site below another authority', { skip }, () => {
  const folder = temporaryFolder();
  const running: ChildProcess[] = [];
  let site: Daemon;

  before(async () => {
    const { privateKey: key } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const { certificateChain, privateKey } = credentialOf(forgeRoot('lubeck.example', { key }));
    const [certificateFile, keyFile] = [join(folder, 'root.pem'), join(folder, 'root.key')];
    writeFileSync(certificateFile, certificateChain);
    writeFileSync(keyFile, privateKey, { mode: 0o600 });
    site = await startDaemon(join(folder, 'lubeck'), [
      '--ca-upstream-cert-file',
      certificateFile,
      '--ca-upstream-key-file',
      keyFile,
      '--ca-key-type',
      'ec-p384',
    ]);
    const entry = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'WorkloadEntry',
      metadata: { name: 'db' },
      spec: { spiffeID: db, selectors: [`unix:uid:${process.getuid?.() ?? 0}`] },
    };
    const stdin = JSON.stringify(entry);
    const ran = await hansa(['apply', '-f', '-', '--data-dir', site.dataDir], { stdin });
    assert.equal(ran.code, 0, ran.stderr);
  });
  after(async () => {
    for (const child of running) child.kill('SIGKILL');
    await site?.signal('SIGTERM');
  });

  const env = () => ({ SPIFFE_ENDPOINT_SOCKET: `unix://${join(site.dataDir, 'workload.sock')}` });
  const follow = async (...args: readonly string[]): Promise<LineReader> => {
    const child = spawn(await requireTool('go-spiffe'), args, {
      env: { ...process.env, ...env() },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    running.push(child);
    return new LineReader(child);
  };

  test('is given the root alone for a bundle', async () => {
    const { code, stdout, stderr } = await execute(await requireTool('go-spiffe'), ['fetch'], {
      env: env(),
    });
    assert.equal(code, 0, stderr);
    const { bundles } = JSON.parse(stdout) as { readonly bundles: object };
    assert.deepEqual(bundles, { 'lubeck.example': 1 });
  });

  test('calls another without a failure while the intermediate is replaced', async () => {
    const server = await follow('server', '127.0.0.1:0', db);
    const { address } = await server.next<{ readonly address: string }>();
    const calls = await Calls.begin(await follow('calls', `https://${address}/`, db));
    const old = calls.authorities;
    for (const step of ['prepare', 'activate', 'taint']) {
      const ran = await hansa(['trust', 'rotate', step, '--data-dir', site.dataDir, '--yes']);
      assert.equal(ran.code, 0, ran.stderr);
    }
    await calls.untilAnother('server', old);
    await calls.untilAnother('client', old);
    const ran = await hansa(['trust', 'rotate', 'revoke', '--data-dir', site.dataDir, '--yes']);
    assert.equal(ran.code, 0, ran.stderr);
    assert.deepEqual((await calls.finish()).failures, []);
  });
});

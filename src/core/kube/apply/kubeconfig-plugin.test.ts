import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { after, test } from 'node:test';
import { systemClock } from '../../clock/system.ts';
import { loadKubeconfig } from '../load-kubeconfig.ts';
import { ExecCredentialSource } from './exec-credential.ts';

const folder = mkdtempSync(join(tmpdir(), 'hansa-plugin-'));
after(() => rmSync(folder, { recursive: true }));

test('a kubeconfig runs its plugin when a credential is needed, not before', async () => {
  const ran = join(folder, 'ran');
  const answer = {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: { token: 'from-plugin' },
  };
  const exec = {
    apiVersion: answer.apiVersion,
    command: '/bin/sh',
    args: ['-c', `touch ${ran}; echo '${JSON.stringify(answer)}'`],
    interactiveMode: 'Never',
  };
  const config = {
    kind: 'Config',
    'current-context': 'plugin',
    contexts: [{ name: 'plugin', context: { cluster: 'one', user: 'one' } }],
    clusters: [{ name: 'one', cluster: { server: 'https://one.example' } }],
    users: [{ name: 'one', user: { exec } }],
  };
  writeFileSync(join(folder, 'config'), JSON.stringify(config));
  const { credentials } = loadKubeconfig(
    { file: 'config' },
    {
      env: { PATH: '/usr/bin:/bin' },
      cwd: folder,
      clock: systemClock,
      stdin: {},
      stderr: new Writable({ write: (_chunk, _encoding, done) => done() }),
    },
  );
  assert.ok(credentials instanceof ExecCredentialSource);
  assert.throws(() => rmSync(ran), /ENOENT/);
  assert.deepEqual(await credentials.current(), { type: 'token', token: 'from-plugin' });
  rmSync(ran);
});

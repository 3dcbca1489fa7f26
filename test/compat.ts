// `make compat`: runs the tests of a member's manifests, RBAC and fenced writes, and the life of a cluster set, on
// the oldest version of Kubernetes that Hansa supports, and on the oldest one with general admission policies. It
// builds their API servers first, which takes minutes, so `make test` does not run them.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { ensureTool, olderApiserver, olderVersionVariable } from './tools/build.ts';

const root = join(import.meta.dirname, '..');
const versions = ['1.27', '1.30'];
const files = [
  'test/interop/league-policies.test.ts',
  'test/interop/league-principals.test.ts',
  'test/interop/league-terms.test.ts',
  // Not in `make test`, whose other tests show the same on the newest version.
  'test/interop/league-life.ts',
];

// The tests skip themselves without these, which would look like success.
for (const name of ['etcd', 'kubectl', 'kube-apiserver'] as const) {
  const tool = await ensureTool(name, (line) => console.error(line));
  if (tool.path !== undefined) continue;
  console.error(`compat  ✗ ${name}: ${tool.reason}`);
  process.exit(1);
}

for (const version of versions) {
  const tool = await ensureTool(olderApiserver(version), (line) => console.error(line));
  if (tool.path === undefined) {
    console.error(`compat  ✗ Kubernetes ${version}: ${tool.reason}`);
    process.exitCode = 1;
    continue;
  }
  console.error(`compat  Kubernetes ${version}`);
  const code = await test({ ...process.env, [olderVersionVariable]: version });
  console.error(`compat  ${code === 0 ? '✓' : '✗'} Kubernetes ${version}`);
  if (code !== 0) process.exitCode = 1;
}

/** The spec reporter prints each skipped test with its reason. */
function test(env: NodeJS.ProcessEnv): Promise<number> {
  const flags = ['--disable-warning=ExperimentalWarning', '--test', '--test-concurrency=1'];
  const child = spawn(process.execPath, [...flags, ...files], { cwd: root, env, stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve(code ?? 1));
  });
}

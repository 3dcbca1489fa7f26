// Checks that a process of `make unit` cannot start other processes.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { withoutProcesses } from './test-classes.ts';

function node(code: string): { readonly status: number | null; readonly stderr: string } {
  const args = [...withoutProcesses, '--input-type=module', '--eval', code];
  return spawnSync(process.execPath, args, { encoding: 'utf8' });
}

for (const [what, code] of [
  ['an import', "import { spawn } from 'node:child_process'; spawn('true', []);"],
  ['another name', "import * as all from 'child_process'; all.execFileSync('true');"],
  ['a module of Node', "process.getBuiltinModule('node:child_process').fork('true');"],
  [
    'require',
    "import { createRequire } from 'node:module'; createRequire('/')('child_process').exec('true');",
  ],
] as const) {
  test(`a unit test that starts a process by ${what} fails and is told what to do`, () => {
    const { status, stderr } = node(code);
    assert.equal(status, 1);
    assert.match(stderr, /Cannot start true: make unit starts no programs\. Import/);
  });
}

test('a unit test that starts none is as free as ever', () => {
  const { status, stderr } = node(
    "new (await import('node:worker_threads')).Worker('0', { eval: true });",
  );
  assert.equal(status, 0, stderr);
});

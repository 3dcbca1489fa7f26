import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { ensureTool, failedVariable, patched, requiredVersion, toolNames } from './build.ts';

test('the version of a program is the one that go.mod requires', () => {
  const goMod =
    'module x\n\nrequire k8s.io/kubernetes v1.36.3\n\nrequire (\n\tk8s.io/api v0.36.3 // indirect\n)\n';
  assert.equal(requiredVersion(goMod, 'k8s.io/kubernetes'), 'v1.36.3');
  assert.equal(requiredVersion(goMod, 'k8s.io/api'), 'v0.36.3');
  assert.throws(() => requiredVersion(goMod, 'k8s.io/none'), /does not require/);
});

test('a patch is inserted before its texts, which must be there once each', () => {
  const insertions = [
    { before: 'b\n', text: '$&\n' },
    { before: 'c\n', text: 'x\n' },
  ];
  const patch = { file: 'a.go', insertions };
  assert.equal(patched('a\nb\nc\n', patch), 'a\n$&\nb\nx\nc\n');
  for (const text of ['a\n', 'b\n', 'b\nb\nc\n']) {
    assert.throws(() => patched(text, patch), /a\.go does not have this text once/);
  }
});

function withPath(t: TestContext, path: string): void {
  const before = process.env['PATH'];
  t.after(() => {
    process.env['PATH'] = before;
  });
  process.env['PATH'] = path;
}

test('a SPIRE on the PATH is used in place of a built one', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-tools-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const program = join(folder, 'spire-server');
  writeFileSync(program, '#!/bin/sh\n');
  chmodSync(program, 0o755);
  withPath(t, folder);
  assert.equal((await ensureTool('spire-server')).path, program);
});

test('a folder, or a file that cannot be run, is no program on the PATH', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-tools-'));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'spire-server'), '');
  mkdirSync(join(folder, 'spire-agent'));
  withPath(t, folder);
  for (const name of ['spire-server', 'spire-agent'] as const) {
    const { path } = await ensureTool(name);
    assert.ok(path === undefined || !path.startsWith(folder), path);
  }
});

test('a program that is not built and could not be is missing with its reason', async (t) => {
  const before = process.env[failedVariable];
  t.after(() => {
    if (before === undefined) delete process.env[failedVariable];
    else process.env[failedVariable] = before;
  });
  const reasons = Object.fromEntries(toolNames.map((name) => [name, 'no network here']));
  process.env[failedVariable] = JSON.stringify(reasons);
  for (const name of toolNames) {
    const tool = await ensureTool(name);
    // One that is there is used, whatever a later build said.
    if (tool.path === undefined) assert.equal(tool.reason, 'no network here');
  }
});

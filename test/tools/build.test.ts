import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ensureTool, failedVariable, requiredVersion, toolNames } from './build.ts';

test('the version of a program is the one that go.mod requires', () => {
  const goMod =
    'module x\n\nrequire k8s.io/kubernetes v1.36.3\n\nrequire (\n\tk8s.io/api v0.36.3 // indirect\n)\n';
  assert.equal(requiredVersion(goMod, 'k8s.io/kubernetes'), 'v1.36.3');
  assert.equal(requiredVersion(goMod, 'k8s.io/api'), 'v0.36.3');
  assert.throws(() => requiredVersion(goMod, 'k8s.io/none'), /does not require/);
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

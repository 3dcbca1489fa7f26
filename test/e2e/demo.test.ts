// Runs the demos. Each demo checks every line that it prints.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { missingTools } from '../interop/tool.ts';
import { execute, repository } from './daemon.ts';
import { whyNoHosts } from './separate-host.ts';

const withoutClusters =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kubectl',
    'kube-apiserver',
    'kube-controller-manager',
    'kwok',
    'kube-proxy',
    'coredns',
  ));

const withoutSpire =
  whyNoHosts() ||
  (await missingTools(
    'etcd',
    'kubectl',
    'kube-apiserver',
    'kube-controller-manager',
    'spire-server',
    'spire-agent',
    'go-spiffe',
  ));

/** The steps by title, in order; what was proved differs from run to run. */
function titles(text: string): string[] {
  return [...text.matchAll(/^ ?\d+ {2}(\S.*?) {2,}\S/gm)].map(([, title = '']) => title);
}

suite('the demo', () => {
  test('of three sites is true in every step, and the README shows these steps', async () => {
    const { code, stdout, stderr } = await execute(process.execPath, ['test/e2e/demo.ts']);
    assert.equal(code, 0, `${stdout}${stderr}`);
    const told = titles(stdout);
    assert.ok(told.length >= 10, stdout);
    assert.deepEqual(titles(readFileSync(join(repository, 'README.md'), 'utf8')), told);
  });

  test('of one site is true in every step', async () => {
    const { code, stdout, stderr } = await execute(process.execPath, ['test/e2e/demo-site.ts']);
    assert.equal(code, 0, `${stdout}${stderr}`);
    assert.ok(titles(stdout).length >= 10, stdout);
  });

  test('of three clusters is true in every step', { skip: withoutClusters }, async () => {
    const { code, stdout, stderr } = await execute(process.execPath, ['test/e2e/demo-clusters.ts']);
    assert.equal(code, 0, `${stdout}${stderr}`);
    assert.ok(titles(stdout).length >= 10, stdout);
  });

  test('of SPIRE servers is true in every step', { skip: withoutSpire }, async () => {
    const { code, stdout, stderr } = await execute(process.execPath, ['test/e2e/demo-spire.ts']);
    assert.equal(code, 0, `${stdout}${stderr}`);
    assert.ok(titles(stdout).length >= 10, stdout);
  });
});

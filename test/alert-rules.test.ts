// Checks the alert rules in deploy/prometheus with promtool, and that a site exposes every metric they
// use: a rule over a renamed metric would never fire.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';

const repository = join(import.meta.dirname, '..');
const folder = join(repository, 'deploy', 'prometheus');
const rules = join(folder, 'hansa.rules.yaml');

const hasPromtool = (process.env['PATH'] ?? '')
  .split(':')
  .some((path) => existsSync(join(path, 'promtool')));
const skip = hasPromtool ? false : 'SKIPPED: there is no promtool on the PATH';

async function promtool(...args: readonly string[]): Promise<string> {
  // It finds fault on standard output as well as on standard error.
  const { stdout, stderr } = await promisify(execFile)('promtool', args, { cwd: folder }).catch(
    (error: unknown) => error as { readonly stdout: string; readonly stderr: string },
  );
  return stdout + stderr;
}

describe('the alert rules', () => {
  test('are rules', { skip }, async () => {
    assert.match(await promtool('check', 'rules', rules), /SUCCESS: \d+ rules found/);
  });

  test('raise what they are to raise, and nothing else', { skip }, async () => {
    const said = await promtool('test', 'rules', join(folder, 'hansa.rules.test.yaml'));
    assert.match(said, /SUCCESS/);
    assert.doesNotMatch(said, /FAILED/);
  });

  test('have a test for each alert', () => {
    const tests = readFileSync(join(folder, 'hansa.rules.test.yaml'), 'utf8');
    const alerts = [...readFileSync(rules, 'utf8').matchAll(/- alert: (\w+)/g)].map(
      ([, name]) => name ?? '',
    );
    assert.ok(alerts.length > 0);
    const untested = alerts.filter(
      (name) => !new RegExp(`alertname: ${name}\\n\\s+exp_alerts:`).test(tests),
    );
    assert.deepEqual(untested, []);
  });

  test('speak of metrics that a site has', () => {
    const known = readFileSync(join(repository, 'docs', 'reference', 'metrics.md'), 'utf8');
    const named = readFileSync(rules, 'utf8')
      .split('\n')
      .filter((line) => !line.trim().startsWith('#'))
      .flatMap((line) => [...line.matchAll(/\b(?:hansa|spire)_[a-z0-9_]+/g)].map(([name]) => name));
    assert.ok(named.length > 0);
    const unknown = [...new Set(named)].filter((name) => !known.includes(`\`${name}\``));
    assert.deepEqual(unknown, []);
  });
});

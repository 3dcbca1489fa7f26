// Rules for every file of the repository.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

const root = join(import.meta.dirname, '..');

function check(why: string, offences: readonly string[]): void {
  assert.equal(offences.length, 0, `${why}\n  ${offences.join('\n  ')}`);
}

suite('the repository is fit for strangers', () => {
  const tracked = execFileSync('git', ['ls-files', '-z'], { cwd: root, encoding: 'utf8' })
    .split('\0')
    .filter((path) => path !== '' && existsSync(join(root, path)));

  const texts = tracked.map((path) => ({ path, bytes: readFileSync(join(root, path)) }));

  test('no tracked file is binary', () => {
    check(
      'What is built belongs to a release, not to the history. Samples are text: PEM, JSON, YAML, hex.',
      texts
        .filter(({ path, bytes }) => bytes.includes(0) && !/\.(?:png|ico|woff2)$/.test(path))
        .map(({ path }) => path),
    );
  });

  test('no tracked file names a folder of one machine or a package registry', () => {
    // With a class of one letter in each, so that this file passes its own rule.
    const folders = ['/w[o]rk/', '/h[o]me/[a-z]', '/r[o]ot/[.\\w]', '/t[m]p/[a-z]'];
    const hosts = ['regis[t]ry\\.npm', 'npm[m]irror', 'proxy\\.go[l]ang', 'arti[f]actory'];
    const local = new RegExp([...folders.map((f) => `(?<![\\w.])${f}`), ...hosts].join('|'));
    check(
      'Such a path works on one machine only, and a registry is chosen by who installs.',
      texts.flatMap(({ path, bytes }) =>
        bytes
          .toString('utf8')
          .split('\n')
          .flatMap((line, index) => {
            const found = local.exec(line);
            return found === null ? [] : [`${path}:${index + 1} has ${found[0]}`];
          }),
      ),
    );
  });

  test('the lock file says where no package was loaded from', () => {
    const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
    assert.doesNotMatch(lock, /"resolved"/, 'Keep omit-lockfile-registry-resolved=true in .npmrc.');
  });

  test('every file that the test plan of the SPIRE operator names exists', () => {
    const plan = readFileSync(join(root, 'docs/spire-test-plan.md'), 'utf8');
    const named = [...plan.matchAll(/`((?:src|test|bench)\/[^`]+)`/g)].map(([, path = '']) => path);
    assert.ok(named.length > 30, 'The plan names its tests as `PATH`.');
    check(
      'docs/spire-test-plan.md says which test shows each line.',
      named.filter((path) => !tracked.includes(path)),
    );
  });

  test('every dependency is explained in docs/dependencies.md', () => {
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<
      'dependencies' | 'devDependencies',
      Record<string, string>
    >;
    const explained = readFileSync(join(root, 'docs/dependencies.md'), 'utf8');
    check(
      'Each dependency gets a line: what it is for and what was considered instead.',
      Object.keys({ ...manifest.dependencies, ...manifest.devDependencies }).filter(
        (name) => !explained.includes(`\`${name}\``),
      ),
    );
  });
});

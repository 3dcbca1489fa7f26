// Checks output formats of commands against a site: dry runs, `--sort-by` and custom columns.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { refuses, roleManifest as role, succeeds } from './cli-outcome.ts';
import { type Daemon, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';

const folder = temporaryFolder();
const dataDir = join(folder, 'lubeck');
let site: Daemon;

before(async () => {
  site = await startDaemon(dataDir);
});
after(() => site.signal('SIGTERM'));

const run = (...args: string[]): Promise<Ran> => hansa([...args, '--data-dir', dataDir]);
const apply = (manifest: string, ...args: string[]): Promise<Ran> =>
  hansa(['apply', '-f', '-', '--data-dir', dataDir, ...args], { stdin: manifest });

suite('what commands print', () => {
  test('a dry run says of changed labels what the apply says then', async () => {
    await succeeds(apply(role('labelled', '[get]', '{team: ops}')));
    const changed = role('labelled', '[get]', '{team: net}');
    assert.equal(
      await succeeds(apply(changed, '--dry-run')),
      'role.hansa.dev/labelled configured (dry run)\n',
    );
    assert.equal(await succeeds(apply(changed)), 'role.hansa.dev/labelled configured\n');
    assert.equal(
      await succeeds(apply(changed, '--dry-run')),
      'role.hansa.dev/labelled unchanged (dry run)\n',
    );
    assert.equal(await succeeds(apply(changed)), 'role.hansa.dev/labelled unchanged\n');
    await succeeds(run('delete', 'role', 'labelled'));
  });

  test('a token that a command created is changed by a manifest without a conflict', async () => {
    await succeeds(run('join', 'token', 'create', 'machines', '--ttl', '2d'));
    const manifest = `apiVersion: hansa.dev/v1alpha1
kind: JoinToken
metadata: {name: machines}
spec: {method: secret, roles: [agent], expiresAt: "2999-01-01T00:00:00Z"}
`;
    assert.equal(await succeeds(apply(manifest)), 'jointoken.hansa.dev/machines configured\n');
    await refuses(
      run('join', 'token', 'create', 'machines'),
      5,
      /it exists.*join token secret machines.*\(HANSA_ALREADY_EXISTS\)/s,
    );
    await succeeds(run('delete', 'jointoken', 'machines'));
  });

  test('get sorts, and prints columns of one’s own', async () => {
    for (const name of ['crane-10', 'crane-2']) {
      await succeeds(apply(role(name, '[get]', '{sorted: yes-please}')));
    }
    const named = ['get', 'roles', '-l', 'sorted=yes-please', '--sort-by=.metadata.name'];
    assert.equal(
      await succeeds(run(...named, '-o=name')),
      'role.hansa.dev/crane-2\nrole.hansa.dev/crane-10\n',
    );
    assert.match(await succeeds(run(...named)), /^NAME.*\ncrane-2 .*\ncrane-10 /);
    assert.equal(
      await succeeds(run(...named, '-o=custom-columns=N:.metadata.name,V:.spec.rules[0].verbs[*]')),
      'N          V\ncrane-2    get\ncrane-10   get\n',
    );
    await refuses(run(...named, '-w'), 2, /Remove --sort-by/);
    await succeeds(run('delete', 'roles', '-l', 'sorted=yes-please', '--yes'));
  });
});

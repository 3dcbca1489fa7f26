// Runs the bash completion script in a real shell, against a site.

import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import {
  type Daemon,
  execute,
  hansa,
  launcher,
  type Ran,
  startDaemon,
  temporaryFolder,
} from './daemon.ts';

const dataDir = join(temporaryFolder(), 'lubeck');
let site: Daemon;

before(async () => {
  site = await startDaemon(dataDir);
  const made = ['examples/federation/static.yaml', 'examples/join/machines.yaml'];
  const files = made.flatMap((file) => ['-f', file]);
  await succeeds(asked('apply', ...files));
  await succeeds(asked('access', 'token', 'create', 'ci', '--role', 'viewer'));
  await becomeAgent('crane_1');
});
after(() => site.signal('SIGTERM'));

const asked = (...args: readonly string[]): Promise<Ran> => hansa([...args, '--data-dir', dataDir]);

async function becomeAgent(name: string): Promise<void> {
  const folder = temporaryFolder();
  const [bundle, secret] = [join(folder, 'bundle'), join(folder, 'secret')];
  writeFileSync(bundle, await succeeds(asked('trust', 'bundle', 'show')));
  writeFileSync(secret, await succeeds(asked('join', 'token', 'secret', 'machines')));
  const where = ['--server', site.endpoints.federation, '--trust-domain', 'lubeck.example'];
  const by = ['--bundle', bundle, '--token', 'machines', '--secret-file', secret];
  await succeeds(
    hansa(['join', ...where, ...by, '--name', name, '--write', join(folder, 'identity')]),
  );
}

async function succeeds(ran: Promise<Ran>): Promise<string> {
  const { code, stdout, stderr } = await ran;
  assert.equal(code, 0, stderr);
  return stdout;
}

suite('completion in bash', () => {
  const cases: [line: string[], offered: string][] = [
    [['acc'], 'access'],
    [['access', 'token', ''], 'create'],
    [['access', 'token', 'create', '--ro'], '--role'],
    [['get', 'role'], 'roles rolebindings'],
    [['cluster', 'add', 'x', '--cont'], '--context'],
    [['cluster', 'add', 'x', '--context', ''], ''],
    [['cluster', 'credential', 'set', '--context', 'kind', '--kubeconfig', 'READ'], 'README.md'],
    [['get', 'roles', 'v'], 'viewer'],
    [['--yes', 'get', '-l', 'a=b', 'sit'], 'sites'],
    [['get', 'roles', '-o', 'j'], 'json jsonpath'],
    [['apply', '-f', 'READ'], 'README.md'],
    [['get', 'READ'], ''],
    [['trust', 'rotate', 'ta'], 'taint'],
    [['trust', 'refresh', ''], 'wismar.example'],
    [['trust', 'bundle', 'bootstrap', 'w'], 'wismar.example'],
    [['trust', 'bundle', 'bootstrap', 'wismar.example', 'READ'], 'README.md'],
    [['trust', 'bundle', 'show', '--format', ''], 'spiffe pem'],
    [['svid', 'val'], 'validate'],
    [['svid', 'validate', 'READ'], 'README.md'],
    [['join', '--sec'], '--secret-file'],
    [['join', '--role', ''], 'agent bot'],
    [['join', 'token', 's'], 'secret'],
    [['join', 'token', 'secret', 'm'], 'machines'],
    [['join', 'list', '-o', ''], 'json yaml name'],
    [['explain', 'join'], 'jointokens'],
    [['wait', 'site/site', '--for', ''], ''],
    [['get', 'jt', ''], 'machines'],
    [['agent', 'forget', 'cr'], 'crane_1'],
    [['agent', 'inst'], 'install'],
    [['access', 'revoke', ''], 'ci'],
    [['doctor', '--peer', 'w'], 'wismar.example'],
    [['access', 'token', 'create', 'x', '--role', 'ap'], 'approver'],
    [['access', 'token', 'create', 'x', '--role', '=', 'ap'], 'approver'],
  ];

  /** What a Tab at the end of each line offers. */
  async function offered(
    lines: readonly (readonly string[])[],
    env: Record<string, string>,
  ): Promise<string[]> {
    const complete = (words: readonly string[]): string =>
      `COMP_WORDS=('${launcher}' ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; COMPREPLY=(); _hansa; echo "\${COMPREPLY[*]}"`;
    const script = [await succeeds(hansa(['completion', 'bash'])), ...lines.map(complete)];
    const printed = await succeeds(execute('bash', ['-c', script.join('\n')], { env }));
    return printed.split('\n').slice(0, -1);
  }

  test('offers commands, flags, kinds, names, formats and files, each where it belongs', async () => {
    const found = await offered(
      cases.map(([line]) => line),
      { HANSA_DATA_DIR: dataDir },
    );
    assert.deepEqual(
      cases.map(([line], index) => [line, found[index]]),
      cases,
    );
  });

  test('takes no name for the folder that is called so, and a folder for one', async () => {
    // bash asks for a path only where -o filenames is set: for the whole command, or by compopt for one word.
    const say = (words: string): string =>
      `COMP_WORDS=('${launcher}' ${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); asked=; _hansa; echo "$asked"`;
    const script = `${await succeeds(hansa(['completion', 'bash']))}
compopt() { asked=$*; }
complete -p hansa
${say("trust refresh 'w'")}
${say("apply -f 'READ'")}`;
    const env = { HANSA_DATA_DIR: dataDir };
    const printed = await succeeds(execute('bash', ['-c', script], { env }));
    assert.equal(printed, 'complete -F _hansa hansa\n\n-o filenames\n');
  });

  test('asks the site that the line names', async () => {
    const lines = [
      ['--data-dir', dataDir, 'trust', 'refresh', ''],
      ['trust', 'refresh', '--data-dir', '=', dataDir, ''],
      ['trust', 'refresh', ''],
    ];
    const elsewhere = { HANSA_DATA_DIR: temporaryFolder() };
    const found = await offered(lines, elsewhere);
    assert.deepEqual(found, ['wismar.example', 'wismar.example', '']);
  });

  test('offers the ids of authorities to the steps of a rotation', async () => {
    const names = await succeeds(asked('trust', 'rotate', 'status', '-o', 'name'));
    const ids = names
      .trim()
      .replaceAll(/^(?:x509|jwt)\//gm, '')
      .split('\n');
    assert.ok(ids.length >= 2 && ids.every((id) => /^[0-9a-f]{16,}$/.test(id)), names);
    const steps = ['activate', 'taint', 'revoke'].map((step) => ['trust', 'rotate', step, '']);
    const found = await offered(steps, { HANSA_DATA_DIR: dataDir });
    for (const line of found) assert.deepEqual(line.split(' ').toSorted(), ids.toSorted());
  });

  test('runs nothing that a site puts into a name', async () => {
    const folderOfFake = temporaryFolder();
    const fake = join(folderOfFake, 'hansa');
    const mark = join(folderOfFake, 'ran');
    writeFileSync(
      fake,
      `#!/bin/sh\necho 'role.hansa.dev/$(touch ${mark})'\necho '$(touch ${mark})'\necho x/good\n`,
      {
        mode: 0o755,
      },
    );
    const script = `${await succeeds(hansa(['completion', 'bash']))}
COMP_WORDS=('${fake}' get roles ''); COMP_CWORD=3; _hansa; echo "\${COMPREPLY[*]}"`;
    assert.equal(await succeeds(execute('bash', ['-c', script])), 'good\n');
    assert.equal(existsSync(mark), false);
  });
});

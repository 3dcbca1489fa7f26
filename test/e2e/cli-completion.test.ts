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
  await succeeds(hansa(['apply', ...files, '--data-dir', dataDir]));
});
after(() => site.signal('SIGTERM'));

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
    [['join', 'list', '-o', ''], 'json yaml'],
    [['explain', 'join'], 'jointokens'],
    [['wait', 'site/site', '--for', ''], ''],
  ];

  test('offers commands, flags, kinds, names, formats and files, each where it belongs', async () => {
    const complete = ([, ...words]: string[]): string =>
      `COMP_WORDS=('${launcher}' ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; COMPREPLY=(); _hansa; echo "\${COMPREPLY[*]}"`;
    const script = [
      await succeeds(hansa(['completion', 'bash'])),
      ...cases.map(([line]) => complete(['hansa', ...line])),
    ].join('\n');
    const env = { HANSA_DATA_DIR: dataDir };
    const offered = (await succeeds(execute('bash', ['-c', script], { env }))).split('\n');
    assert.deepEqual(
      cases.map(([line], index) => [line, offered[index]]),
      cases,
    );
  });

  test('runs nothing that a site puts into a name', async () => {
    const folderOfFake = temporaryFolder();
    const fake = join(folderOfFake, 'hansa');
    const mark = join(folderOfFake, 'ran');
    writeFileSync(fake, `#!/bin/sh\necho 'role.hansa.dev/$(touch ${mark})'\necho x/good\n`, {
      mode: 0o755,
    });
    const script = `${await succeeds(hansa(['completion', 'bash']))}
COMP_WORDS=('${fake}' get roles ''); COMP_CWORD=3; _hansa; echo "\${COMPREPLY[*]}"`;
    assert.equal(await succeeds(execute('bash', ['-c', script])), 'good\n');
    assert.equal(existsSync(mark), false);
  });
});

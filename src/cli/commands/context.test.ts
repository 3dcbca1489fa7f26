import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { allKinds } from '../../test-planes.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { loadConfig } from '../../server/config/config.ts';
import { type RunningSite, startSite } from '../../server/site.ts';
import { type Ran, run } from '../test-io.ts';

let folder: string;
let site: RunningSite;
let url: string;
/** Each test has a home of its own. */
let homes = 0;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hansa-context-'));
  const { config } = loadConfig({
    planes: [],
    flags: {
      dataDir: join(folder, 'site'),
      trustDomain: 'lubeck.example',
      api: '127.0.0.1:0',
      federation: 'off',
      metrics: 'off',
    },
    env: {},
    cwd: folder,
  });
  site = await startSite({
    config,
    kinds: allKinds,
    version: 'test',
    clock: systemClock,
    random: systemRandom,
    log: createLog({
      clock: systemClock,
      sink: { write: () => true },
      level: 'error',
      format: 'json',
    }),
    metrics: new MetricsRegistry(),
  });
  url = site.endpoints.api ?? '';
  for (const name of ['ci', 'ops']) {
    const flags = ['--role', 'viewer', '--data-dir', 'site'];
    const made = await new Shell().run('access', 'token', 'create', name, ...flags);
    writeFileSync(join(folder, name), made.stdout, { mode: 0o600 });
  }
});

after(async () => {
  await site.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A user with a home folder of its own. */
class Shell {
  readonly home = join(folder, `home-${(homes += 1)}`);
  run(...args: string[]): Promise<Ran> {
    return run(args, { cwd: folder, env: { HANSA_HOME: this.home } });
  }

  in(context: string, ...args: string[]): Promise<Ran> {
    const env = { HANSA_HOME: this.home, HANSA_CONTEXT: context };
    return run(args, { cwd: folder, env });
  }

  async must(...args: string[]): Promise<Ran> {
    const ran = await this.run(...args);
    assert.equal(ran.code, 0, ran.stderr);
    return ran;
  }

  login(token: string, ...args: string[]): Promise<Ran> {
    const flags = ['--site', url, '--ca-file', 'site/ca.pem', '--token-file', token];
    return this.must('login', ...flags, ...args);
  }
}

suite('a login', () => {
  test('is used by the commands that follow, without a flag', async () => {
    const shell = new Shell();
    const login = await shell.login('ci');
    assert.match(
      login.stderr,
      /Stored in the context token:ci@lubeck\.example, the current one: commands use/,
    );
    assert.equal((await shell.must('whoami', '-o', 'name')).stdout, 'token:ci\n');
    assert.match((await shell.must('get', 'sites')).stdout, /^NAME/);
  });

  test('of another user changes nothing for the first', async () => {
    const shell = new Shell();
    const first = JSON.parse((await shell.login('ci', '-o', 'json')).stdout);
    const second = JSON.parse((await shell.login('ops', '-o', 'json')).stdout);
    assert.notEqual(first.file, second.file);
    assert.equal(second.context, 'token:ops@lubeck.example');
    assert.equal((await shell.must('whoami', '-o', 'name')).stdout, 'token:ci\n');
    const other = await shell.in('token:ops@lubeck.example', 'whoami', '-o', 'name');
    assert.equal(other.stdout, 'token:ops\n');
    await shell.must('context', 'use', 'token:ops@lubeck.example');
    assert.equal((await shell.must('whoami', '-o', 'name')).stdout, 'token:ops\n');
    assert.equal(statSync(first.file).mode % 0o1000, 0o600);
  });

  test('has the name that --context gives, and is renewed under it', async () => {
    const shell = new Shell();
    await shell.login('ci', '--context', 'lubeck');
    const again = await shell.must('login', '--context', 'lubeck', '--token-file', 'ops');
    assert.match(again.stdout, /^Logged in as token:ops /);
    assert.equal((await shell.must('context', 'list', '-o', 'name')).stdout, 'lubeck\n');
    const refused = await shell.run('login', '--context', 'nowhere', '--token-file', 'ops');
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /no context nowhere yet\. Name its site with --site/);
  });

  test('over the socket leaves the current context alone', async () => {
    const shell = new Shell();
    const login = await shell.must('login', '--data-dir', 'site', '--user', 'alice');
    assert.match(login.stderr, /To use it: --context alice@lubeck\.example/);
    assert.equal((await shell.run('context', 'show')).code, 2);
    const who = await shell.must('whoami', '--context', 'alice@lubeck.example');
    assert.match(who.stdout, /^user +alice\n/);
  });

  test('that fails leaves no context', async () => {
    const shell = new Shell();
    writeFileSync(join(folder, 'bad'), 'nonsense\n');
    const flags = ['--site', url, '--ca-file', 'site/ca.pem', '--token-file', 'bad'];
    assert.equal((await shell.run('login', ...flags)).code, 6);
    assert.equal(existsSync(shell.home), false);
  });

  test('serves kubectl through the context', async () => {
    const shell = new Shell();
    await shell.login('ci');
    const config = JSON.parse((await shell.must('kubeconfig', '-o', 'json')).stdout);
    const { exec } = config.users[0].user;
    assert.deepEqual(exec.args, ['credential', '--context', 'token:ci@lubeck.example']);
    assert.deepEqual(exec.env, [{ name: 'HANSA_HOME', value: shell.home }]);
    const { stdout } = await shell.must(...exec.args);
    assert.match(JSON.parse(stdout).status.clientCertificateData, /BEGIN CERTIFICATE/);
  });
});

suite('logout', () => {
  test('removes certificate and key, and the next command says how to log in', async () => {
    const shell = new Shell();
    const { file } = JSON.parse((await shell.login('ci', '-o', 'json')).stdout);
    const out = await shell.must('logout');
    assert.equal(out.stdout, 'Logged out token:ci (context token:ci@lubeck.example).\n');
    assert.equal(existsSync(file), false);
    const refused = await shell.run('get', 'sites');
    assert.equal(refused.code, 6);
    assert.match(refused.stderr, /you are not logged in\. Log in again: hansa login --context/);
    assert.match((await shell.must('logout')).stderr, /There was no login/);
  });

  test('of one user leaves the other, and --all leaves none', async () => {
    const shell = new Shell();
    await shell.login('ci');
    await shell.login('ops');
    await shell.must('logout', '--context', 'token:ops@lubeck.example');
    assert.equal((await shell.run('whoami')).code, 0);
    await shell.must('logout', '--all');
    assert.equal((await shell.run('whoami')).code, 6);
    assert.equal((await shell.run('logout', '--all', '--context', 'x')).code, 2);
  });

  test('works beside a damaged context, which can be removed', async () => {
    const shell = new Shell();
    const { file } = JSON.parse((await shell.login('ci', '-o', 'json')).stdout);
    const damaged = join(shell.home, 'contexts', 'damaged.yaml');
    for (const end of [['logout'], ['logout', '--all']]) {
      await shell.login('ci');
      writeFileSync(damaged, 'site: nowhere\n', { mode: 0o600 });
      await shell.must(...end);
      assert.equal(existsSync(file), false);
    }
    await shell.must('context', 'remove', 'damaged');
    assert.equal(existsSync(damaged), false);
    assert.equal((await shell.run('context', 'remove', 'damaged')).code, 4);
  });

  test('deletes no file that hansa did not write', async () => {
    const shell = new Shell();
    await shell.login('ci');
    const name = 'token:ci@lubeck.example';
    const precious = join(folder, 'precious');
    writeFileSync(precious, 'mine', { mode: 0o600 });
    writeFileSync(
      join(shell.home, 'contexts', `${name}.yaml`),
      `site: ${url}\ncaFile: ${folder}/site/ca.pem\ncredential: ${precious}\n`,
    );
    await shell.must('logout', '--context', name);
    assert.equal(existsSync(precious), true);
  });
});

suite('whoami', () => {
  test('tells user, groups, roles, how and until when', async () => {
    const shell = new Shell();
    const flags = ['--site', url, '--ca-file', 'site/ca.pem', '--token-file', 'ci'];
    const token = JSON.parse((await shell.must('whoami', ...flags, '-o', 'json')).stdout);
    assert.deepEqual([token.user, token.via, token.credential], ['token:ci', 'token', 'ci']);
    assert.deepEqual(token.roles, ['viewer']);
    assert.ok(token.groups.includes('hansa:tokens'));
    assert.ok(Date.parse(token.expiresAt) > systemClock.now());
    assert.equal(token.site, url);
    await shell.login('ci');
    const login = JSON.parse((await shell.must('whoami', '-o', 'json')).stdout);
    assert.deepEqual([login.via, login.context], ['certificate', 'token:ci@lubeck.example']);
    const leftMs = Date.parse(login.expiresAt) - systemClock.now();
    assert.ok(leftMs > 50 * 60_000 && leftMs <= 60 * 60_000);
  });

  test('over the socket is the admin, whose rights do not expire', async () => {
    const shell = new Shell();
    const { stdout } = await shell.must('whoami', '--data-dir', 'site');
    assert.match(stdout, /^user +admin\n/);
    assert.match(stdout, /^by +admin socket$/m);
    assert.doesNotMatch(stdout, /^valid/m);
  });

  test('leaves the roles out for users who may not read bindings', async () => {
    const shell = new Shell();
    await shell.must('login', '--data-dir', 'site', '--user', 'bob', '--context', 'bob');
    const bob = JSON.parse((await shell.must('whoami', '--context', 'bob', '-o', 'json')).stdout);
    assert.equal(bob.user, 'bob');
    assert.equal(bob.roles, undefined);
  });
});

suite('a context that was added', () => {
  test('reaches its site, and the first one is the current one', async () => {
    const shell = new Shell();
    const flags = ['--site', url, '--ca-file', 'site/ca.pem', '--token-file', 'ci'];
    const added = await shell.must('context', 'add', 'lubeck', ...flags);
    assert.match(added.stderr, /It is the current context/);
    await shell.must('context', 'add', 'owner', '--data-dir', 'site');
    assert.equal((await shell.must('whoami', '-o', 'name')).stdout, 'token:ci\n');
    assert.equal(
      (await shell.must('whoami', '--context', 'owner', '-o', 'name')).stdout,
      'admin\n',
    );
    const { stdout } = await shell.must('context', 'list');
    assert.match(stdout, /^\* +lubeck +https:\S+ +token in \S+ci$/m);
    assert.match(stdout, /^ +owner +\S+site +admin socket$/m);
    const yaml = (await shell.must('context', 'show', 'owner', '-o', 'yaml')).stdout;
    assert.match(yaml, /^dataDir: \//m);
    await shell.must('context', 'rename', 'lubeck', 'l');
    assert.equal((await shell.must('context', 'show', '-o', 'name')).stdout, 'l\n');
    await shell.must('context', 'use', '--none');
    assert.equal((await shell.run('whoami')).code, 8);
    await shell.must('context', 'remove', 'l');
    assert.equal((await shell.must('context', 'list', '-o', 'name')).stdout, 'owner\n');
  });

  test('is refused where it says too little or exists', async () => {
    const shell = new Shell();
    const refusals: [args: string[], code: number, why: RegExp][] = [
      [['add', 'x'], 2, /either --site or --data-dir/],
      [['add', 'x', '--site', url], 2, /--ca-file/],
      [['add', 'x', '--site', 'http://x', '--ca-file', 'c'], 3, /https URL/],
      [['add', '../x', '--data-dir', 'site'], 2, /cannot be called/],
      [['use', 'x'], 4, /no context x/],
      [['use'], 2, /--none/],
      [['show', 'x'], 4, /no context x/],
      [['remove', 'x'], 4, /no context x/],
      [['rename', 'x', 'y'], 4, /no context x/],
    ];
    for (const [args, code, why] of refusals) {
      const ran = await shell.run('context', ...args);
      assert.equal(ran.code, code, `${args.join(' ')}: ${ran.stderr}`);
      assert.match(ran.stderr, why);
    }
    assert.equal(existsSync(shell.home), false);
    await shell.must('context', 'add', 'x', '--data-dir', 'site');
    assert.equal((await shell.run('context', 'add', 'x', '--data-dir', 'site')).code, 5);
  });
});

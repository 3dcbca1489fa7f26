// `hansa agent install` and `uninstall` into the root folder of an image, and what systemd thinks of the
// unit. No systemd has to run.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type AgentProcess, startAgent } from './agent-process.ts';
import { type Daemon, execute, hansa, type Ran, startDaemon, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

const folder = temporaryFolder();
after(() => rmSync(folder, { recursive: true, force: true }));

const has = (program: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${program}`]).status === 0;
const withoutAnalyze = has('systemd-analyze') ? false : 'systemd-analyze is not installed';
const withoutRoot =
  process.geteuid?.() !== 0
    ? 'only root may install'
    : ['systemctl', 'useradd', 'groupadd'].every(has)
      ? false
      : 'systemctl or useradd is not installed';

suite('the unit of hansa agent install --print', { skip: withoutAnalyze }, () => {
  for (const [flags, maxExposure] of [
    // CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH make the difference.
    [[], 2.1],
    [['--unprivileged'], 1.5],
  ] as const) {
    const name = ['hansa agent install', ...flags].join(' ');
    let file: string;
    before(async () => {
      const at = join(folder, `unit${flags.join('')}`);
      mkdirSync(at);
      file = join(at, 'hansa-agent.service');
      const { code, stdout, stderr } = await hansa(['agent', 'install', '--print', ...flags]);
      assert.equal(code, 0, stderr);
      writeFileSync(file, stdout);
    });

    test(`${name}: systemd accepts every line`, async () => {
      const { code, stdout, stderr } = await execute('systemd-analyze', ['verify', file]);
      // Other units of this machine may have problems of their own.
      const about = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('hansa-agent'));
      assert.deepEqual(about, []);
      assert.equal(code, 0, stderr);
    });

    test(`${name}: systemd rates its exposure at ${maxExposure} or less of 10`, async () => {
      const args = ['security', '--offline=true', '--no-pager', file];
      const { stdout, stderr } = await execute('systemd-analyze', args);
      const level = /Overall exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1];
      assert.ok(level !== undefined, `${stdout}${stderr}`);
      assert.ok(Number(level) <= maxExposure, stdout);
    });
  }
});

/** Files with their content, links with their target. Without backups and locks of useradd. */
function treeOf(root: string, below = ''): Record<string, string> {
  const entries = readdirSync(join(root, below)).flatMap((name): [string, string][] => {
    const path = join(below, name);
    const found = lstatSync(join(root, path));
    if (/(?:^\.pwd\.lock|-)$/.test(name)) return [];
    if (found.isDirectory()) return Object.entries(treeOf(root, path));
    if (found.isSymbolicLink()) return [[path, readlinkSync(join(root, path))]];
    return [[path, found.isFile() ? readFileSync(join(root, path), 'utf8') : 'special']];
  });
  return Object.fromEntries(entries);
}

const unitFile = 'etc/systemd/system/hansa-agent.service';

/** The system calls of a group, also of the groups in it. */
async function callsOf(group: string): Promise<readonly string[]> {
  const { stdout } = await execute('systemd-analyze', ['syscall-filter', group]);
  const names = stdout
    .split('\n')
    .slice(1)
    .map((line) => line.trim());
  const found = names
    .filter((name) => name !== '' && !name.startsWith('#'))
    .map(async (name) => (name.startsWith('@') ? await callsOf(name) : [name]));
  return (await Promise.all(found)).flat();
}

/** What the lines SystemCallFilter of a unit leave: each adds, or removes with ~. */
async function allowedCalls(unit: string): Promise<ReadonlySet<string>> {
  const allowed = new Set<string>();
  for (const [, removes, list = ''] of unit.matchAll(/^SystemCallFilter=(~?)(.*)$/gm)) {
    for (const item of list.split(' ')) {
      const calls = item.startsWith('@') ? await callsOf(item) : [item];
      for (const call of calls) {
        if (removes === '~') allowed.delete(call);
        else allowed.add(call);
      }
    }
  }
  // systemd always allows these.
  for (const call of await callsOf('@default')) allowed.add(call);
  return allowed;
}

suite('hansa agent install --root', { skip: withoutRoot }, () => {
  const unit = unitFile;
  const makeImage = (name: string): string => {
    const image = join(folder, name);
    mkdirSync(join(image, 'etc'), { recursive: true });
    writeFileSync(join(image, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
    writeFileSync(join(image, 'etc/group'), 'root:x:0:\n');
    writeFileSync(join(image, 'etc/shadow'), 'root:*:19000::::::\n');
    writeFileSync(join(image, 'etc/gshadow'), 'root:*::\n');
    return image;
  };
  const install = (image: string, ...flags: string[]) =>
    hansa(['agent', 'install', '--root', image, ...flags]);
  const uninstall = (image: string, ...flags: string[]) =>
    hansa(['agent', 'uninstall', '--root', image, ...flags]);

  test('writes the printed unit, enables it, and creates the user and its folder', async () => {
    const image = makeImage('install');
    const { code, stderr } = await install(image, '--yes');
    assert.equal(code, 0, stderr);
    const { stdout: printed } = await hansa(['agent', 'install', '--print']);
    assert.equal(readFileSync(join(image, unit), 'utf8'), printed);
    assert.ok(existsSync(join(image, 'etc/systemd/system/multi-user.target.wants')));
    const line = /^hansa-agent:.*$/m.exec(readFileSync(join(image, 'etc/passwd'), 'utf8'))?.[0];
    assert.match(line ?? '', /:\/var\/lib\/hansa-agent:\/usr\/sbin\/nologin$/);
    const data = lstatSync(join(image, 'var/lib/hansa-agent'));
    assert.equal(data.mode & 0o777, 0o711);
    assert.equal(String(data.uid), line?.split(':')[2]);
    const key = lstatSync(join(image, 'etc/hansa-agent.key'));
    assert.equal(key.mode & 0o777, 0o600);
    assert.equal(key.uid, data.uid);
  });

  test('uninstall leaves nothing behind, also what the agent wrote since', async () => {
    const image = makeImage('uninstall');
    const original = treeOf(image);
    assert.equal((await install(image, '--yes')).code, 0);
    const data = join(image, 'var/lib/hansa-agent');
    mkdirSync(join(data, 'secrets'));
    writeFileSync(join(data, 'secrets/svid.key'), 'a key');
    spawnSync('mkfifo', [join(data, 'workload.sock')]);
    mkdirSync(`${join(image, unit)}.d`);
    writeFileSync(`${join(image, unit)}.d/override.conf`, '[Service]\nNice=5\n');
    const { code, stderr } = await uninstall(image, '--yes');
    assert.equal(code, 0, stderr);
    assert.deepEqual(treeOf(image), original);
    assert.ok(!existsSync(data));
  });

  test('a dry run prints what uninstall removes, and removes nothing', async () => {
    const image = makeImage('dry');
    assert.equal((await install(image, '--yes')).code, 0);
    const original = treeOf(image);
    const { code, stdout } = await uninstall(image, '--dry-run');
    assert.equal(code, 0);
    for (const what of [
      '/var/lib/hansa-agent',
      '/etc/hansa-agent.key',
      'the user hansa-agent',
      `/${unit}`,
    ]) {
      assert.ok(stdout.includes(what), stdout);
    }
    assert.deepEqual(treeOf(image), original);
  });

  test('nothing changes without a yes', async () => {
    const image = makeImage('asked');
    const original = treeOf(image);
    const { code, stderr } = await install(image);
    assert.equal(code, 2, stderr);
    assert.match(stderr, /Install the agent\? This is not a terminal\. Add --yes\./);
    assert.deepEqual(treeOf(image), original);
  });

  test('a folder with other files stays untouched', async () => {
    const image = makeImage('foreign');
    mkdirSync(join(image, 'srv/www'), { recursive: true });
    writeFileSync(join(image, 'srv/www/index.html'), 'hello');
    const original = treeOf(image);
    const { code, stderr } = await install(image, '--yes', '--data-dir', '/srv/www');
    assert.equal(code, 5, stderr);
    assert.match(stderr, /is not the data folder of an agent/);
    assert.deepEqual(treeOf(image), original);
  });

  test('uninstall without an installed agent says so', async () => {
    const { code, stderr } = await uninstall(makeImage('none'), '--yes');
    assert.equal(code, 4, stderr);
  });

  test('the data folder of a site stays untouched', async () => {
    const image = makeImage('site');
    mkdirSync(join(image, 'srv/lubeck/secrets'), { recursive: true });
    writeFileSync(join(image, 'srv/lubeck/secrets/store.db'), 'a store');
    const { code, stderr } = await install(image, '--yes', '--data-dir', '/srv/lubeck');
    assert.equal(code, 5, stderr);
    assert.equal(readFileSync(join(image, 'srv/lubeck/secrets/store.db'), 'utf8'), 'a store');
  });

  for (const user of ['root', 'Crane', 'a b', '']) {
    test(`the user ${JSON.stringify(user)} is refused`, async () => {
      const { code, stderr } = await install(makeImage(`user-${user}`), '--yes', '--user', user);
      assert.equal(code, 2, stderr);
    });
  }
});

suite(
  'an installed agent',
  { skip: withoutRoot || (has('setpriv') ? false : 'no setpriv') },
  () => {
    const image = join(folder, 'machine');
    const data = join(image, 'var/lib/hansa-agent');
    let site: Daemon;
    const lubeck = (...args: string[]) => hansa([...args, '--data-dir', join(folder, 'lubeck')]);
    const succeeds = async (ran: Promise<Ran>): Promise<string> => {
      const { code, stdout, stderr } = await ran;
      assert.equal(code, 0, stderr);
      return stdout;
    };
    const joinFlags = (token: string) => [
      `--server=${site.endpoints.federation}`,
      '--trust-domain=lubeck.example',
      `--bundle=${join(folder, 'lubeck/ca.pem')}`,
      `--token=${token}`,
      '--name=crane-1',
      `--secret-file=${join(folder, 'secret')}`,
    ];

    before(async () => {
      site = await startDaemon(join(folder, 'lubeck'));
      writeFileSync(
        join(folder, 'secret'),
        await succeeds(lubeck('join', 'token', 'create', 'crane')),
      );
      // The user of the agent must reach its folder.
      chmodSync(folder, 0o711);
      mkdirSync(join(image, 'etc'), { recursive: true });
      for (const file of ['passwd', 'group']) writeFileSync(join(image, 'etc', file), '');
      const entry = {
        apiVersion: 'hansa.dev/v1alpha1',
        kind: 'WorkloadEntry',
        metadata: { name: 'program' },
        spec: {
          spiffeID: 'spiffe://lubeck.example/program',
          selectors: [`unix:path:${realpathSync(process.execPath)}`],
          agents: { names: ['crane-1'] },
        },
      };
      const stdin = JSON.stringify(entry);
      await succeeds(hansa(['apply', '-f', '-', '--data-dir', join(folder, 'lubeck')], { stdin }));
    });
    after(() => site.signal('SIGTERM'));

    test('is not installed where the site refuses it', async () => {
      const install = ['agent', 'install', '--root', image, '--yes', ...joinFlags('unknown')];
      const { code, stderr } = await hansa(install);
      assert.equal(code, 7, stderr);
      assert.ok(!existsSync(join(image, 'etc/systemd')));
      assert.equal(readFileSync(join(image, 'etc/passwd'), 'utf8'), '');
    });

    test('joins as root, and its user gets the folder', async () => {
      await succeeds(hansa(['agent', 'install', '--root', image, '--yes', ...joinFlags('crane')]));
      const identity = lstatSync(join(data, 'secrets/identity/join.json'));
      assert.notEqual(identity.uid, 0);
      assert.equal(identity.uid, lstatSync(data).uid);
      assert.equal(identity.mode & 0o077, 0);
    });

    /** As systemd starts the unit: the user and the capabilities, and nothing else. */
    const startAs = async (capabilities: string, ...within: string[]): Promise<AgentProcess> => {
      const { uid, gid } = lstatSync(data);
      const ids = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--no-new-privs'];
      const caps = ['inh-caps', 'ambient-caps', 'bounding-set'].map(
        (set) => `--${set}=-all${capabilities}`,
      );
      return await startAgent(data, undefined, {
        within: ['setpriv', ...ids, ...caps, ...within],
        flags: [`--key-file=${join(image, 'etc/hansa-agent.key')}`],
        env: { NODE_COMPILE_CACHE: '' },
      });
    };
    const fetch = () =>
      hansa(['svid', 'fetch', '--socket', join(data, 'workload.sock'), '-o', 'json']);

    test('with its capabilities recognizes the programs of other users by path', async () => {
      const agent = await startAs(',+sys_ptrace,+dac_read_search');
      try {
        assert.match(await succeeds(fetch()), /spiffe:\/\/lubeck\.example\/program/);
        assert.doesNotMatch(agent.log(), /reduced rights/);
      } finally {
        await agent.signal('SIGTERM');
      }
    });

    test('without capabilities runs too, and says what is lost', async () => {
      const agent = await startAs('');
      try {
        const { code, stderr } = await fetch();
        assert.equal(code, 7, stderr);
        assert.match(
          agent.log(),
          /Without CAP_SYS_PTRACE, the selectors unix:path and unix:sha256/,
        );
        const show = (): Promise<string> => succeeds(lubeck('agent', 'show', 'crane-1'));
        await until(async () => /^why +Without CAP_SYS_PTRACE/m.test(await show()));
      } finally {
        assert.equal(await agent.signal('SIGTERM'), 0);
      }
    });

    const withoutStrace = has('strace') ? withoutAnalyze : 'strace is not installed';
    test('makes only system calls that its unit allows', { skip: withoutStrace }, async () => {
      const counts = join(data, 'calls');
      const agent = await startAs(',+sys_ptrace,+dac_read_search', 'strace', '-fco', counts);
      await succeeds(fetch());
      // To the agent itself: strace ends with it, and then writes its table.
      const children = readFileSync(`/proc/${agent.pid}/task/${agent.pid}/children`, 'utf8');
      process.kill(Number(children.trim().split(' ')[0]), 'SIGTERM');
      await agent.ended;
      const table = readFileSync(counts, 'utf8').split('\n').slice(2);
      const made = table.flatMap((line) => /^ *\d.* (\w+)$/.exec(line)?.[1] ?? []);
      assert.ok(made.includes('openat') && made.includes('accept4'), made.join(' '));
      const allowed = await allowedCalls(readFileSync(join(image, unitFile), 'utf8'));
      const denied = made.filter((call) => call !== 'total' && !allowed.has(call));
      assert.deepEqual(denied, []);
    });

    test('leaves nothing behind when it is uninstalled', async () => {
      await succeeds(hansa(['agent', 'uninstall', '--root', image, '--yes']));
      const left = Object.keys(treeOf(image)).toSorted();
      assert.deepEqual(left, ['etc/group', 'etc/passwd']);
      assert.equal(readFileSync(join(image, 'etc/passwd'), 'utf8'), '');
      assert.equal(readFileSync(join(image, 'etc/group'), 'utf8'), '');
    });
  },
);

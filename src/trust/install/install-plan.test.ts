import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { agentUnit } from './agent-unit.ts';
import {
  type FoundMachine,
  type InstallWish,
  newUnit,
  planInstall,
  planUninstall,
  type Step,
} from './install-plan.ts';

const fresh: FoundMachine = {
  callerIsRoot: true,
  runsSystemd: true,
  hasDropIns: false,
  hasGroup: false,
};
const wish: InstallWish = {
  launcher: '/opt/hansa/hansa',
  dataDir: '/var/lib/hansa-agent',
  user: 'hansa-agent',
  capabilities: true,
};
const installed: FoundMachine = {
  ...fresh,
  unit: newUnit(wish),
  userId: 990,
  hasGroup: true,
  dataDir: { ownerId: 990, isEmpty: false, hasJoined: true },
};

/** Commands as typed, other steps by kind and path. */
function told(steps: readonly Step[]): string[] {
  return steps.map(({ act }) =>
    act.kind === 'run' ? [act.program, ...act.args].join(' ') : `${act.kind} ${act.path}`,
  );
}

suite('installing the agent', () => {
  test('creates user and folder before the unit, and starts nothing that has not joined', () => {
    assert.deepEqual(told(planInstall(fresh, wish)), [
      'groupadd --system hansa-agent',
      'useradd --system --gid hansa-agent --home-dir /var/lib/hansa-agent --no-create-home --shell /usr/sbin/nologin --comment Hansa agent hansa-agent',
      'folder /var/lib/hansa-agent',
      'key /etc/hansa-agent.key',
      'write /etc/systemd/system/hansa-agent.service',
      'systemctl daemon-reload',
      'systemctl enable hansa-agent.service',
    ]);
  });

  test('starts an agent that has joined', () => {
    const dataDir = { ownerId: 0, isEmpty: false, hasJoined: true };
    const steps = told(planInstall({ ...fresh, dataDir }, wish));
    assert.equal(steps.at(-1), 'systemctl restart hansa-agent.service');
    assert.deepEqual(told(planInstall(fresh, wish, true)).slice(-1), steps.slice(-1));
  });

  test('again writes the unit, and still knows that it created the user', () => {
    const steps = planInstall(installed, wish);
    assert.ok(!told(steps).some((step) => step.startsWith('useradd')));
    const write = steps.find(({ act }) => act.kind === 'write')?.act;
    assert.match(write?.kind === 'write' ? write.content : '', /^CreatesUser=yes$/m);
  });

  test('keeps a user that existed before', () => {
    const steps = planInstall({ ...fresh, userId: 1000, hasGroup: true }, wish);
    const write = steps.find(({ act }) => act.kind === 'write')?.act;
    assert.match(write?.kind === 'write' ? write.content : '', /^CreatesUser=no$/m);
  });

  test('into an image calls no running systemd', () => {
    const steps = told(planInstall({ ...fresh, root: '/image', runsSystemd: false }, wish));
    assert.ok(steps.includes('systemctl --root=/image enable hansa-agent.service'));
    assert.ok(steps.includes('groupadd --prefix /image --system hansa-agent'));
    assert.ok(!steps.some((step) => /daemon-reload|restart/.test(step)));
  });

  for (const [why, found, wished, code] of [
    ['the caller is not root', { ...fresh, callerIsRoot: false }, wish, 'HANSA_FORBIDDEN'],
    ['the machine runs no systemd', { ...fresh, runsSystemd: false }, wish, 'HANSA_UNAVAILABLE'],
    [
      'the folder belongs to another user',
      { ...fresh, dataDir: { ownerId: 1000, isEmpty: true, hasJoined: false } },
      wish,
      'HANSA_CONFLICT',
    ],
    [
      'the folder contains other files',
      { ...fresh, dataDir: { ownerId: 0, isEmpty: false, hasJoined: false } },
      wish,
      'HANSA_CONFLICT',
    ],
    ['another program has the unit', { ...fresh, unit: '[Service]\n' }, wish, 'HANSA_CONFLICT'],
    [
      'it is installed with another folder',
      installed,
      { ...wish, dataDir: '/srv/agent' },
      'HANSA_ALREADY_EXISTS',
    ],
    ...['/', '/etc', '/var/', '/var/lib/..', 'agent', '/srv/a\nUser=root'].map(
      (dataDir) =>
        [
          `the folder is ${JSON.stringify(dataDir)}`,
          fresh,
          { ...wish, dataDir },
          'HANSA_USAGE',
        ] as const,
    ),
  ] as const) {
    test(`is refused where ${why}`, () => {
      assert.throws(() => planInstall(found, wished), { code });
    });
  }
});

suite('uninstalling the agent', () => {
  test('stops it first, and removes the unit file last', () => {
    assert.deepEqual(told(planUninstall({ ...installed, hasDropIns: true })), [
      'systemctl disable --now hansa-agent.service',
      'remove /var/lib/hansa-agent',
      'remove /etc/hansa-agent.key',
      'userdel hansa-agent',
      'groupdel --force hansa-agent',
      'remove /etc/systemd/system/hansa-agent.service.d',
      'remove /etc/systemd/system/hansa-agent.service',
      'systemctl daemon-reload',
    ]);
  });

  test('keeps a user that it did not create', () => {
    const unit = agentUnit({ ...wish, keyFile: '/etc/hansa-agent.key', createsUser: false });
    const steps = told(planUninstall({ ...installed, unit }));
    assert.ok(!steps.some((step) => /userdel|groupdel/.test(step)));
  });

  test('continues after an interruption', () => {
    const { userId: _user, dataDir: _folder, ...rest } = installed;
    assert.deepEqual(told(planUninstall({ ...rest, hasGroup: false })), [
      'systemctl disable --now hansa-agent.service',
      'remove /etc/hansa-agent.key',
      'remove /etc/systemd/system/hansa-agent.service',
      'systemctl daemon-reload',
    ]);
  });

  for (const [why, found, code] of [
    ['nothing is installed', fresh, 'HANSA_NOT_FOUND'],
    ['the caller is not root', { ...installed, callerIsRoot: false }, 'HANSA_FORBIDDEN'],
    ['another program has the unit', { ...installed, unit: '[Service]\n' }, 'HANSA_CONFLICT'],
    [
      'the unit names a folder of the system',
      { ...installed, unit: newUnit({ ...wish, dataDir: '/var' }) },
      'HANSA_USAGE',
    ],
  ] as const) {
    test(`is refused where ${why}`, () => {
      assert.throws(() => planUninstall(found), { code });
    });
  }
});

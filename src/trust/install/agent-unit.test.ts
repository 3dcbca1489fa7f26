import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { HansaError } from '../../core/errors/error.ts';
import { agentUnit, readUnit, type UnitSettings } from './agent-unit.ts';

const settings: UnitSettings = {
  launcher: '/opt/hansa/hansa',
  dataDir: '/var/lib/hansa-agent',
  keyFile: '/etc/hansa-agent.key',
  user: 'hansa-agent',
  capabilities: true,
  createsUser: true,
};

/** The values of one key, in order. */
function values(unit: string, key: string): string[] {
  return [...unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value = '']) => value);
}

suite('the systemd unit of the agent', () => {
  test('is the one in deploy/systemd, for packagers', () => {
    const file = join(import.meta.dirname, '../../../deploy/systemd/hansa-agent.service');
    assert.equal(readFileSync(file, 'utf8'), agentUnit(settings));
  });

  test('runs the agent with its data folder, as its user', () => {
    const unit = agentUnit(settings);
    assert.deepEqual(values(unit, 'ExecStart'), [
      '/opt/hansa/hansa agent run --data-dir /var/lib/hansa-agent --key-file /etc/hansa-agent.key',
    ]);
    assert.deepEqual(values(unit, 'User').slice(0, 1), ['hansa-agent']);
    assert.deepEqual(values(unit, 'ReadWritePaths'), ['/var/lib/hansa-agent']);
  });

  for (const key of ['PrivateUsers', 'ProtectProc', 'ProcSubset', 'PrivatePIDs']) {
    test(`does not set ${key}, which hides the processes of workloads`, () => {
      assert.deepEqual(values(agentUnit(settings), key), []);
    });
  }

  test('allows code that is compiled at run time', () => {
    assert.deepEqual(values(agentUnit(settings), 'MemoryDenyWriteExecute'), ['no']);
  });

  test('has only the capabilities that attestation uses, or none', () => {
    const caps = (capabilities: boolean) =>
      ['CapabilityBoundingSet', 'AmbientCapabilities'].map((key) =>
        values(agentUnit({ ...settings, capabilities }), key),
      );
    assert.deepEqual(caps(true), [
      ['CAP_SYS_PTRACE CAP_DAC_READ_SEARCH'],
      ['CAP_SYS_PTRACE CAP_DAC_READ_SEARCH'],
    ]);
    assert.deepEqual(caps(false), [[''], ['']]);
  });

  test('passes paths with spaces, quotes, percent and dollar signs unchanged', () => {
    const unit = agentUnit({ ...settings, dataDir: '/srv/my "agent"/100%/$HOME' });
    assert.deepEqual(values(unit, 'ExecStart'), [
      String.raw`/opt/hansa/hansa agent run --data-dir "/srv/my \"agent\"/100%%/$$HOME" --key-file /etc/hansa-agent.key`,
    ]);
  });
});

suite('a path with a control character', () => {
  for (const key of ['launcher', 'dataDir', 'keyFile', 'user'] as const) {
    for (const odd of ['\n', '\r', '\0', '\u001b']) {
      test(`is refused, and named: ${key} with ${JSON.stringify(odd)}`, () => {
        const path = `/srv/a${odd}ExecStartPre=/bin/true`;
        assert.throws(
          () => agentUnit({ ...settings, [key]: path }),
          ({ code, message }: HansaError) =>
            code === 'HANSA_USAGE' && message.includes(JSON.stringify(path)),
        );
      });
    }
  }
});

suite('the unit that is installed', () => {
  for (const createsUser of [true, false]) {
    test(`tells its folder and user, and that it created it: ${createsUser}`, () => {
      const wanted = { dataDir: '/srv/a = b/%$', keyFile: '/etc/k', user: 'spiffe', createsUser };
      assert.deepEqual(readUnit(agentUnit({ ...settings, ...wanted })), wanted);
    });
  }

  for (const [why, text] of [
    ['empty', ''],
    ['of another program', '[Service]\nExecStart=/bin/true\n'],
    ['without the folder', '[X-Hansa]\nKeyFile=/etc/k\nUser=a\nCreatesUser=yes\n'],
    ['without the key', '[X-Hansa]\nDataDir=/srv/a\nUser=a\nCreatesUser=yes\n'],
    ['without the user', '[X-Hansa]\nDataDir=/srv/a\nKeyFile=/etc/k\nCreatesUser=yes\n'],
    ['only a comment', '# [X-Hansa]\n'],
  ] as const) {
    test(`is not recognized where it is ${why}`, () => {
      assert.equal(readUnit(text), undefined);
    });
  }
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { controlGroupOf, systemdUnitOf } from './control-group.ts';

describe('the control group of a process', () => {
  test('is its path in the unified hierarchy', () => {
    assert.equal(controlGroupOf('0::/system.slice/web.service\n'), '/system.slice/web.service');
  });

  test('is its path in that of systemd where the unified one is not in use', () => {
    // As Debian 10 and Amazon Linux 2 write it.
    const legacy = [
      '11:pids:/system.slice/sshd.service',
      '10:memory:/system.slice',
      '4:cpu,cpuacct:/',
      '1:name=systemd:/system.slice/sshd.service',
      '0::/',
      '',
    ].join('\n');
    assert.equal(controlGroupOf(legacy), '/system.slice/sshd.service');
  });

  test('is what all hierarchies agree on where there is no systemd, and nothing where they do not', () => {
    assert.equal(controlGroupOf('2:memory:/docker/7d1f\n1:cpu:/docker/7d1f\n'), '/docker/7d1f');
    assert.equal(controlGroupOf('2:memory:/docker/7d1f\n1:cpu:/\n'), undefined);
  });

  test('may hold colons', () => {
    assert.equal(controlGroupOf('0::/kubepods/cri:abc\n'), '/kubepods/cri:abc');
  });

  for (const text of [
    '',
    '0::/../../other\n',
    '0::/system.slice/web.service (deleted)\n',
    '0::system.slice\n',
    '0::/a\n/web.service\n',
    'garbage',
    '0:/web.service',
    '\0',
  ]) {
    test(`cannot be told from ${JSON.stringify(text)}`, () => {
      assert.equal(controlGroupOf(text), undefined);
    });
  }

  test('of this very process can be read', () => {
    assert.match(controlGroupOf(readFileSync('/proc/self/cgroup', 'utf8')) ?? '/', /^\//);
  });

  test('is an absolute path or nothing, whatever the text', () => {
    const line = fc.tuple(
      fc.constantFrom('0:', '1:cpu', '1:name=systemd', ''),
      fc.string({ maxLength: 20 }),
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 4 }), (lines) => {
        const path = controlGroupOf(lines.map(([head, rest]) => `${head}:${rest}`).join('\n'));
        assert.ok(path === undefined || path.startsWith('/'));
      }),
    );
  });
});

describe('the systemd unit of a control group', () => {
  for (const [path, unit] of [
    ['/system.slice/web.service', 'web.service'],
    ['/system.slice/system-getty.slice/getty@tty1.service', 'getty@tty1.service'],
    ['/system.slice/web.service/worker', 'web.service'],
    ['/system.slice/_cgroup.service', 'cgroup.service'],
    ['/user.slice/user-1000.slice/session-3.scope', 'session-3.scope'],
    // What any user may call a unit of their own is not the unit of that name.
    ['/user.slice/user-1000.slice/user@1000.service/app.slice/web.service', 'user@1000.service'],
    ['/docker/7d1f/system.slice/web.service', undefined],
    ['/system.slice', undefined],
    ['/', undefined],
    ['/system.slice/web.socket', undefined],
    ['/system.slice/we b.service', undefined],
    ['/.service', undefined],
  ] as const) {
    test(`of ${path} is ${unit ?? 'none'}`, () => {
      assert.equal(systemdUnitOf(path), unit);
    });
  }
});

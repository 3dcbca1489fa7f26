import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AttestedFacts, toldSelectors, workloadProcess } from './workload-process.ts';

const own = ['unix:uid:1000', 'unix:path:/usr/bin/web', 'systemd:id:web.service'];

test('the selectors of a process are told whole, further groups last', () => {
  const selectors = ['unix:uid:1000', 'unix:supplementary_gid:27', ...own.slice(1)];
  assert.equal(toldSelectors({ selectors }), [...own, 'unix:supplementary_gid:27'].join(', '));
});

test('of a process with thousands of groups so many are told as fit, and how many more there are', () => {
  const groups = Array.from({ length: 5000 }, (_, at) => `unix:supplementary_gid:${at}`);
  const told = toldSelectors({ selectors: [...groups, ...own] });
  assert.ok(told.startsWith(own.join(', ')));
  assert.ok(told.length < 750, String(told.length));
  const shown = told.match(/supplementary/g)?.length ?? 0;
  assert.ok(told.endsWith(` and ${5000 - shown} more`), told);
});

const machine = {
  hashes: { of: () => Promise.resolve(undefined) },
  users: { nameOf: () => undefined },
  groups: { nameOf: () => undefined },
};
const facts: AttestedFacts = {
  uid: 1000,
  gid: 1000,
  pid: 4711,
  groups: [],
  path: '/srv/web',
  executable: { dev: 1n, ino: 2n, size: 3n, mtimeNs: 4n, ctimeNs: 5n },
  controlGroups: '0::/system.slice/web.service\n',
};

test('a path that spells out further selectors does not make a process the same as another', () => {
  const service = workloadProcess(facts, machine);
  assert.equal(workloadProcess({ ...facts, pid: 4712 }, machine).key, service.key);
  // A link to the very program, started where the control group cannot be told.
  const pretender = workloadProcess(
    {
      ...facts,
      path: '/srv/web\nsystemd:id:web.service\ncgroup:/system.slice/web.service',
      controlGroups: '0::/user.slice/x (deleted)\n',
    },
    machine,
  );
  assert.ok(!pretender.selectors.includes('systemd:id:web.service'));
  assert.notEqual(pretender.key, service.key);
});

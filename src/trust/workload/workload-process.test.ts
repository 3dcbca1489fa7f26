import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toldSelectors } from './workload-process.ts';

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

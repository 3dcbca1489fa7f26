import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sourceOf } from '../access/failure-limit.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { SourceBudget } from './source-budget.ts';

/** Four sources use up the budget of their network. */
function scene() {
  return new SourceBudget(new VirtualClock(), {
    source: { burst: 10, perSecond: 1 },
    network: { burst: 40, perSecond: 1 },
  });
}

for (const [family, spent, near, far] of [
  ['IPv4', (at: number) => `192.0.2.${at}`, '192.0.2.9', '198.51.100.1'],
  ['IPv6', (at: number) => `2001:db8:1:${at}::7`, '2001:db8:1:9::1', '2001:db8:2::1'],
] as const) {
  for (const [form, key] of [
    ['addresses', (address: string) => address],
    ['sources', sourceOf],
  ] as const) {
    test(`what ${form} of ${family} cost counts for their network, and for no other`, () => {
      const budget = scene();
      for (let at = 1; at <= 4; at++) budget.charge(key(spent(at)), 10);
      assert.notEqual(budget.waitSeconds(key(near)), undefined);
      assert.equal(budget.waitSeconds(key(far)), undefined);
    });
  }
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { tokenCaller } from '../../src/core/access/identity.ts';
import { approvalTtlMs } from '../../src/core/approvals/approval-object.ts';
import { maxPendingOfUser } from '../../src/core/approvals/approval-room.ts';
import { Simulation } from './simulation.ts';
import { clerk } from './thread/approval-watch.ts';
import { People } from './thread/people.ts';
import { until } from './thread/settled.ts';
import { ToldWaits } from './thread/told-waits.ts';
import { lubeck, TwoSites } from './thread/two-sites.ts';

test('the time that counts stands still while anybody waits as told', async () => {
  const simulation = new Simulation('told waits');
  const waits = new ToldWaits(simulation);
  await simulation.run(1000);
  const startedMs = waits.countedMs();
  const both = Promise.all([waits.wait(10), waits.wait(30)]);
  for (const ms of [5000, 15_000]) {
    await simulation.run(ms);
    assert.equal(waits.countedMs(), startedMs);
  }
  await simulation.run(12_000);
  await both;
  assert.equal(waits.countedMs(), startedMs + 2000);
});

test('people who requested too many approvals wait as told, and then get theirs', async () => {
  const sites = await TwoSites.start('told waits');
  const { world, simulation } = sites;
  const people = new People(world, { ttlMs: approvalTtlMs, twoPersons: new Set() });
  people.calm();
  await sites.done(people.found(lubeck));
  // As many as are allowed at once, except for one.
  for (let at = 1; at < maxPendingOfUser; at += 1) {
    const body = { for: `town-${at}.example` };
    const caller = tokenCaller(clerk, 'token', clerk);
    const asked = sites.site(lubeck).operate('POST', 'invite', body, caller);
    assert.equal((await sites.done(asked)).error?.code, 'HANSA_APPROVAL_REQUIRED');
  }
  const startedMs = simulation.clock.monotonic();
  const countedMs = world.toldWaits.countedMs();
  const invited = async (): Promise<void> => {
    for (let at = 0; at < 8; at += 1) {
      assert.notEqual(await people.invite(lubeck, undefined), undefined);
    }
  };
  await until(world, invited(), 'everybody has an invitation');
  const waitedMs =
    simulation.clock.monotonic() - startedMs - (world.toldWaits.countedMs() - countedMs);
  assert.ok(waitedMs > 60_000, `they waited only ${waitedMs} ms`);
});

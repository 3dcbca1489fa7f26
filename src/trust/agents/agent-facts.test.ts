import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import { AgentFacts } from './agent-facts.ts';

async function scene() {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const uids = new Map([['crane', 'u1']]);
  const merges: string[] = [];
  const { facts: table } = store;
  const facts = new AgentFacts({
    clock,
    replica: 'quay',
    uidOf: (agent) => uids.get(agent),
    store: {
      facts: {
        get: (collection, name) => table.get(collection, name),
        compute: (collection, name, compute) => table.compute(collection, name, compute),
        delete: (collection, name) => table.delete(collection, name),
        merge: (collection, name, values) => {
          merges.push(name);
          table.merge(collection, name, values);
        },
      },
    },
  });
  const about = { version: '1.0', host: 'quay-7', address: undefined };
  const read = () => table.get('agents', 'crane');
  return { clock, uids, merges, facts, about, read };
}

suite('the facts of an agent', () => {
  test('are written when it connects', async () => {
    const { facts, about, read } = await scene();
    facts.connected('crane', about);
    assert.deepEqual(read(), {
      uid: 'u1',
      version: '1.0',
      host: 'quay-7',
      replica: 'quay',
      isLost: false,
      lastSeenAt: '2026-01-01T00:00:00Z',
    });
  });

  test('are written every ten seconds, however many messages arrive', async () => {
    const { clock, facts, about, merges, read } = await scene();
    const agent = facts.connected('crane', about);
    for (let at = 0; at < 100; at++) {
      agent.seen();
      await clock.advance(1000);
    }
    assert.equal(merges.length, 11);
    assert.equal(read()?.['lastSeenAt'], '2026-01-01T00:01:39Z');
  });

  test('are not written while it is silent', async () => {
    const { clock, facts, about, merges } = await scene();
    facts.connected('crane', about);
    await clock.advance(3_600_000);
    assert.equal(merges.length, 1);
  });

  test('contain what it reports', async () => {
    const { facts, about, read } = await scene();
    const agent = facts.connected('crane', about);
    agent.reported({ entries: 3, workloads: 2, problems: ['the disk is full'] });
    agent.disconnected(false);
    assert.equal(read()?.['workloads'], 2);
    assert.deepEqual(read()?.['problems'], ['the disk is full']);
  });

  test('tell that an agent did not answer, and when its last message arrived', async () => {
    const { clock, facts, about, read } = await scene();
    const agent = facts.connected('crane', about);
    await clock.advance(5_000);
    agent.seen();
    await clock.advance(30_000);
    agent.disconnected(true);
    assert.equal(read()?.['lastSeenAt'], '2026-01-01T00:00:05Z');
    assert.equal(read()?.['isLost'], true);
    facts.connected('crane', about);
    assert.equal(read()?.['isLost'], false);
  });

  test('wait for the object of an agent that has just joined', async () => {
    const { clock, uids, facts, about, read } = await scene();
    uids.clear();
    facts.connected('crane', about);
    await clock.advance(30_000);
    assert.equal(read(), undefined);
    uids.set('crane', 'u2');
    await clock.advance(10_000);
    assert.equal(read()?.['host'], 'quay-7');
    assert.equal(read()?.['uid'], 'u2');
  });

  test('of a forgotten agent are dropped', async () => {
    const { clock, uids, facts, about, merges } = await scene();
    const agent = facts.connected('crane', about);
    agent.seen();
    uids.clear();
    agent.disconnected(false);
    uids.set('crane', 'u2');
    await clock.advance(60_000);
    assert.equal(merges.length, 1);
  });

  test('are complete after a stop', async () => {
    const { clock, facts, about, read } = await scene();
    const agent = facts.connected('crane', about);
    await clock.advance(5_000);
    agent.seen();
    facts.stop();
    assert.equal(read()?.['lastSeenAt'], '2026-01-01T00:00:05Z');
    await clock.advance(5_000);
    agent.seen();
    agent.disconnected(false);
    await clock.advance(60_000);
    assert.equal(read()?.['lastSeenAt'], '2026-01-01T00:00:05Z');
  });
});

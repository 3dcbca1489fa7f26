// Tests of session claims: one agent at a time, on one replica and on two.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { AgentMemory, quiet, TestAgent } from '../../core/agent/test-agent.ts';
import { put, testAudit, testReplica } from '../../core/agent/test-channel.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import type { Store } from '../../core/store/store.ts';
import {
  agentSession,
  liveSession,
  replicasCollection,
  sessionsReader,
} from './agent-session-records.ts';
import { SessionClaims } from './session-claims.ts';
import { silentLog } from '../../core/log/test-log.ts';

/** What agents held when their claims were released. */
const heldCollection = 'held';

/** Two replicas of a site. Each asks the database every second, as the renewal of leases does. */
async function site() {
  const clock = new VirtualClock();
  const database = new MemoryDatabase();
  const audit = testAudit();
  const conflicted = new Map<string, string>();
  const replica = async (name: string) => {
    let claims: SessionClaims | undefined;
    const made = await testReplica({
      clock,
      database,
      sessions: (store) => {
        claims = new SessionClaims({
          trustDomain: TrustDomain.parse('lubeck.example'),
          store,
          clock,
          random: new SeededRandom(name),
          log: silentLog,
          audit,
          replica: name,
          lost: (agent) => ({ delete: [{ collection: heldCollection, name: agent }] }),
          conflicts: {
            problemOf: (agent) => conflicted.get(agent),
            mark: async (agent, why, rows) => {
              await store.commit({ audit: rows });
              conflicted.set(agent, why);
            },
          },
        });
        return claims;
      },
    });
    const poll = (): void => {
      clock.timer(1000, () => void made.store.leases.list().then(poll));
    };
    poll();
    return { ...made, stopClaims: () => claims?.stop() };
  };
  const [one, two] = [await replica('one'), await replica('two')];
  return { clock, audit, conflicted, one, two };
}

type Site = Awaited<ReturnType<typeof site>>;

/** Lets the replicas see each other's changes. */
async function exchange({ one, two }: Site): Promise<void> {
  for (const { store } of [one, two]) {
    await store.leases.list();
    await quiet();
  }
}

async function connect(replica: Site['one'], session: string, memory = new AgentMemory()) {
  const agent = new TestAgent(memory, { session });
  const state: { ended?: { code: string; message: string } } = {};
  const serve = async (): Promise<void> => {
    state.ended = await replica.serve(agent);
  };
  void serve();
  agent.hello();
  await quiet();
  return { agent, state };
}

const holds = async ({ store }: Site['one']): Promise<void> => {
  const place = { collection: heldCollection, name: 'crane' };
  await store.commit({ put: [{ ...place, encode: () => Buffer.from('{}') }] });
};
const isHeld = ({ store }: Site['one']): boolean =>
  store.get(heldCollection, 'crane') !== undefined;
const holderOf = (store: Store): string | undefined => agentSession(store, 'crane')?.replica;

suite('a claim', () => {
  test('is recorded while the agent is connected', async () => {
    const { one } = await site();
    const { agent } = await connect(one, 'a');
    assert.equal(holderOf(one.store), 'one');
    assert.equal(agentSession(one.store, 'crane')?.serial, '0a');
    agent.close();
    await quiet();
    assert.equal(holderOf(one.store), undefined);
  });

  test('after one that was released leaves what its release stored', async () => {
    const { one } = await site();
    const { agent } = await connect(one, 'a');
    agent.close();
    await quiet();
    await holds(one);
    await connect(one, 'b');
    assert.ok(isHeld(one));
  });

  test('of the same process replaces the one before at once', async () => {
    const { one } = await site();
    const before = await connect(one, 'a');
    await holds(one);
    const after = await connect(one, 'a');
    assert.ok(!isHeld(one));
    assert.equal(before.state.ended?.code, 'HANSA_UNAVAILABLE');
    assert.equal(after.agent.states.length, 1);
    assert.equal(holderOf(one.store), 'one');
  });

  test('of the same process at another replica replaces the one before, which is told', async () => {
    const parts = await site();
    const memory = new AgentMemory();
    await put(parts.one.store, 'crane', 'a', '1');
    const before = await connect(parts.one, 'a', memory);
    const after = await connect(parts.two, 'a', memory);
    await exchange(parts);
    assert.equal(before.state.ended?.code, 'HANSA_UNAVAILABLE');
    assert.equal(holderOf(parts.two.store), 'two');
    assert.deepEqual(after.agent.states[0]?.put, [], 'only the difference');
  });

  test('of a process that restarted is free when the connection of the old one has ended', async () => {
    const { one } = await site();
    const before = await connect(one, 'a');
    before.agent.abort();
    const after = await connect(one, 'b');
    assert.equal(after.agent.states.length, 1);
  });

  test('waits for a ping that the holder does not answer, and then replaces it', async () => {
    const parts = await site();
    const before = await connect(parts.one, 'a');
    before.agent.answersPings = false;
    const after = await connect(parts.one, 'b');
    assert.equal(after.agent.states.length, 0);
    await parts.clock.advance(3_001);
    await quiet();
    assert.equal(before.state.ended?.code, 'HANSA_TIMEOUT');
    assert.equal(after.agent.states.length, 1);
    assert.equal(parts.conflicted.size, 0);
  });

  test('replaces the stream of a replica that died', async () => {
    const parts = await site();
    const { agent } = await connect(parts.one, 'a');
    agent.answersPings = false;
    const record = sessionsReader.get(parts.one.store, 'crane');
    assert.ok(record);
    const dead = { holder: { ...record.holder, replica: 'dead', stream: 'gone' } };
    await parts.one.store.commit({
      put: [
        {
          collection: 'trust.agent-sessions',
          name: 'crane',
          encode: () => Buffer.from(JSON.stringify(dead)),
        },
      ],
    });
    await holds(parts.one);
    await quiet();
    const after = await connect(parts.one, 'b');
    assert.equal(after.agent.states.length, 0);
    await parts.clock.advance(6_001);
    await quiet();
    assert.equal(after.agent.states.length, 1);
    assert.ok(!isHeld(parts.one));
    assert.equal(parts.conflicted.size, 0);
  });
});

suite('two live processes with one identity', () => {
  for (const where of ['one replica', 'two replicas'] as const) {
    test(`at ${where} make the agent conflicted, and the first stays`, async () => {
      const parts = await site();
      const first = await connect(parts.one, 'a');
      const second = await connect(where === 'one replica' ? parts.one : parts.two, 'b');
      for (let at = 0; at < 3; at++) {
        await parts.clock.advance(1000);
        await exchange(parts);
      }
      assert.equal(second.state.ended?.code, 'HANSA_UNAVAILABLE');
      assert.match(second.state.ended?.message ?? '', /connected with its identity/);
      assert.equal(second.agent.states.length, 0);
      assert.equal(first.state.ended, undefined);
      assert.match(parts.conflicted.get('crane') ?? '', /192\.0\.2\.1/);
      assert.equal(sessionsReader.get(parts.one.store, 'crane')?.contender, undefined);
      const [row] = parts.audit.records;
      assert.equal(row?.verb, 'agent.connect');
      assert.equal(row?.outcome, 'deny');
      assert.equal(row?.name, 'crane');
    });
  }

  test('stay in conflict when the first disconnects: only that one may come back', async () => {
    const parts = await site();
    const first = await connect(parts.one, 'a');
    await connect(parts.one, 'b');
    first.agent.close();
    await quiet();
    const second = await connect(parts.two, 'b');
    await exchange(parts);
    assert.equal(second.state.ended?.code, 'HANSA_UNAVAILABLE');
    assert.equal(parts.audit.denials.length > 0, true);
    const again = await connect(parts.one, 'a');
    assert.equal(again.agent.states.length, 1);
  });

  test('are free again when an operator has reinstated the agent and one of them is gone', async () => {
    const parts = await site();
    const first = await connect(parts.one, 'a');
    await connect(parts.one, 'b');
    first.agent.close();
    await quiet();
    parts.conflicted.clear();
    const second = await connect(parts.one, 'b');
    assert.equal(second.agent.states.length, 1);
  });

  test('conflict again after a reinstatement where both are still there', async () => {
    const parts = await site();
    await connect(parts.one, 'a');
    await connect(parts.one, 'b');
    parts.conflicted.clear();
    const again = await connect(parts.one, 'b');
    assert.equal(again.state.ended?.code, 'HANSA_UNAVAILABLE');
    assert.equal(parts.conflicted.size, 1);
  });

  test('make a third one wait', async () => {
    const parts = await site();
    const first = await connect(parts.one, 'a');
    first.agent.answersPings = false;
    await connect(parts.one, 'b');
    const third = await connect(parts.two, 'c');
    await exchange(parts);
    assert.equal(third.state.ended?.code, 'HANSA_UNAVAILABLE');
    assert.equal(parts.conflicted.size, 0);
  });

  test('are no conflict where the second one is dead when the site reads its hello', async () => {
    const parts = await site();
    const first = await connect(parts.one, 'a');
    const dead = new TestAgent(new AgentMemory(), { session: 'b' });
    dead.answersPings = false;
    const ended = parts.one.serve(dead);
    dead.hello();
    await quiet();
    assert.equal(sessionsReader.get(parts.one.store, 'crane')?.contender, undefined);
    await parts.clock.advance(3_001);
    assert.equal((await ended).code, 'HANSA_TIMEOUT');
    assert.equal(first.state.ended, undefined);
    assert.equal(parts.conflicted.size, 0);
  });

  test('are no conflict where the second one ends before the first has answered', async () => {
    const parts = await site();
    const first = await connect(parts.one, 'a');
    const second = await connect(parts.two, 'b');
    assert.equal(sessionsReader.get(parts.two.store, 'crane')?.contender?.replica, 'two');
    second.agent.abort();
    await quiet();
    await exchange(parts);
    assert.equal(sessionsReader.get(parts.one.store, 'crane')?.contender, undefined);
    assert.equal(first.state.ended, undefined);
    assert.equal(parts.conflicted.size, 0);
  });

  test('are no conflict where the second gave up and the first reconnects', async () => {
    const parts = await site();
    const first = await connect(parts.one, 'a');
    first.agent.answersPings = false;
    const second = await connect(parts.one, 'b');
    second.agent.abort();
    await parts.clock.advance(3_001);
    await quiet();
    const again = await connect(parts.one, 'a');
    assert.equal(again.agent.states.length, 1);
    assert.equal(parts.conflicted.size, 0);
  });
});

suite('a connected agent', () => {
  const isLiveAt = ({ clock }: Site, { store }: Site['one']): boolean =>
    liveSession(store, 'crane', clock.now()) !== undefined;
  const pass = async (parts: Site, ms: number): Promise<void> => {
    for (let at = 0; at < ms; at += 1000) {
      await parts.clock.advance(1000);
      await quiet();
    }
    await exchange(parts);
  };

  test('is live at the other replica, too, for as long as its stream lives', async () => {
    const parts = await site();
    const { agent } = await connect(parts.two, 'a');
    for (let minute = 0; minute < 5; minute++) {
      await pass(parts, 60_000);
      assert.deepEqual([isLiveAt(parts, parts.one), isLiveAt(parts, parts.two)], [true, true]);
    }
    agent.close();
    await quiet();
    await exchange(parts);
    assert.equal(isLiveAt(parts, parts.one), false);
  });

  test('is no longer live a minute after its replica died', async () => {
    const parts = await site();
    await connect(parts.two, 'a');
    await pass(parts, 30_000);
    parts.two.stopClaims();
    await pass(parts, 40_000);
    assert.equal(isLiveAt(parts, parts.one), true);
    await pass(parts, 11_000);
    assert.equal(isLiveAt(parts, parts.one), false);
  });

  test('costs no commit of its own: one per replica every 20 seconds', async () => {
    const parts = await site();
    await connect(parts.one, 'a');
    await pass(parts, 1000);
    const { revision } = parts.one.store;
    await pass(parts, 120_000);
    assert.equal(parts.one.store.revision, revision + 6);
  });

  test('that disconnects in a conflict is not live, although the site remembers it', async () => {
    const parts = await site();
    const first = await connect(parts.one, 'a');
    await connect(parts.one, 'b');
    assert.equal(parts.conflicted.size, 1);
    first.agent.close();
    await exchange(parts);
    assert.equal(holderOf(parts.one.store), 'one');
    assert.equal(isLiveAt(parts, parts.one), false);
  });

  test('leaves no record of a replica that died long ago', async () => {
    const parts = await site();
    const encode = () => Buffer.from(JSON.stringify({ aliveAtMs: parts.clock.now() - 595_000 }));
    await parts.one.store.commit({
      put: [{ collection: replicasCollection, name: 'old', encode }],
    });
    await connect(parts.one, 'a');
    await pass(parts, 21_000);
    const { entries } = parts.one.store.list(replicasCollection);
    assert.deepEqual(
      entries.map(({ name }) => name),
      ['one'],
    );
  });

  test('is not live because of a time in the future', async () => {
    const parts = await site();
    await connect(parts.one, 'a');
    const { store } = parts.one;
    assert.equal(liveSession(store, 'crane', parts.clock.now() - 3_600_000), undefined);
  });

  test('is released later where the store cannot write when its stream ends', async () => {
    const parts = await site();
    const { agent } = await connect(parts.one, 'a');
    const { store } = parts.one;
    const commit = store.commit.bind(store);
    store.commit = () => Promise.reject(new Error('the disk is full'));
    agent.close();
    await quiet();
    assert.equal(holderOf(store), 'one');
    store.commit = commit;
    await pass(parts, 21_000);
    assert.equal(holderOf(store), undefined);
  });
});

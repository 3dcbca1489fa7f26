// An agent that moves between two replicas while its items change at both of them.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { VirtualClock } from '../clock/virtual.ts';
import { MemoryDatabase } from '../store/memory/driver.ts';
import { hashState } from './state.ts';
import { AgentMemory, quiet, TestAgent } from './test-agent.ts';
import { put, remove, testReplica } from './test-channel.ts';

const names = ['a', 'b', 'c', 'd'];

const step = fc.oneof(
  fc.record({
    do: fc.constant('put' as const),
    at: fc.nat(1),
    name: fc.constantFrom(...names),
    value: fc.string({ maxLength: 3 }),
  }),
  fc.record({ do: fc.constant('remove' as const), at: fc.nat(1), name: fc.constantFrom(...names) }),
  fc.record({ do: fc.constant('connect' as const), at: fc.nat(1), clean: fc.boolean() }),
  fc.record({ do: fc.constant('refuse' as const) }),
  fc.record({ do: fc.constant('stall' as const) }),
  fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 2000 }) }),
);

suite('an agent', () => {
  test('ends with exactly the items that it should have, whatever it went through', () =>
    fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), fc.nat(1), async (steps, last) => {
        const clock = new VirtualClock();
        const database = new MemoryDatabase();
        const replicas = [
          await testReplica({ clock, database }),
          await testReplica({ clock, database }),
        ] as const;
        const memory = new AgentMemory();
        let agent: TestAgent | undefined;
        const connect = async (at: number): Promise<void> => {
          // A closed connection delivers nothing more.
          agent?.abort();
          agent = new TestAgent(memory);
          void replicas[at as 0 | 1].serve(agent);
          agent.hello();
          await quiet();
        };
        for (const one of steps) {
          if (one.do === 'wait') await clock.advance(one.ms);
          else if (one.do === 'refuse' && agent !== undefined) agent.refuses = 'because';
          else if (one.do === 'stall') agent?.pause();
          else if (one.do === 'connect') await connect(one.at);
          else if (one.do === 'put') {
            await put(replicas[one.at as 0 | 1].store, 'crane', one.name, one.value);
          } else if (one.do === 'remove') {
            await remove(replicas[one.at as 0 | 1].store, 'crane', one.name);
          }
        }
        await connect(last);
        await clock.advance(1000);
        await quiet();
        const { store } = replicas[last as 0 | 1];
        // Other replicas are seen with the next transaction.
        await store.leases.list();
        await quiet();
        const wanted = store.list('crane').entries;
        assert.deepEqual(
          [...memory.items.values()]
            .map(({ name, value }) => [name, value.toString()])
            .toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)),
          wanted.map(({ name, value }) => [name, value.toString()]),
        );
        assert.deepEqual(memory.version?.hash, hashState(memory.items.values()));
        assert.ok((memory.version?.revision ?? 0) <= store.revision);
        agent?.abort();
      }),
      { numRuns: 60 },
    ));

  test('that moves gets only what changed in between', async () => {
    const clock = new VirtualClock();
    const database = new MemoryDatabase();
    const one = await testReplica({ clock, database });
    const two = await testReplica({ clock, database });
    for (const name of names) await put(one.store, 'crane', name, 'x'.repeat(10_000));
    const memory = new AgentMemory();
    const before = new TestAgent(memory);
    void one.serve(before);
    before.hello();
    await quiet();
    before.abort();
    await put(one.store, 'crane', 'b', 'new');
    const after = new TestAgent(memory);
    void two.serve(after);
    after.hello();
    await clock.advance(500);
    await quiet();
    await two.store.leases.list();
    await quiet();
    const sent = after.states.flatMap((state) => state.put.map((item) => item.name?.name));
    assert.deepEqual(sent, ['b']);
    assert.equal(memory.names.length, 4);
    after.abort();
  });
});

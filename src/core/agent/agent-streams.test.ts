// Tests of the site's end of the channel, with agents in memory.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { MemoryDatabase } from '../store/memory/driver.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { maxHelloItems, stateMessageBytes } from './limits.ts';
import { AgentMemory, quiet, TestAgent } from './test-agent.ts';
import { put, remove, testReplica, type TestReplica } from './test-channel.ts';
import { AgentItem, hashState } from './state.ts';

async function connected(replica: TestReplica, memory = new AgentMemory()) {
  const agent = new TestAgent(memory);
  const ended = replica.serve(agent);
  agent.hello();
  await quiet();
  return { agent, ended };
}

/** What an agent holds that was connected before. */
async function memoryAfter(replica: TestReplica): Promise<AgentMemory> {
  const { agent, ended } = await connected(replica);
  agent.close();
  await ended;
  return agent.memory;
}

suite('an agent that connects', () => {
  test('gets a whole state where it holds nothing', async () => {
    const replica = await testReplica();
    await put(replica.store, 'crane', 'a', '1');
    await put(replica.store, 'crane', 'b', '2');
    const { agent } = await connected(replica);
    assert.deepEqual(agent.memory.names, ['a', 'b']);
    assert.equal(agent.states.length, 1);
    assert.equal(agent.states[0]?.base.byteLength, 0);
    assert.equal(agent.memory.version?.epoch, 1);
    assert.equal(agent.memory.version?.revision, replica.store.revision);
  });

  test('gets an empty step where it holds everything, so that it knows that it is up to date', async () => {
    const replica = await testReplica();
    await put(replica.store, 'crane', 'a', '1');
    const memory = await memoryAfter(replica);
    const { agent } = await connected(replica, memory);
    assert.equal(agent.states.length, 1);
    assert.deepEqual(agent.states[0]?.put, []);
    assert.deepEqual(Buffer.from(agent.states[0]?.base ?? []), memory.version?.hash);
  });

  test('gets only the difference where it holds an older state', async () => {
    const replica = await testReplica();
    for (const name of ['a', 'b', 'c']) await put(replica.store, 'crane', name, '1');
    const memory = await memoryAfter(replica);
    await put(replica.store, 'crane', 'b', '2');
    await remove(replica.store, 'crane', 'c');
    const { agent } = await connected(replica, memory);
    assert.deepEqual(
      agent.states.map((state) => [state.put.map((item) => item.name?.name), state.delete.length]),
      [[['b'], 1]],
    );
    assert.deepEqual(memory.names, ['a', 'b']);
  });

  test('gets a whole state where its state is of another database', async () => {
    const other = await testReplica();
    await put(other.store, 'crane', 'old', '1');
    const memory = await memoryAfter(other);
    assert.ok(memory.version);
    memory.version = { ...memory.version, incarnation: 'another', revision: 1_000_000 };
    const replica = await testReplica();
    const { agent } = await connected(replica, memory);
    assert.equal(agent.states[0]?.base.byteLength, 0);
    assert.deepEqual(memory.names, []);
  });

  test('gets a whole state where its items do not fit its hash', async () => {
    const replica = await testReplica();
    await put(replica.store, 'crane', 'a', '1');
    const memory = await memoryAfter(replica);
    const extra = new AgentItem('records', 'crane', 'extra', Buffer.from('x'));
    memory.items.set('extra', extra);
    const { agent } = await connected(replica, memory);
    assert.equal(agent.states[0]?.base.byteLength, 0);
    assert.deepEqual(memory.names, ['a']);
  });

  test('gets a large state in several messages, which count when the last has arrived', async () => {
    const replica = await testReplica();
    const value = 'x'.repeat(stateMessageBytes / 4);
    for (let at = 0; at < 10; at++) await put(replica.store, 'crane', `n${at}`, value);
    const { agent } = await connected(replica);
    assert.deepEqual(
      agent.states.map((state) => [state.more, state.put.length]),
      [
        [true, 4],
        [true, 4],
        [false, 2],
      ],
    );
    assert.equal(agent.memory.names.length, 10);
  });

  test('waits for a replica that is behind, and gets only the difference from it', async () => {
    const clock = new VirtualClock();
    const database = new MemoryDatabase();
    const one = await testReplica({ clock, database });
    const two = await testReplica({ clock, database });
    await put(one.store, 'crane', 'a', '1');
    await put(one.store, 'crane', 'b', '1');
    const memory = await memoryAfter(one);
    assert.ok(two.store.revision < (memory.version?.revision ?? 0));
    const { agent } = await connected(two, memory);
    await clock.advance(200);
    await quiet();
    assert.equal(agent.states.length, 1);
    assert.deepEqual(agent.states[0]?.put, []);
    assert.deepEqual(memory.names, ['a', 'b']);
  });

  for (const [what, newer] of [
    ['revision', { revision: 1_000_000 }],
    ['epoch', { epoch: 7 }],
  ] as const) {
    test(`is sent elsewhere by a replica that does not reach its ${what} in time`, async () => {
      const replica = await testReplica();
      const memory = await memoryAfter(replica);
      assert.ok(memory.version);
      memory.version = { ...memory.version, ...newer };
      const { agent, ended } = await connected(replica, memory);
      await replica.clock.advance(9_000);
      const { code, message } = await ended;
      assert.equal(code, 'HANSA_UNAVAILABLE');
      assert.match(message, /this replica is at revision/);
      assert.deepEqual(agent.states, []);
    });
  }
});

suite('a connected agent', () => {
  test('gets each change as a step with the hash before and after', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    await remove(replica.store, 'crane', 'a');
    await quiet();
    const [whole, first, second] = agent.states;
    assert.equal(agent.states.length, 3);
    assert.deepEqual(first?.base, whole?.version?.hash);
    assert.deepEqual(second?.base, first?.version?.hash);
    assert.deepEqual(
      second?.delete.map(({ name }) => name),
      ['a'],
    );
    assert.deepEqual(Buffer.from(second?.version?.hash ?? []), hashState([]));
  });

  test('gets changes of one moment as one step', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    await Promise.all(['a', 'b', 'c'].map((name) => put(replica.store, 'crane', name, '1')));
    await quiet();
    assert.equal(agent.states.length, 2);
    assert.equal(agent.states[1]?.put.length, 3);
  });

  test('is not told of changes that concern others', async () => {
    const replica = await testReplica({ agents: ['crane', 'hoist'] });
    const { agent } = await connected(replica);
    await put(replica.store, 'hoist', 'a', '1');
    await quiet();
    assert.equal(agent.states.length, 1);
  });

  test('that does not acknowledge gets nothing more, and then the newest state in one step', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    agent.acknowledges = false;
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    for (const value of ['2', '3', '4']) {
      await put(replica.store, 'crane', 'a', value);
      await quiet();
    }
    assert.equal(agent.states.length, 2);
    agent.acknowledges = true;
    agent.acknowledge(agent.states[1]?.version);
    await quiet();
    assert.equal(agent.states.length, 3);
    assert.deepEqual(
      agent.states[2]?.put.map(({ value }) => Buffer.from(value).toString()),
      ['4'],
    );
  });

  test('that reads slowly holds one message, and delays no other agent', async () => {
    const replica = await testReplica({ agents: ['crane', 'hoist'] });
    const slow = await connected(replica);
    const fast = new TestAgent(new AgentMemory(), { name: 'hoist' });
    void replica.serve(fast);
    fast.hello();
    await quiet();
    slow.agent.pause();
    const value = 'x'.repeat(stateMessageBytes);
    for (const name of ['a', 'b', 'c']) await put(replica.store, 'crane', name, value);
    await put(replica.store, 'hoist', 'a', '1');
    await quiet();
    assert.equal(slow.agent.waitingWrites, 1);
    assert.deepEqual(fast.memory.names, ['a']);
    slow.agent.resume();
    await quiet();
    assert.deepEqual(slow.agent.memory.names, ['a', 'b', 'c']);
  });

  test('gets a whole state after it refused a change', async () => {
    const replica = await testReplica();
    await put(replica.store, 'crane', 'a', '1');
    const { agent } = await connected(replica);
    agent.refuses = 'the hash differs';
    await put(replica.store, 'crane', 'b', '1');
    await quiet();
    assert.deepEqual(
      agent.states.map(({ base }) => base.byteLength > 0),
      [false, true, false],
    );
    assert.deepEqual(agent.memory.names, ['a', 'b']);
    assert.match(replica.metrics.expose(), /^hansa_agent_states_refused_total 1$/m);
  });

  test('that refuses a whole state is disconnected, so that it does not get it for ever', async () => {
    const replica = await testReplica();
    const agent = new TestAgent();
    agent.refuses = 'no room';
    const ended = replica.serve(agent);
    agent.hello();
    await quiet();
    assert.deepEqual(await ended, {
      code: 'HANSA_UNAVAILABLE',
      message: 'The agent refused a whole state: no room',
    });
  });

  test('gets a new epoch of the site at once', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    replica.site.epoch = 2;
    replica.streams.changed(undefined);
    await quiet();
    assert.equal(agent.memory.version?.epoch, 2);
    assert.deepEqual(agent.states[1]?.put, []);
  });

  test('gets the items of a section that is registered later, and loses them with it', async () => {
    const replica = await testReplica();
    const { agent } = await connected(replica);
    const unregister = replica.sections.register({
      name: 'overlay',
      itemsOf: () => [new AgentItem('overlay', 'things', 'x', Buffer.from('1'))],
      onChange: () => () => undefined,
    });
    await quiet();
    assert.deepEqual(agent.memory.names, ['x']);
    unregister();
    await quiet();
    assert.deepEqual(agent.memory.names, []);
  });

  test('whose section fails is disconnected, and others are not', async () => {
    const replica = await testReplica({ agents: ['crane', 'hoist'] });
    const broken = await connected(replica);
    const other = new TestAgent(new AgentMemory(), { name: 'hoist' });
    void replica.serve(other);
    other.hello();
    await quiet();
    replica.sections.register({
      name: 'overlay',
      itemsOf: (agent) => {
        if (agent === 'crane') throw new Error('a bug');
        return [];
      },
      onChange: () => () => undefined,
    });
    await quiet();
    assert.equal((await broken.ended).code, 'HANSA_INTERNAL');
    await put(replica.store, 'hoist', 'a', '1');
    await quiet();
    assert.deepEqual(other.memory.names, ['a']);
  });

  test('whose authority was revoked gets the newest state, and is disconnected when it has it', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.isRevoked = true;
    await put(replica.store, 'crane', 'bundle', 'new');
    await quiet();
    assert.deepEqual(agent.memory.names, ['bundle']);
    const { code } = await ended;
    assert.equal(code, 'HANSA_FORBIDDEN');
  });

  test('whose authority was revoked stays for a state that was sent after it, not for one before', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    agent.acknowledges = false;
    await put(replica.store, 'crane', 'a', '1');
    await quiet();
    agent.isRevoked = true;
    agent.acknowledges = true;
    agent.acknowledge(agent.states.at(-1)?.version);
    await put(replica.store, 'crane', 'bundle', 'new');
    await quiet();
    assert.deepEqual(agent.memory.names, ['a', 'bundle']);
    assert.equal((await ended).code, 'HANSA_FORBIDDEN');
  });

  test('is counted while it is connected', async () => {
    const replica = await testReplica();
    const { agent, ended } = await connected(replica);
    assert.match(replica.metrics.expose(), /^hansa_agents_connected 1$/m);
    agent.close();
    assert.equal((await ended).code, 'OK');
    await quiet();
    assert.match(replica.metrics.expose(), /^hansa_agents_connected 0$/m);
    assert.deepEqual(replica.reports, ['disconnected']);
  });
});

suite('a hello', () => {
  const itemNamed = (name: string) => ({
    name: { section: 's', collection: 'c', name },
    digest: Buffer.alloc(32),
  });
  const version = { incarnation: 'i', revision: 1n, epoch: 1n, hash: Buffer.alloc(32) };
  const session = Buffer.alloc(16);
  for (const [what, value] of [
    ['without a session', { held: version }],
    ['with a session of another length', { session: Buffer.alloc(15) }],
    [
      'with two items of one name',
      { session, held: version, items: [itemNamed('a'), itemNamed('a')] },
    ],
    ['with a NUL in a name', { session, held: version, items: [itemNamed('a\0b')] }],
    [
      'with a name that is too long',
      { session, held: version, items: [itemNamed('a'.repeat(600))] },
    ],
    [
      'with a digest of another length',
      { session, held: version, items: [{ ...itemNamed('a'), digest: Buffer.alloc(31) }] },
    ],
    [
      'with an item without a name',
      { session, held: version, items: [{ digest: Buffer.alloc(32) }] },
    ],
    ['with a revision that is too large', { session, held: { ...version, revision: 2n ** 60n } }],
    [
      'with too many items',
      {
        session,
        held: version,
        items: Array.from({ length: maxHelloItems + 10 }, (_, at) => itemNamed(`${at}`)),
      },
    ],
  ] as const) {
    test(`${what} is refused`, async () => {
      const replica = await testReplica();
      const agent = new TestAgent();
      const ended = replica.serve(agent);
      agent.say({ case: 'hello', value: value as never });
      assert.equal((await ended).code, 'HANSA_BAD_REQUEST');
    });
  }

  test('that does not come ends the stream', async () => {
    const replica = await testReplica();
    const ended = replica.serve(new TestAgent());
    await replica.clock.advance(10_001);
    assert.equal((await ended).code, 'HANSA_TIMEOUT');
  });
});

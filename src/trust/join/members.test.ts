import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { underLease } from '../../core/lease/current-fence.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import { openStore } from '../../core/store/open.ts';
import type { Commit, Store } from '../../core/store/store.ts';
import { formerAgentsCollection, membersCollection } from './member-records.ts';
import { type Member, Members } from './members.ts';

async function scene(records: readonly (readonly [instance: string, value: string])[]) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  for (const [name, value] of records) {
    const collection = membersCollection;
    await store.commit({ put: [{ collection, name, encode: () => Buffer.from(value) }] });
  }
  return { clock, store, members: new Members(store, clock) };
}

function bot(notAfterMs: number): string {
  const member: Member = {
    role: 'bot',
    name: 'ci',
    token: 'ci-runners',
    provenBy: 'spiffe://bruges.example/ci',
    joinedAtMs: 0,
    renewedAtMs: 0,
    generation: 1,
    serial: '01',
    key: '02',
    notAfterMs,
  };
  return JSON.stringify(member);
}

test('members are counted without reading any of them: scrapes come often', async () => {
  const { members } = await scene([
    ['agent/crane-1', 'not read'],
    ['agent/crane-2', 'not read'],
    ['bot/ci/0', 'not read'],
  ]);
  assert.deepEqual(members.counts, { agent: 2, bot: 1 });
});

test('others have their turn while thousands of bots are looked at', async () => {
  const records = Array.from(
    { length: 1000 },
    (_, at) => [`bot/ci/${at}`, bot(Number.MAX_SAFE_INTEGER)] as const,
  );
  const { members } = await scene(records);
  let turns = 0;
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  await members.prune();
  clearImmediate(next);
  assert.ok(turns >= 4, `${turns} turns`);
});

test('bots that are over go in batches, one after the other, and are then looked for once a minute', async () => {
  const records = Array.from({ length: 120 }, (_, at) => [`bot/ci/${at}`, bot(0)] as const);
  const { members, store, clock } = await scene([
    ...records,
    ['agent/crane-1', bot(0).replace('"bot"', '"agent"')],
  ]);
  const left: number[] = [];
  const prune = async (): Promise<void> => {
    await members.prune();
    left.push(members.counts.bot);
  };
  await prune();
  await prune();
  const late = { collection: membersCollection, name: 'bot/ci/late' };
  await store.commit({ put: [{ ...late, encode: () => Buffer.from(bot(0)) }] });
  await prune();
  await clock.advance(60_000);
  await prune();
  assert.deepEqual(left, [56, 0, 1, 0]);
  assert.equal(members.counts.agent, 1);
});

test('by one token so many join, and those who come by another are not kept out by them', async () => {
  const never = Number.MAX_SAFE_INTEGER;
  const { store, clock } = await scene([
    ['bot/ci/old', bot(0)],
    ['bot/ci/new', bot(never)],
  ]);
  const members = new Members(store, clock, { ofToken: 2 });
  const newBot = JSON.parse(bot(never)) as Member;
  await members.prune();
  await members.put('bot/ci/1', undefined, newBot, []);
  await assert.rejects(members.put('bot/ci/2', undefined, newBot, []), {
    code: 'HANSA_TOO_MANY_REQUESTS',
    message: /token ci-runners already has 2 members/,
  });
  await members.put('bot/other/1', undefined, { ...newBot, token: 'other' }, []);
  // Existing members can renew, and a forgotten one makes room.
  await members.put('bot/ci/1', members.get('bot/ci/1'), { ...newBot, generation: 2 }, []);
  await members.forget('bot/ci/new', []);
  await members.put('bot/ci/3', undefined, newBot, []);
});

test('every instance of a bot is forgotten, also one that renews meanwhile, and no other bot', async () => {
  const mine = Array.from({ length: 120 }, (_, at) => [`bot/ci/${at}`, bot(1)] as const);
  const { members, store, clock } = await scene([
    ...mine,
    ['bot/cinema/0', bot(1)],
    ['agent/ci', bot(1)],
  ]);
  let commits = 0;
  const busy = {
    get: store.get.bind(store),
    list: store.list.bind(store),
    commit: async (commit: Commit) => {
      if (commits++ === 0) {
        const renewed = JSON.parse(bot(2)) as Member;
        await members.put('bot/ci/10', members.get('bot/ci/10'), renewed, []);
      }
      return await store.commit(commit);
    },
  } as unknown as Store;
  let told = 0;
  const forgotten = await new Members(busy, clock).forgetBot('ci', (instances) => {
    told = instances;
    return { encode: () => Buffer.from('{}') };
  });
  assert.deepEqual([forgotten, told, commits], [120, 120, 3]);
  assert.deepEqual(
    members.list().map(({ instance }) => instance),
    ['agent/ci', 'bot/cinema/0'],
  );
});

const agent = (more: Partial<Member> = {}): string =>
  JSON.stringify({ ...(JSON.parse(bot(1)) as Member), role: 'agent', name: 'crane-1', ...more });
const noted = { encode: () => Buffer.from('{}') };
const crane = 'agent/crane-1';
const weekMs = 7 * 86_400_000;

test('forgetting an agent deletes everything about it in one commit, and nothing of another', async () => {
  const { members, store } = await scene([
    [crane, agent()],
    ['agent/crane-10', agent({ name: 'crane-10' })],
  ]);
  const others = ['agents', 'trust.agent-sessions', 'trust.member-refusals'];
  for (const collection of others) {
    for (const name of collection === others[2]
      ? [crane, 'agent/crane-10']
      : ['crane-1', 'crane-10']) {
      await store.commit({ put: [{ collection, name, encode: () => Buffer.from('{}') }] });
    }
  }
  const revisions: number[] = [];
  for (const collection of [membersCollection, formerAgentsCollection, ...others]) {
    store.watch(collection, store.revision, {
      changes: (changes) => revisions.push(...changes.map(({ revision }) => revision)),
      ended: () => undefined,
    });
  }
  const before = store.revision;
  assert.equal(await members.forget(crane, [noted]), true);
  assert.deepEqual(
    revisions.toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5].map((step) => before + step),
  );
  assert.equal(store.auditLog.size, 1);
  for (const collection of [membersCollection, ...others]) assert.equal(store.count(collection), 1);
  assert.equal(await members.forget(crane, [noted]), false);
});

test('an agent is conflicted once, with one audit record, and an operator ends it', async () => {
  const { members, store, clock } = await scene([[crane, agent()]]);
  assert.equal(await members.markConflicted(crane, 'two answer', [noted]), true);
  const { conflictedAtMs, conflict } = members.get(crane)?.member ?? {};
  assert.deepEqual([conflictedAtMs, conflict], [clock.now(), 'two answer']);
  assert.equal(await members.markConflicted(crane, 'again', [noted]), false);
  assert.equal(await members.markConflicted('agent/none', 'x', [noted]), false);
  assert.equal(store.auditLog.size, 1);
  await clock.advance(weekMs);
  assert.equal(await members.reinstate(crane, [noted]), true);
  const { member } = members.get(crane) ?? {};
  assert.deepEqual(
    [member?.conflictedAtMs, member?.conflict, member?.reattestFromMs],
    [undefined, undefined, clock.now()],
  );
  assert.equal(await members.reinstate(crane, [noted]), false);
  assert.equal(await members.reinstate('agent/none', [noted]), false);
  assert.equal(store.auditLog.size, 2);
});

test('two replicas that notice a conflict at once mark it once', async () => {
  const clock = new VirtualClock();
  const database = new MemoryDatabase();
  const open = () => openStore({ driver: 'memory', database }, { clock });
  const [here, there] = [await open(), await open()];
  await here.commit({
    put: [{ collection: membersCollection, name: crane, encode: () => Buffer.from(agent()) }],
  });
  await there.commit({ put: [{ collection: 'a.b', name: 'c', encode: () => Buffer.from('{}') }] });
  const marks = await Promise.all(
    [here, there].map((store) => new Members(store, clock).markConflicted(crane, 'x', [noted])),
  );
  assert.equal(marks.filter(Boolean).length, 1);
  assert.equal(database.audit.length, 1);
});

test('a renewal that races with the mark of a conflict cannot undo it', async () => {
  const { members } = await scene([[crane, agent()]]);
  const before = members.get(crane);
  await members.markConflicted(crane, 'x', []);
  await assert.rejects(
    members.put(crane, before, { ...(JSON.parse(agent()) as Member), generation: 2 }, []),
    { code: 'HANSA_CONFLICT' },
  );
});

test('an expired bot is kept until its key can no longer renew it', async () => {
  const { members, clock } = await scene([]);
  const startMs = clock.now();
  const expiring = (more: Partial<Member>) =>
    ({ ...(JSON.parse(bot(startMs)) as Member), ...more }) as Member;
  await members.put('bot/ci/0', undefined, expiring({}), []);
  await members.put('bot/ci/1', undefined, expiring({ reattestFromMs: startMs + weekMs }), []);
  const left: string[][] = [];
  for (const stepMs of [weekMs, 1, weekMs]) {
    await clock.advance(stepMs);
    // The last pruning was long enough ago, in monotonic time.
    await clock.advance(60_000);
    await members.prune();
    left.push(members.list().map(({ instance }) => instance));
  }
  assert.deepEqual(left, [['bot/ci/1'], ['bot/ci/1'], []]);
});

test('expired bots do not keep new ones out, and the longest expired go first', async () => {
  const { store, clock } = await scene([]);
  const limits = { ofToken: 3, expiredOfToken: 2, expired: 3 };
  const members = new Members(store, clock, limits);
  const nowMs = clock.now();
  const put = (instance: string, token: string, notAfterMs: number) =>
    members.put(instance, undefined, { ...(JSON.parse(bot(notAfterMs)) as Member), token }, []);
  await put('bot/a/1', 'a', nowMs - 3);
  await put('bot/a/2', 'a', nowMs - 2);
  await put('bot/a/3', 'a', nowMs - 1);
  await put('bot/b/1', 'b', nowMs - 5);
  await put('bot/b/2', 'b', nowMs - 4);
  await members.prune();
  assert.deepEqual(
    members.list().map(({ instance }) => instance),
    ['bot/a/2', 'bot/a/3', 'bot/b/2'],
  );
  for (const at of [1, 2, 3]) await put(`bot/live/${at}`, 'a', nowMs + 1);
  await assert.rejects(put('bot/live/4', 'a', nowMs + 1), { code: 'HANSA_TOO_MANY_REQUESTS' });
  // Forgetting an expired one makes no room for another.
  await members.forget('bot/a/2', []);
  await assert.rejects(put('bot/live/4', 'a', nowMs + 1), { code: 'HANSA_TOO_MANY_REQUESTS' });
});

test('a replica that lost its lease forgets no member', async () => {
  const { members } = await scene([
    ['bot/ci/0', bot(0)],
    ['bot/ci/1', bot(0)],
  ]);
  // No process ever held this lease, so the store rejects its epoch.
  const lost = { lease: 'controller.members', epoch: 1 };
  const ways = [
    () => members.forgetAll(['bot/ci/0'], []),
    () => members.forget('bot/ci/1', []),
    () => members.prune(),
  ];
  for (const way of ways) {
    await assert.rejects(underLease<Promise<unknown>>(lost, way), { code: 'HANSA_FENCED' });
  }
  assert.equal(members.counts.bot, 2);
});

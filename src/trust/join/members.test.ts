import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { openStore } from '../../core/store/open.ts';
import type { Commit, Store } from '../../core/store/store.ts';
import { type Member, Members, membersCollection } from './members.ts';

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
  const records = Array.from({ length: 600 }, (_, at) => [`bot/ci/${at}`, bot(0)] as const);
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
  assert.deepEqual(left, [100, 0, 1, 0]);
  assert.equal(members.counts.agent, 1);
});

test('by one token so many join, and those who come by another are not kept out by them', async () => {
  const never = Number.MAX_SAFE_INTEGER;
  const { store, clock } = await scene([
    ['bot/ci/old', bot(0)],
    ['bot/ci/new', bot(never)],
  ]);
  const members = new Members(store, clock, 2);
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
  const mine = Array.from({ length: 600 }, (_, at) => [`bot/ci/${at}`, bot(1)] as const);
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
  assert.deepEqual([forgotten, told, commits], [600, 600, 3]);
  assert.deepEqual(
    members.list().map(({ instance }) => instance),
    ['agent/ci', 'bot/cinema/0'],
  );
});

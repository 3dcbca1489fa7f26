// Properties of federated policies over random histories of users, partitions, restores, clocks and crashes.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { chooseVersion } from './choose-version.ts';
import { PolicyWorld, retentionMs, type WorldMember } from './test-policy-world.ts';

const member = fc.constantFrom('a', 'b', 'c');
const content = fc.constantFrom('v1', 'v2', 'v3', 'v4-x', 'v5-x');
const hours = fc.integer({ min: -5, max: 5 }).map((count) => count * 3_600_000);

const edits = fc.record({ do: fc.constant('edit'), member, content });
const partitions = fc.record({
  do: fc.constantFrom('cut', 'heal', 'blind'),
  member,
  other: member,
});
const work = fc.record({
  do: fc.constantFrom('step', 'step', 'crash', 'behind', 'settle'),
  member,
});
const time = fc.record({
  do: fc.constant('wait'),
  ms: fc.constantFrom(0, 300, 1000, 5000, 3_600_000),
});
const places = fc.record({
  do: fc.constantFrom('deleteNamespace', 'createNamespace', 'deleteCrd', 'createCrd'),
  member,
});
const restores = fc.record({ do: fc.constantFrom('backup', 'restore'), member });
const ends = fc.record({
  do: fc.constantFrom('delete', 'end', 'plain'),
  member,
});
const oddities = fc.oneof(
  fc.record({ do: fc.constantFrom('late', 'prune'), member }),
  fc.record({
    do: fc.constantFrom('serverClock', 'leaderClock'),
    member,
    ms: hours,
  }),
);

type Action =
  typeof edits extends fc.Arbitrary<infer _>
    ? {
        readonly do: string;
        readonly member?: string;
        readonly other?: string;
        readonly content?: string;
        readonly ms?: number;
      }
    : never;

function act(world: PolicyWorld, action: Action): void {
  const { ms = 0, content: text = '' } = action;
  const one = action.member === undefined ? undefined : world.member(action.member);
  if (action.do === 'wait') {
    world.nowMs += ms;
    return;
  }
  if (action.do === 'settle') return world.settle();
  if (action.do === 'heal') return world.heal();
  perform(world, one as WorldMember, action, text, ms);
}

function perform(
  world: PolicyWorld,
  one: WorldMember,
  action: Action,
  text: string,
  ms: number,
): void {
  switch (action.do) {
    case 'edit':
      return one.edit(text);
    case 'plain':
      return one.stored.object === undefined ? one.edit('plain', false) : undefined;
    case 'end':
      return one.stored.object?.isFederated === true ? one.edit('', false) : undefined;
    case 'delete':
      return one.delete();
    case 'cut':
      if (action.other !== undefined && action.other !== one.id) {
        one.cut.add(action.other);
        world.member(action.other).cut.add(one.id);
      }
      return;
    case 'blind':
      one.isFollowed = false;
      return;
    case 'step':
      return void one.step();
    case 'behind':
      return void one.step(true);
    case 'crash':
      return one.crash();
    case 'late': {
      const live = one.stored.record;
      if (live?.stamp === undefined || live.versionHash === '') return;
      return one.lateCreate({ ...live.stamp, timeMs: live.stamp.timeMs - 1000 }, 'v1');
    }
    case 'prune':
      return one.changeSchema((each) => each.replace('-x', ''));
    case 'serverClock':
      one.serverSkewMs = ms;
      return;
    case 'leaderClock':
      one.leaderSkewMs = ms;
      return;
    case 'backup':
      return one.takeBackup();
    case 'restore':
      return one.restore();
    case 'deleteNamespace':
      return one.deleteNamespace();
    case 'createNamespace':
      return one.createNamespace();
    case 'deleteCrd':
      return one.deleteCrd();
    case 'createCrd':
      return one.createCrd();
    default:
      throw new Error(`unknown action ${action.do}`);
  }
}

/** Heals all, and waits until clocks that were wrong no longer matter. */
function finish(world: PolicyWorld): void {
  world.heal();
  for (const each of world.members) {
    each.serverSkewMs = 0;
    each.leaderSkewMs = 0;
  }
  world.settle();
}

/** Members hold the newest version, wherever a place for it is and no user's own policy is in the way. */
function checkAgreement(world: PolicyWorld): void {
  const views = world.members.map((each) => each.view(each.stored, true, world.nowMs));
  const version = chooseVersion(views, { nowMs: world.nowMs, retentionMs });
  const open = world.members.filter(
    (each) => each.isOpen && each.stored.object?.isFederated !== false,
  );
  if (version?.state === 'Live') {
    const { versionHash, stamp } = version;
    for (const each of open) {
      assert.equal(each.content, each.stores(versionHash), `${each.id} holds another content`);
      assert.deepEqual(each.stored.record?.stamp, stamp, `${each.id} holds another version`);
    }
    return;
  }
  for (const { stored, id } of open) {
    const isKept = stored.record?.state === 'Ended' && stored.object?.isReplica === false;
    assert.ok(stored.object === undefined || isKept || version === undefined, `${id} still has it`);
  }
}

const runs = { numRuns: 300 };

function property(
  name: string,
  action: fc.Arbitrary<Action>,
  check: (world: PolicyWorld, actions: readonly Action[]) => void,
): void {
  test(name, () => {
    fc.assert(
      fc.property(fc.array(action, { minLength: 1, maxLength: 40 }), (actions) => {
        const world = new PolicyWorld();
        for (const each of actions) act(world, each);
        check(world, actions);
      }),
      runs,
    );
  });
}

const anything: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: edits },
  { weight: 4, arbitrary: ends },
  { weight: 8, arbitrary: work },
  { weight: 5, arbitrary: time },
  { weight: 3, arbitrary: partitions },
  { weight: 2, arbitrary: restores },
  { weight: 3, arbitrary: places },
  { weight: 1, arbitrary: oddities },
);

suite('federated policies', () => {
  property('converge after any history, and then no leader writes any more', anything, (world) => {
    finish(world);
    checkAgreement(world);
  });

  property(
    'are never deleted unless a user deleted one or removed the annotation',
    fc.oneof(
      { weight: 6, arbitrary: edits },
      { weight: 8, arbitrary: work },
      { weight: 5, arbitrary: time },
      { weight: 3, arbitrary: partitions },
      { weight: 3, arbitrary: restores },
      { weight: 4, arbitrary: places },
      { weight: 1, arbitrary: oddities },
    ),
    (world) => {
      const check = () => {
        for (const { stored } of world.members) {
          assert.ok(!['Deleted', 'Ended'].includes(stored.record?.state ?? ''));
        }
      };
      check();
      finish(world);
      check();
      checkAgreement(world);
    },
  );

  test('are those of the last edit, whoever is reconnected last', () => {
    const step: fc.Arbitrary<Action> = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('edit', 'delete'), member }) },
      {
        weight: 6,
        arbitrary: fc.record({ do: fc.constantFrom('step', 'behind', 'settle'), member }),
      },
      {
        weight: 3,
        arbitrary: fc.record({ do: fc.constantFrom('cut', 'heal'), member, other: member }),
      },
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 40 }), (actions) => {
        const world = new PolicyWorld();
        let last: string | undefined;
        for (const [at, action] of actions.entries()) {
          const { stored } = world.member(action.member ?? 'a');
          const isDeletion = action.do === 'delete' && stored.object !== undefined;
          if (isDeletion || action.do === 'edit') {
            world.nowMs += 1000;
            last = isDeletion ? undefined : `v${at}`;
          }
          act(world, { ...action, content: `v${at}` });
        }
        finish(world);
        for (const { content: found, id } of world.members) assert.equal(found, last, id);
      }),
      runs,
    );
  });

  test('stay deleted after a restore of etcd, however old the backup is', () => {
    const history = fc.array<Action>(
      fc.oneof(
        { weight: 4, arbitrary: edits },
        { weight: 3, arbitrary: fc.record({ do: fc.constant('backup'), member }) },
        { weight: 3, arbitrary: time },
        { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('settle', 'step'), member }) },
      ),
      { minLength: 3, maxLength: 25 },
    );
    fc.assert(
      fc.property(history, member, member, fc.boolean(), (actions, deleter, restored, isLater) => {
        const world = new PolicyWorld();
        world.settle();
        for (const action of actions) {
          // A leader marks its member every hour.
          if (action.do === 'backup') world.settle();
          act(world, action);
        }
        finish(world);
        world.nowMs += 5000;
        world.member(deleter).delete();
        finish(world);
        assert.deepEqual(contents(world), [undefined, undefined, undefined]);
        if (isLater) {
          world.pass(retentionMs * 1.1);
          assert.ok(world.members.every(({ stored }) => stored.record === undefined));
        }
        world.member(restored).restore();
        finish(world);
        for (const { id, stored } of world.members) {
          // A user's own policy stays where it is, and is not spread.
          const isStale = id === restored && stored.record?.state === 'Stale';
          assert.ok(stored.object === undefined || isStale, `${id} has it again`);
        }
      }),
      runs,
    );
  });
});

function contents(world: PolicyWorld): readonly (string | undefined)[] {
  return world.members.map((each) => each.content);
}

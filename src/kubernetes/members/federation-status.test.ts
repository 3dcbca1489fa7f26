import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { federationStatus, type SeenMember } from './federation-status.ts';
import type { ClusterIdentity } from './identity.ts';
import type { MemberState } from './member.ts';
import type { ReflectedFederation } from './read-federation.ts';

const nowMs = Date.parse('2026-03-01T12:00:00Z');
const home: ClusterIdentity = {
  ids: ['home'],
  clusterSets: [],
  namespaces: [],
  isSupervisor: true,
};

const member = (
  clusterID: string,
  state: MemberState['state'] = 'Ready',
  extra: Partial<SeenMember> = {},
): SeenMember => ({
  clusterID,
  state: {
    state,
    sinceMs: nowMs,
    sinceMonotonicMs: 0,
    reason: `${state}Reason`,
    message: `About ${clusterID}.`,
  },
  leader: { holder: 'lubeck.example/h/1/u', epoch: 4 },
  admittedAt: '2026-02-01T00:00:00Z',
  ...extra,
});

const federation = (status?: unknown): ReflectedFederation =>
  ({
    metadata: { name: 'federation', generation: 3 },
    spec: { clusterSet: 'hanse' },
    status,
  }) as unknown as ReflectedFederation;

const ready = (members: readonly SeenMember[], identity = home) => {
  const { conditions = [] } = federationStatus(federation(), identity, members, nowMs);
  const [{ status, reason, message } = {} as never] = conditions as never[] as {
    status: string;
    reason: string;
    message: string;
  }[];
  return { status, reason, message };
};

describe('the status of Federation', () => {
  test('lists the members in order, with their leaders', () => {
    const { members } = federationStatus(
      federation(),
      home,
      [member('home'), member('app1', 'Unreachable', { leader: undefined })],
      nowMs,
    );
    assert.deepEqual(members, [
      {
        clusterID: 'app1',
        state: 'Unreachable',
        since: '2026-03-01T12:00:00Z',
        admitted: '2026-02-01T00:00:00Z',
        reason: 'UnreachableReason',
        message: 'About app1.',
      },
      {
        clusterID: 'home',
        state: 'Ready',
        since: '2026-03-01T12:00:00Z',
        admitted: '2026-02-01T00:00:00Z',
        reason: 'ReadyReason',
        message: 'About home.',
        leader: 'lubeck.example/h/1/u',
        epoch: 4,
      },
    ]);
  });

  test('is the same again while nothing changes, also in another process', () => {
    const first = federationStatus(federation(), home, [member('home')], nowMs);
    const later = member('home');
    const restarted = { ...later, state: { ...later.state, sinceMs: nowMs + 60_000 } };
    assert.deepEqual(federationStatus(federation(first), home, [restarted], nowMs + 60_000), first);
  });

  test('keeps when a member was admitted, until it is removed', () => {
    const first = federationStatus(federation(), home, [member('app1')], nowMs);
    const later = member('app1', 'Unreachable', { admittedAt: '2026-02-02T00:00:00Z' });
    const admittedIn = (status: unknown): unknown =>
      federationStatus(federation(status), home, [later], nowMs).members?.[0]?.admitted;
    assert.equal(admittedIn(first), '2026-02-01T00:00:00Z');
    const without = federationStatus(federation(first), home, [], nowMs);
    assert.equal(admittedIn(without), '2026-02-02T00:00:00Z');
  });

  test('keeps conditions of others', () => {
    const other = {
      type: 'Other',
      status: 'True',
      reason: 'R',
      message: 'M',
      lastTransitionTime: 't',
    };
    const { conditions } = federationStatus(
      federation({ conditions: [other] }),
      home,
      [member('home')],
      nowMs,
    );
    assert.deepEqual(
      conditions?.map(({ type }) => type),
      ['Other', 'Ready'],
    );
  });

  test('begins again where the old one is of another shape', () => {
    for (const old of [null, 7, [], { members: 7, conditions: {} }]) {
      assert.equal(
        federationStatus(federation(old), home, [member('home')], nowMs).members?.length,
        1,
      );
    }
  });
});

describe('Federation is ready', () => {
  test('if all members are', () => {
    assert.equal(ready([member('home'), member('app1')]).status, 'True');
  });

  test('not if a member is refused or unreachable, and says what to do', () => {
    const { reason, message } = ready([
      member('home'),
      member('app1', 'Unreachable'),
      member('app2', 'Refused'),
    ]);
    assert.deepEqual([reason, message], ['MembersRefused', 'app2: refused. About app2.']);
    assert.equal(
      ready([member('home'), member('app1', 'Unreachable')]).reason,
      'MembersUnreachable',
    );
  });

  test('perhaps, while a member is being read', () => {
    assert.equal(ready([member('home'), member('app1', 'Connecting')]).status, 'Unknown');
  });

  test('not if the home cluster has no ID, several, another set, or is not listed', () => {
    const reasonOf = (identity: Partial<ClusterIdentity>, id = 'home') =>
      ready([member(id)], { ...home, ...identity }).reason;
    assert.equal(reasonOf({ ids: [] }), 'ClusterIDMissing');
    assert.equal(reasonOf({ ids: ['a', 'b'] }), 'ClusterIDAmbiguous');
    assert.equal(reasonOf({ clusterSets: ['other'] }), 'ClusterSetMismatch');
    assert.equal(reasonOf({}, 'app1'), 'HomeNotListed');
  });

  test('with a message that fits, however many members there are', () => {
    const many = Array.from({ length: 250 }, (_, index) => {
      const one = member(`app${index}`, 'Unreachable');
      return { ...one, state: { ...one.state, message: 'x'.repeat(9000) } };
    });
    const status = federationStatus(federation(), home, [member('home'), ...many], nowMs);
    assert.ok(status.members?.every(({ message }) => message.length <= 4096));
    assert.ok(ready([member('home'), ...many]).message.length <= 4096);
  });
});

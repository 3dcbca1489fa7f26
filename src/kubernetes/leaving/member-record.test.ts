import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { MemberSettings } from '../members/member.ts';
import { changedRecords, type Listing, type MemberRecord } from './member-record.ts';

const nowMs = 1000;
const version = (generation: number, uid = 'u') => ({ uid, generation });
const member = (clusterID: string, more: Partial<MemberSettings> = {}): MemberSettings => ({
  clusterID,
  routable: false,
  ...more,
});
const record = (clusterID: string, generation: number, uid = 'u'): MemberRecord => ({
  settings: { clusterID },
  federation: version(generation, uid),
});
const changes = (
  records: readonly MemberRecord[],
  listing: Listing,
  isRead: (clusterID: string) => boolean = () => true,
) => {
  const known = new Map(records.map((each) => [each.settings.clusterID, each]));
  return Object.fromEntries(changedRecords(known, listing, isRead, nowMs));
};

describe('the record of a member', () => {
  test('is made when the member was read', () => {
    const listing = { version: version(3), members: [member('app1')] };
    assert.deepEqual(
      changes([], listing, () => false),
      {},
    );
    assert.deepEqual(changes([], listing), { app1: record('app1', 3) });
  });

  test('stays while Federation changes other things', () => {
    const members = [member('app1', { routable: true, endpointPrefixes: ['10.0.0.0/8'] })];
    assert.deepEqual(changes([record('app1', 3)], { version: version(9), members }), {});
  });

  test('follows the way to the member, also while it cannot be read', () => {
    const members = [member('app1', { server: 'https://new.example', secret: 'app1' })];
    assert.deepEqual(
      changes([record('app1', 3)], { version: version(4), members }, () => false),
      {
        app1: {
          settings: { clusterID: 'app1', server: 'https://new.example', secret: 'app1' },
          federation: version(4),
        },
      },
    );
  });

  test('follows a Federation that was created again or restored with the member', () => {
    const members = [member('app1')];
    for (const now of [version(1, 'other'), version(2)]) {
      assert.deepEqual(changes([record('app1', 3)], { version: now, members }), {
        app1: { settings: { clusterID: 'app1' }, federation: now },
      });
    }
  });
});

describe('a member that is no longer listed', () => {
  const leavingOf = (now: Listing['version']) =>
    changes([record('app1', 3)], { version: now, members: [] })['app1']?.leaving;

  test('was removed by a user in a later version of the same Federation', () => {
    assert.deepEqual(leavingOf(version(4)), { sinceMs: nowMs, cause: 'Removed' });
  });

  test('was not removed by a user in another Federation, or in an older version', () => {
    for (const now of [version(4, 'other'), version(3), version(1)]) {
      assert.deepEqual(leavingOf(now), { sinceMs: nowMs, cause: 'Replaced' });
    }
  });

  test('keeps the time and the cause of its removal', () => {
    const leaving = { sinceMs: 1, cause: 'Replaced' } as const;
    const known = { ...record('app1', 3), leaving };
    assert.deepEqual(changes([known], { version: version(9), members: [] }), {});
  });

  test('does not leave any more when it is listed again', () => {
    const known = { ...record('app1', 3), leaving: { sinceMs: 1, cause: 'Removed' } as const };
    assert.deepEqual(
      changes([known], { version: version(5), members: [member('app1')] }, () => false),
      { app1: record('app1', 5) },
    );
  });
});

test('changes of records that were saved lead to no more changes', () => {
  const ids = fc.uniqueArray(fc.constantFrom('a', 'b', 'c'));
  const listings = fc.array(
    fc.record({ ids, generation: fc.nat(5), uid: fc.constantFrom('u', 'v') }),
  );
  fc.assert(
    fc.property(listings, (history) => {
      const records = new Map<string, MemberRecord>();
      for (const { ids: listed, generation, uid } of history) {
        const listing = { version: { uid, generation }, members: listed.map((id) => member(id)) };
        const found = changedRecords(records, listing, () => true, nowMs);
        for (const [id, changed] of found) records.set(id, changed);
        assert.equal(changedRecords(records, listing, () => true, nowMs).size, 0);
        for (const [id, { leaving }] of records) {
          assert.equal(leaving === undefined, (listed as readonly string[]).includes(id));
        }
      }
    }),
  );
});

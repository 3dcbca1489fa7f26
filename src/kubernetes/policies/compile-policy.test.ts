import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { compilePolicy } from './compile-policy.ts';
import type { PolicyView, TargetView } from './policy-state.ts';
import { emptyRecord } from './policy-version.ts';
import {
  ago,
  input,
  nowMs,
  object,
  record,
  replica,
  retentionMs,
  target,
  view,
} from './test-policy-views.ts';

/** The step, in a few words, after the policy was read. */
function step(own: Partial<TargetView>, ...others: readonly PolicyView[]): string {
  const next = compilePolicy(input({ isFresh: true, ...own }, ...others));
  switch (next.do) {
    case 'create':
    case 'replace':
      return `${next.do} ${next.version.versionHash} of ${next.source}`;
    case 'record':
      return `record ${next.record.state} ${next.record.versionHash}`.trim();
    case 'rest':
      return next.outcome === undefined ? 'rest' : `${next.outcome.status} ${next.outcome.reason}`;
    default:
      return next.do;
  }
}

const newer = record({ stamp: ago(10, 'b'), versionHash: 'v2' });
/** Another member with a newer version. */
const b = view('b', { object: object({ hash: 'v2' }), record: newer });
const deleted = view('b', {
  record: record({ state: 'Deleted', stamp: ago(10, 'b'), versionHash: '' }),
});
const ended = view('b', {
  record: record({ state: 'Ended', stamp: ago(10, 'b'), versionHash: '' }),
});
const place = target().place;

suite('a member without the newest version', () => {
  test('gets it from the member that has its content', () => {
    assert.equal(step({}, b), 'create v2 of b');
    assert.equal(step({ object: object(), record: record() }, b), 'replace v2 of b');
  });

  test('is read before it is recorded, unless the leader has just written it', () => {
    // After a restore of etcd, the cache of policies can be behind that of records.
    const own = { object: object({ hash: 'v2' }), isFresh: false };
    assert.equal(step(own), 'read');
    assert.equal(step({ ...own, record: record() }, b), 'read');
    const written = replica(ago(10, 'b'), 'v2');
    const sent = { object: written, isFresh: false, isWritten: true };
    assert.equal(step(sent, b), 'record Live v2');
  });

  test('is read where its namespace or CRD was made again, which the policy may not have survived', () => {
    // With the UID of the new one, the record would make the absence of the policy a deletion by a user.
    const own = { object: object(), isFresh: false };
    for (const moved of [{ namespaceUID: 'old' }, { crdUID: 'old' }]) {
      assert.equal(step({ ...own, record: record(moved) }), 'read');
      assert.equal(step({ ...own, record: record(moved), isFresh: true }), 'record Live v1');
      const same = view('b', { object: object(), record: record() });
      assert.equal(step({ record: record(moved) }, same), 'create v1 of b');
    }
  });

  test('only gets a record where it has the content already', () => {
    assert.equal(step({ object: object({ hash: 'v2' }), record: record() }, b), 'record Live v2');
  });

  test('does not record an edit that is older than the newest version', () => {
    assert.equal(step({ object: object() }, b), 'replace v2 of b');
  });

  test('waits where no member has the content', () => {
    const changed = view('b', { object: object({ hash: 'v3' }), record: newer });
    assert.equal(step({ object: object(), record: record() }, changed), 'False NoSource');
    const pruned = { ...newer, storedHash: 'v2 pruned' };
    const c = view('c', { object: object({ hash: 'v2 pruned' }), record: pruned });
    assert.equal(step({ object: object(), record: record() }, c), 'False NoSource');
  });

  test('gets it later where its namespace or kind is missing', () => {
    const closed = { ...place, namespace: 'missing', namespaceUID: '' } as const;
    assert.equal(step({ place: closed }, b), 'rest');
    assert.equal(step({ place: closed, record: record() }, b), 'False NamespaceMissing');
    const unserved = { ...place, isServed: false, crdUID: undefined };
    assert.equal(step({ place: unserved, record: record() }, b), 'False NotServed');
  });

  test("leaves a user's own policy alone and says so", () => {
    const plain = object({ isFederated: false, hash: undefined });
    assert.equal(step({ object: plain }, b), 'record Absent');
    const absent = record({ state: 'Absent', stamp: undefined });
    assert.equal(step({ object: plain, record: absent }, b), 'False UserPolicyInTheWay');
    // Also where an earlier policy of this name was deleted.
    const gone = record({ state: 'Deleted' });
    assert.equal(step({ object: plain, record: gone }, b), 'record Absent');
  });

  test('does not send again what its API server refused', () => {
    const refusal = { stamp: newer.stamp ?? ago(0), message: 'spec.x is unknown' };
    assert.equal(step({ refusal }, b), 'record Absent');
    assert.equal(
      step({ refusal, object: object(), record: record() }, b),
      'False RejectedByServer',
    );
    const other = { ...refusal, stamp: ago(500, 'b') };
    assert.equal(step({ refusal: other }, b), 'create v2 of b');
  });

  test('ignores members that are not usable', () => {
    assert.equal(step({}, { ...b, isUsable: false }), 'rest');
  });
});

suite('the end of a policy', () => {
  test('deletes it in other members, also where a user created it', () => {
    assert.equal(step({ object: object(), record: record() }, deleted), 'remove');
    assert.equal(step({ record: record() }, deleted), 'record Deleted');
    assert.equal(step({}, deleted), 'rest');
  });

  test('is read again before it is recorded', () => {
    assert.equal(step({ record: record(), isFresh: false }), 'read');
    assert.equal(step({ record: record(), isFresh: false }, deleted), 'read');
    assert.equal(step({ record: record() }), 'record Deleted');
  });

  test('that a leader carried out is not taken for a deletion by a user', () => {
    // The annotation was removed in the second of the last edit, and a leader has removed the replica.
    const stamp = ago(60, 'b', 1);
    const end = record({ state: 'Ended', stamp, versionHash: '', storedHash: '' });
    const other = view('b', { record: end });
    const own = { clusterID: 'c', record: record() };
    assert.equal(step(own, other), 'record Ended');
    const sighting = { type: 'deleted', atMs: nowMs, place: { crdUID: 'crd', namespaceUID: 'ns' } };
    assert.equal(step({ ...own, sighting } as Partial<TargetView>, other), 'record Deleted');
  });

  test('is not undone by an object that a restore of etcd brought back', () => {
    const tomb = record({ state: 'Deleted', stamp: ago(30), versionHash: '', storedHash: '' });
    const back = object({ userMs: nowMs - 60_000 });
    assert.equal(step({ object: back, record: tomb }), 'remove');
    const edited = object({ userMs: nowMs - 10_000 });
    assert.equal(step({ object: edited, record: tomb }), 'record Live v1');
  });

  test('does not beat an edit that is newer', () => {
    assert.equal(step({ record: record() }, b), 'create v2 of b');
  });

  test('by a removed annotation deletes only what a site created', () => {
    const copied = replica(ago(60), 'v1');
    assert.equal(step({ object: copied, record: record() }, ended), 'remove');
    assert.equal(step({ object: object(), record: record() }, ended), 'record Ended');
    const kept = record({
      state: 'Ended',
      stamp: ago(10, 'b'),
      versionHash: '',
      storedHash: 'v1',
      settledMs: nowMs,
    });
    assert.equal(step({ object: object(), record: kept }, ended), 'True FederationEnded');
  });

  test('by a removed annotation deletes a replica in the place of a policy that stayed', () => {
    const end = { state: 'Ended', stamp: ago(10, 'b'), versionHash: '', storedHash: 'v1' } as const;
    const late = replica(ago(90, 'c'), 'v1', { uid: 'new', resourceVersion: '20' });
    // A leader created it before it saw the record of the policy that stayed, with the same content.
    const next = compilePolicy(input({ object: late, record: record(end), isFresh: true }, ended));
    assert.ok(next.do === 'record');
    assert.equal(step({ object: late, record: next.record }, ended), 'remove');
  });

  test('does not delete a policy while its namespace ends', () => {
    const closing = { ...place, namespace: 'closing' } as const;
    assert.equal(step({ object: object(), record: record(), place: closing }, deleted), 'rest');
  });

  test("leaves a user's own policy alone", () => {
    const plain = object({ isFederated: false, hash: undefined });
    assert.equal(step({ object: plain }, deleted), 'rest');
  });
});

suite('a tombstone', () => {
  const tomb = record({ state: 'Deleted', versionHash: '', storedHash: '' });
  const settled = (ms: number) => ({ ...tomb, settledMs: nowMs - ms });

  test('is settled once all members know of it', () => {
    assert.equal(step({ record: tomb }, view('b', { record: tomb }), view('c')), 'record Deleted');
    const unaware = view('c', { object: object(), record: record({ stamp: ago(600) }) });
    assert.equal(step({ record: tomb }, unaware), 'True Deleted');
    assert.equal(step({ record: settled(5) }, unaware), 'record Deleted');
  });

  test('goes after the retention', () => {
    assert.equal(step({ record: settled(retentionMs) }, view('b')), 'forget');
    assert.equal(step({ record: settled(retentionMs - 1) }, view('b')), 'True Deleted');
  });

  test('stays while a member cannot be read', () => {
    const away = view('b', { isReady: false });
    assert.equal(step({ record: settled(2 * retentionMs) }, away), 'True Deleted');
  });
});

suite('a member that was away for longer than deletions are remembered', () => {
  const syncedMs = nowMs - retentionMs;
  const old = record({ stamp: { ...ago(0), timeMs: syncedMs - 5000 } });

  test('loses what a site created, if no other member has it', () => {
    const copied = replica(old.stamp ?? ago(0), 'v1');
    const stale = { ...old, state: 'Stale' } as const;
    assert.equal(step({ object: copied, record: old, syncedMs }, view('b')), 'record Stale v1');
    assert.equal(step({ object: copied, record: stale, syncedMs }, view('b')), 'remove');
    assert.equal(step({ record: stale, syncedMs }, view('b')), 'forget');
  });

  test("keeps a user's policy, and does not spread it", () => {
    const stale = { ...old, state: 'Stale' } as const;
    assert.equal(step({ object: object(), record: stale, syncedMs }, view('b')), 'False Stale');
    const back = view('b', { object: object(), record: old, syncedMs });
    assert.equal(step({}, back), 'rest');
  });

  test('takes part as before with a policy that another member has', () => {
    const other = view('b', { object: object(), record: old });
    assert.equal(step({ object: object(), record: old, syncedMs }, other), 'True Replicated');
  });

  test('decides nothing while another member cannot be read', () => {
    const others = [view('b'), view('c', { isReady: false })];
    assert.equal(step({ object: object(), record: old, syncedMs }, ...others), 'False Stale');
  });

  test('is not away where no supervisor ran, or only the clock of one is wrong', () => {
    const same = view('b', { syncedMs });
    assert.equal(step({ object: object(), record: old, syncedMs }, same), 'True Replicated');
    const ahead = view('b', { syncedMs: nowMs + 2 * retentionMs });
    assert.equal(step({ object: object(), record: old, syncedMs }, ahead), 'True Replicated');
  });

  test('is not away because of a forged mark, where deletions are remembered for an hour only', () => {
    const own = { isFresh: true, object: object(), record: record({ stamp: ago(7200) }) };
    const forged = view('b', { syncedMs: nowMs + 23 * 3_600_000 });
    const next = compilePolicy({ ...input(own, forged), retentionMs: 3_600_000 });
    assert.deepEqual(next, { do: 'rest', outcome: { status: 'True', reason: 'Replicated' } });
  });
});

suite('a member that may only receive policies', () => {
  const held = { object: object(), record: record() };
  const guest = (over: Parameters<typeof view>[1] = {}) => view('b', { ...over, isOrigin: false });

  test('changes and deletes nothing in others, whatever its records say', () => {
    assert.equal(step(held, guest(b)), 'True Replicated');
    assert.equal(step(held, guest(deleted)), 'True Replicated');
    assert.equal(step(held, guest(ended)), 'True Replicated');
    assert.equal(step({}, guest(b)), 'rest');
    const syncedMs = nowMs - 2 * retentionMs;
    assert.equal(step({ ...held, syncedMs }, guest()), 'True Replicated');
  });

  test('gets the versions of others, and loses what is edited or deleted in it', () => {
    const own = { isOrigin: false };
    assert.equal(step(own, b), 'create v2 of b');
    const mine = { object: object({ hash: 'mine', resourceVersion: '11' }), record: newer };
    assert.equal(step({ ...own, ...mine }, b), 'replace v2 of b');
    assert.equal(step({ ...own, record: newer }, b), 'create v2 of b');
    assert.equal(
      step({ ...own, object: replica(ago(60), 'v1'), record: record() }, deleted),
      'remove',
    );
    assert.equal(step({ ...own, record: record() }, deleted), 'record Deleted');
  });

  test('may have the content of a version that others chose', () => {
    const gone = view('b', { object: object({ hash: 'v3' }), record: newer });
    const has = view('c', { ...b, clusterID: 'c', isOrigin: false });
    assert.equal(step({}, gone, has), 'create v2 of c');
  });

  test("keeps a user's own policy, and says why it is not federated", () => {
    const own = { isOrigin: false, object: object({ userMs: nowMs }) };
    assert.equal(step(own, view('b')), 'record Absent');
    const absent = { ...emptyRecord };
    assert.equal(step({ ...own, record: absent }, view('b')), 'False ReceivesOnly');
    assert.equal(
      step({ ...own, record: absent }, view('b', { isReady: false })),
      'False ReceivesOnly',
    );
    assert.equal(step({ isOrigin: false, record: absent }, view('b')), 'forget');
    assert.equal(step({ isOrigin: false, record: record() }, view('b')), 'forget');
  });

  test('keeps its version while a member that may have a newer one cannot be read', () => {
    const away = view('b', { isReady: false, isUsable: false });
    assert.equal(step({ ...held, isOrigin: false }, away), 'rest');
    assert.equal(step({ isOrigin: false, record: record() }, away), 'rest');
  });

  test("keeps a user's policy that is newer than a deletion, and does not keep its tombstone", () => {
    const own = { isOrigin: false, object: object({ userMs: nowMs }) };
    assert.equal(step(own, deleted), 'record Absent');
    assert.equal(step({ ...own, record: emptyRecord }, deleted), 'False ReceivesOnly');
    const tomb = record({ state: 'Deleted', versionHash: '', settledMs: nowMs - retentionMs });
    const b2 = guest({ object: object(), record: emptyRecord });
    assert.equal(step({ record: tomb }, b2), 'forget');
  });

  test('makes no version of what its server stores differently', () => {
    const pruned = record({ stamp: ago(10, 'b'), versionHash: 'v2', storedHash: 'v2 pruned' });
    const own = { object: object({ hash: 'v2 pruned' }), record: pruned };
    const gone = view('b');
    assert.equal(step(own, gone), 'record Live v2 pruned');
    assert.notEqual(step({ ...own, isOrigin: false }, gone), 'record Live v2 pruned');
  });
});

suite('records that nobody honest writes', () => {
  test('with a stamp far in the future do not count', () => {
    const forged = view('b', {
      object: object({ hash: 'v2' }),
      record: { ...newer, stamp: { ...ago(0, 'b'), timeMs: nowMs + 25 * 3_600_000 } },
    });
    assert.equal(step({ object: object(), record: record() }, forged), 'True Replicated');
  });

  test('with the stamp of another version lead to the same choice everywhere', () => {
    const twin = record({ stamp: ago(60), versionHash: 'w' });
    const c = view('c', { object: object({ hash: 'w' }), record: twin });
    assert.equal(step({ object: object(), record: record() }, c), 'replace w of c');
    const a = view('a', { object: object(), record: record() });
    assert.equal(
      step({ clusterID: 'c', object: object({ hash: 'w' }), record: twin }, a),
      'True Replicated',
    );
  });
});

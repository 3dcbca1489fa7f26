import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TargetView } from './policy-state.ts';
import { ownVersion } from './policy-version.ts';
import type { Stamp } from './stamp.ts';
import { ago, nowMs, object, record, replica, target } from './test-policy-views.ts';

const judged = (over: Partial<TargetView>) => ownVersion(target(over), nowMs);

/** The kind of finding, and the state and stamp of what must be recorded. */
function found(over: Partial<TargetView>): readonly unknown[] {
  const own = judged(over);
  if (own.type !== 'record' && own.type !== 'deleted') return [own.type];
  const { state, stamp } = own.record;
  return [own.type === 'record' ? own.why : own.type, state, textOf(stamp)];
}

const textOf = (stamp: Stamp | undefined): string =>
  stamp === undefined
    ? ''
    : `-${(nowMs - stamp.timeMs) / 1000}s.${stamp.counter}.${stamp.clusterID}`;

suite('a policy with the annotation', () => {
  test('is as its record says, while both agree', () => {
    assert.deepEqual(found({ object: object(), record: record() }), ['held']);
  });

  test('is recorded with the time at which the user wrote it', () => {
    assert.deepEqual(found({ object: object() }), ['edited', 'Live', '-60s.0.a']);
  });

  test('gets a new stamp when its content changes, even within the same second', () => {
    const changed = object({ hash: 'v2', resourceVersion: '11' });
    assert.deepEqual(found({ object: { ...changed, userMs: nowMs - 5000 }, record: record() }), [
      'edited',
      'Live',
      '-5s.0.a',
    ]);
    assert.deepEqual(found({ object: changed, record: record() }), ['edited', 'Live', '-60s.1.a']);
  });

  test('has no stamp in the future, whatever the clock of its API server says', () => {
    const changed = object({ userMs: nowMs + 3_600_000 });
    assert.deepEqual(found({ object: changed }), ['edited', 'Live', '--60s.0.a']);
  });

  test('has the time of the leader where the leader saw the edit and the clock of the API server is wrong', () => {
    const sighting = { type: 'changed', resourceVersion: '10', atMs: nowMs - 2000 } as const;
    const changed = object({ userMs: nowMs - 3_600_000 });
    assert.deepEqual(found({ object: changed, sighting }), ['edited', 'Live', '-2s.0.a']);
    const other = { ...sighting, resourceVersion: '9' };
    assert.deepEqual(found({ object: changed, sighting: other }), ['edited', 'Live', '-3600s.0.a']);
  });

  test('without managedFields has the smallest stamp that exceeds the last one', () => {
    const bare = object({ hash: 'v2', resourceVersion: '11', userMs: undefined });
    assert.deepEqual(found({ object: bare, record: record() }), ['edited', 'Live', '-60s.1.a']);
  });

  test('is no edit where the server shows the same version in another form', () => {
    const shown = object({ hash: 'v1 with defaults' });
    assert.deepEqual(found({ object: shown, record: record() }), ['refreshed', 'Live', '-60s.0.a']);
  });

  test('is not judged while the cache is behind the record', () => {
    const old = object({ hash: 'v0', resourceVersion: '9' });
    assert.deepEqual(found({ object: old, record: record() }), ['behind']);
    assert.equal(judged({ object: old, record: record(), isFresh: true }).type, 'record');
  });

  test('that is too large is no version', () => {
    assert.deepEqual(found({ object: object({ hash: undefined }) }), ['oversized']);
  });

  test('is recorded again with the places that it is in now', () => {
    const place = { isServed: true, crdUID: 'new', namespace: 'open', namespaceUID: 'ns' } as const;
    const own = judged({ object: object(), record: record(), place });
    assert.equal(own.type === 'record' && own.record.crdUID, 'new');
  });

  test('that stayed when its federation ended is federated again when a user makes it again with the same content', () => {
    const ended = record({ state: 'Ended', storedHash: 'v1' });
    assert.deepEqual(found({ object: object(), record: ended }), ['held']);
    const again = object({ uid: 'again', userMs: nowMs - 5000 });
    assert.deepEqual(found({ object: again, record: ended }), ['edited', 'Live', '-5s.0.a']);
    // What a late leader created in its place is no edit.
    const late = replica(ago(90, 'c'), 'v1', { uid: 'late' });
    assert.equal(found({ object: late, record: ended })[0], 'refreshed');
  });
});

suite('a policy that a site wrote', () => {
  test('is recorded with the version that the site wrote, where it did not come to it', () => {
    const written = replica(ago(40, 'b'), 'v2');
    assert.deepEqual(found({ object: written }), ['completed', 'Live', '-40s.0.b']);
    assert.deepEqual(found({ object: written, record: record({ objectVersion: '9' }) }), [
      'completed',
      'Live',
      '-40s.0.b',
    ]);
  });

  test('is no edit where the server stores it differently', () => {
    const written = replica(ago(40, 'b'), 'v2', { hash: 'v2 pruned' });
    const own = judged({ object: written, record: record({ objectVersion: '9' }) });
    assert.ok(own.type === 'record' && own.why === 'completed');
    assert.deepEqual([own.record.versionHash, own.record.storedHash], ['v2', 'v2 pruned']);
  });

  test('is an edit once a user changed it', () => {
    const changed = replica(ago(40, 'b'), 'v2', { hash: 'v3', userMs: nowMs - 10_000 });
    assert.deepEqual(found({ object: changed }), ['edited', 'Live', '-10s.0.a']);
  });

  test('is an edit where the user went back to what the site wrote before', () => {
    const back = replica(ago(90, 'b'), 'v1', { resourceVersion: '20', userMs: nowMs - 10_000 });
    const edited = record({ versionHash: 'v2' });
    assert.deepEqual(found({ object: back, record: edited }), ['edited', 'Live', '-10s.0.a']);
  });

  test('is a remnant where an old leader created it after a newer version was recorded', () => {
    const late = replica(ago(90, 'b'), 'v0', { uid: 'new', resourceVersion: '20' });
    assert.deepEqual(found({ object: late, record: record() }), ['left']);
    const deleted = record({ state: 'Deleted', storedHash: '' });
    assert.deepEqual(found({ object: late, record: deleted }), ['left']);
  });
});

suite('a policy that is gone', () => {
  const sighting = {
    type: 'deleted',
    atMs: nowMs - 3000,
    place: { namespaceUID: 'ns', crdUID: 'crd' },
  } as const;

  test('was deleted by a user, at the time at which the leader saw it', () => {
    assert.deepEqual(found({ record: record(), sighting }), ['deleted', 'Deleted', '-3s.0.a']);
  });

  test('was deleted just after its last version, where the leader did not see when', () => {
    assert.deepEqual(found({ record: record() }), ['deleted', 'Deleted', '-60s.1.a']);
  });

  test('was not deleted by a user where its namespace or its CRD is gone or another one', () => {
    const place = target().place;
    const places = [
      { ...place, namespace: 'missing', namespaceUID: '' },
      { ...place, namespace: 'closing' },
      { ...place, namespaceUID: 'another' },
      { ...place, isServed: false, crdUID: undefined },
      { ...place, crdUID: 'another' },
      { ...place, crdUID: '' },
    ] as const;
    for (const each of places) {
      assert.deepEqual(found({ record: record(), place: each, sighting }), ['lost']);
    }
  });

  test('counts as deleted also where it was never recorded, but only if the leader saw it go', () => {
    assert.deepEqual(found({ sighting }), ['deleted', 'Deleted', '-3s.0.a']);
    assert.deepEqual(found({}), ['none']);
    const elsewhere = { ...sighting, place: { namespaceUID: 'old', crdUID: 'crd' } };
    assert.deepEqual(found({ sighting: elsewhere }), ['none']);
  });
});

suite('a policy without the annotation', () => {
  const plain = object({ isFederated: false, hash: undefined });

  test("is a user's own", () => {
    assert.deepEqual(found({ object: plain }), ['foreign']);
    assert.deepEqual(found({ object: plain, record: record({ state: 'Deleted' }) }), ['held']);
  });

  test('ends federation where its record is live', () => {
    const removed = { ...plain, userMs: nowMs - 5000 };
    assert.deepEqual(found({ object: removed, record: record() }), ['ended', 'Ended', '-5s.0.a']);
  });

  test('is federated again when the annotation comes back, without any other change', () => {
    const ended = record({ state: 'Ended', storedHash: '' });
    assert.deepEqual(found({ object: plain, record: ended }), ['held']);
    const back = object({ userMs: nowMs - 5000 });
    assert.deepEqual(found({ object: back, record: ended }), ['edited', 'Live', '-5s.0.a']);
  });
});

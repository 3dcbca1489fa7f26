import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { withLiveStatus } from './live-status.ts';

const kind = { liveStatus: ['syncedAt', 'error'] };
const object = { metadata: { uid: 'u' }, status: { syncedAt: 'monday', error: 'e', state: 'ok' } };

suite('facts in a status', () => {
  test('take the place of the fields that a kind says move', () => {
    const live = withLiveStatus(kind, object, { uid: 'u', syncedAt: 'tuesday', state: 'broken' });
    assert.deepEqual(live.status, { syncedAt: 'tuesday', error: 'e', state: 'ok' });
    assert.equal(object.status.syncedAt, 'monday');
  });

  test('can say that a field is absent', () => {
    const live = withLiveStatus(kind, object, { uid: 'u', error: null });
    assert.deepEqual(live.status, { syncedAt: 'monday', state: 'ok' });
  });

  test('make a status where there is none yet', () => {
    const bare: { metadata: { uid: string }; status?: unknown } = { metadata: { uid: 'u' } };
    assert.deepEqual(withLiveStatus(kind, bare, { uid: 'u', syncedAt: 'now' }).status, {
      syncedAt: 'now',
    });
  });

  test('are of one object: those of a namesake count for nothing', () => {
    assert.equal(withLiveStatus(kind, object, { uid: 'other', syncedAt: 'tuesday' }), object);
  });

  test('concern no kind that names none', () => {
    assert.equal(withLiveStatus({}, object, { uid: 'u', syncedAt: 'tuesday' }), object);
    assert.equal(withLiveStatus(kind, object, undefined), object);
  });
});

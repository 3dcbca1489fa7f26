import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Change, Entry } from '../../core/store/store.ts';
import { selectionOf } from './lister.ts';
import { encodeObject } from './object-of.ts';
import type { Form } from './present.ts';
import { boatKind } from './test-kind.ts';
import { EventLines, plainLine } from './watch-events.ts';

function entry(revision: number, labels: Record<string, string>): Entry {
  const object = {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Boat',
    metadata: { name: 'a', uid: 'u', labels },
    spec: { berths: revision },
  };
  return { collection: 'boats', name: 'a', revision, value: encodeObject(object, revision) };
}

function change(revision: number, previous: Entry | undefined, next: Entry | undefined): Change {
  return { collection: 'boats', name: 'a', revision, previous, entry: next };
}

function lines(labelSelector: string, as: Form['as'] = 'object'): EventLines {
  const selection = selectionOf(boatKind, { labelSelector, fieldSelector: '' });
  return new EventLines(boatKind, selection, { as, encoding: 'json' }, 'Metadata', () => 0);
}

const read = (line: Buffer | undefined) =>
  line && (JSON.parse(line.toString()) as { type: string; object: Record<string, unknown> });

const red = entry(1, { color: 'red' });
const redder = entry(2, { color: 'red' });
const blue = entry(3, { color: 'blue' });

test('without a selector a change is told as it was, and its bytes are made once', () => {
  const added = change(1, undefined, red);
  assert.equal(read(plainLine(added))?.type, 'ADDED');
  assert.equal(plainLine(added), plainLine(added));
  assert.equal(read(plainLine(change(2, red, redder)))?.type, 'MODIFIED');
});

test('a deleted object is shown in its last state with the revision of the deletion', () => {
  const told = read(plainLine(change(9, redder, undefined)));
  assert.equal(told?.type, 'DELETED');
  assert.deepEqual(told?.object['spec'], { berths: 2 });
  assert.partialDeepStrictEqual(told?.object, { metadata: { resourceVersion: '9' } });
});

test('a deleted object is shown with the facts that went with it', () => {
  const kind = { ...boatKind, liveStatus: ['state'] };
  const form = { as: 'object', encoding: 'json' } as const;
  const gone = { ...change(9, redder, undefined), facts: { uid: 'u', state: 'afloat' } };
  for (const labelSelector of ['', 'color=red']) {
    const selection = selectionOf(kind, { labelSelector, fieldSelector: '' });
    const watcher = new EventLines(kind, selection, form, 'Metadata', () => 0);
    const told = read(watcher.ofChange(gone));
    assert.equal(told?.type, 'DELETED');
    assert.deepEqual(told?.object['status'], { state: 'afloat' });
  }
});

test('an object that begins or ceases to match is added or deleted for that watcher', () => {
  const watcher = lines('color=red');
  assert.equal(read(watcher.ofChange(change(2, red, redder)))?.type, 'MODIFIED');
  const gone = read(watcher.ofChange(change(3, redder, blue)));
  assert.equal(gone?.type, 'DELETED');
  assert.deepEqual(gone?.object['spec'], { berths: 2 });
  assert.equal(read(watcher.ofChange(change(4, blue, entry(4, { color: 'red' }))))?.type, 'ADDED');
  assert.equal(watcher.ofChange(change(5, blue, entry(5, { color: 'green' }))), undefined);
  assert.equal(watcher.ofChange(change(6, blue, undefined)), undefined);
});

test('a table watch sends its columns with the first event only', () => {
  const watcher = lines('', 'table');
  const first = read(watcher.ofChange(change(1, undefined, red)))?.object;
  const second = read(watcher.ofChange(change(2, red, redder)))?.object;
  assert.equal(first?.['kind'], 'Table');
  assert.ok(Array.isArray(first?.['columnDefinitions']));
  assert.equal(second?.['columnDefinitions'], null);
});

test('a bookmark carries a revision, and the one after the initial events says so', () => {
  const watcher = lines('');
  assert.deepEqual(read(watcher.bookmark(7, false)), {
    type: 'BOOKMARK',
    object: { kind: 'Boat', apiVersion: 'hansa.dev/v1alpha1', metadata: { resourceVersion: '7' } },
  });
  assert.partialDeepStrictEqual(read(watcher.bookmark(7, true))?.object, {
    metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } },
  });
});

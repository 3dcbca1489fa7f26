import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { Lister, selectionOf } from './lister.ts';
import { encodeObject } from './object-of.ts';
import { type ListOptions, listOptions } from './options.ts';
import { boatKind } from './test-kind.ts';

async function put(store: Store, name: string, labels: Record<string, string> = {}): Promise<void> {
  const object = {
    apiVersion: 'hansa.dev/v1alpha1',
    kind: 'Boat',
    metadata: { name, labels },
    spec: { berths: 1, home: 'visby' },
  };
  await store.commit({
    put: [{ collection: 'boats', name, encode: (revision) => encodeObject(object, revision) }],
  });
}

async function scene(...names: string[]) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  for (const name of names) await put(store, name, { first: name.slice(0, 1) });
  return { clock, store, lister: new Lister(store, clock) };
}

function options(query = ''): ListOptions {
  return listOptions(new URLSearchParams(query));
}

function page(lister: Lister, query: string) {
  const given = options(query);
  return lister.page(boatKind, given, selectionOf(boatKind, given));
}

const namesOf = ({ entries }: { entries: readonly { name: string }[] }) =>
  entries.map(({ name }) => name);

test('a list shows every object in order of names, at the revision of the store', async () => {
  const { lister, store } = await scene('b', 'a');
  const whole = page(lister, '');
  assert.deepEqual(namesOf(whole), ['a', 'b']);
  assert.equal(whole.revision, store.revision);
  const body = JSON.parse(lister.jsonBody(boatKind, whole).toString()) as Record<string, unknown>;
  assert.equal(body['kind'], 'BoatList');
  assert.deepEqual(body['metadata'], { continue: '', resourceVersion: String(store.revision) });
});

test('facts are in the body of a list, without another revision, and only where the kind says so', async () => {
  const { lister, store } = await scene('a', 'b');
  const live = { ...boatKind, liveStatus: ['state'] };
  const states = (kind: typeof boatKind): unknown[] => {
    const body = JSON.parse(lister.jsonBody(kind, page(lister, '')).toString()) as {
      readonly items: readonly { readonly status?: { readonly state?: string } }[];
    };
    return body.items.map(({ status }) => status?.state);
  };
  const { revision } = store;
  store.facts.merge('boats', 'b', { uid: undefined, state: 'at sea' });
  assert.deepEqual(states(live), [undefined, 'at sea']);
  store.facts.merge('boats', 'b', { state: 'at home' });
  assert.deepEqual(states(live), [undefined, 'at home']);
  assert.deepEqual(states(boatKind), [undefined, undefined]);
  assert.equal(store.revision, revision);
});

test('the body of a whole list is made once while nothing changes', async () => {
  const { lister, store } = await scene('a');
  const before = lister.jsonBody(boatKind, page(lister, ''));
  assert.equal(lister.jsonBody(boatKind, page(lister, '')), before);
  await put(store, 'b');
  assert.notEqual(lister.jsonBody(boatKind, page(lister, '')), before);
});

test('chunks show the moment of the first one, whatever happens in between', async () => {
  const { lister, store } = await scene('a', 'b', 'c', 'd');
  const first = page(lister, 'limit=2');
  assert.deepEqual(namesOf(first), ['a', 'b']);
  assert.equal(first.remainingItemCount, 2);
  await store.commit({ delete: [{ collection: 'boats', name: 'c' }] });
  await put(store, 'bb');
  const second = page(lister, `limit=2&continue=${first.continueToken}`);
  assert.deepEqual(namesOf(second), ['c', 'd']);
  assert.equal(second.revision, first.revision);
  assert.equal(second.continueToken, undefined);
});

test('a chunk that comes too late is refused with a token for an inconsistent remainder', async () => {
  const { lister, clock, store } = await scene('a', 'b', 'c');
  const first = page(lister, 'limit=1');
  await clock.advance(5 * 60_000 + 1);
  await put(store, 'd');
  let token = '';
  assert.throws(
    () => page(lister, `continue=${first.continueToken}`),
    (error) => {
      assert.ok(error instanceof HansaError && error.code === 'HANSA_EXPIRED');
      token = error.details?.continueToken ?? '';
      return true;
    },
  );
  assert.deepEqual(namesOf(page(lister, `continue=${token}`)), ['b', 'c', 'd']);
});

test('selectors choose by labels and by declared fields', async () => {
  const { lister } = await scene('anna', 'berta', 'alma');
  assert.deepEqual(namesOf(page(lister, 'labelSelector=first%3Da')), ['alma', 'anna']);
  assert.deepEqual(namesOf(page(lister, 'fieldSelector=metadata.name%3Dberta')), ['berta']);
  assert.deepEqual(namesOf(page(lister, 'fieldSelector=spec.home%21%3Dvisby')), []);
  assert.deepEqual(namesOf(page(lister, 'labelSelector=first%3Da&limit=1')), ['alma']);
});

test('a revision that has not happened is not waited for', async () => {
  const { lister } = await scene('a');
  assert.throws(() => page(lister, 'resourceVersion=999'), /Too large resource version: 999/);
});

for (const [query, message] of [
  ['continue=%%%', /continue key is not valid/],
  [
    `continue=${Buffer.from('{"v":"meta.k8s.io/v1","rv":"x","start":"a"}').toString('base64url')}`,
    /continue key is not valid/,
  ],
  [
    `continue=${Buffer.from('{"v":"v0"}').toString('base64url')}`,
    /does not recognize this encoded version/,
  ],
  ['resourceVersion=abc', /invalid resource version/],
] as const) {
  test(`a list with ${query} is refused`, async () => {
    const { lister } = await scene('a');
    assert.throws(() => page(lister, query), message);
  });
}

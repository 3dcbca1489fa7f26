import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { mostPerTurn } from '../../core/limits/test-most-per-turn.ts';
import { WorkTurns, workMs } from '../../core/limits/work-turns.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { Lister, type Page, selectionOf } from './lister.ts';
import type { AnswerBody } from '../http/answers.ts';
import { maxWriteBytes } from '../http/unread-output.ts';
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
  const turns = new WorkTurns(clock);
  return { clock, store, lister: new Lister({ store, clock, turns }) };
}

function options(query = ''): ListOptions {
  return listOptions(new URLSearchParams(query));
}

function page(lister: Lister, query: string): Page {
  return lister.page(boatKind, options(query));
}

async function select(lister: Lister, query: string): Promise<Page> {
  const given = options(query);
  const selection = selectionOf(boatKind, given);
  assert.ok(selection);
  return lister.select(boatKind, given, selection, 'ada');
}

function textOf(body: Buffer | AnswerBody): string {
  if (Buffer.isBuffer(body)) return body.toString();
  let text = '';
  for (;;) {
    const piece = body.next(100);
    if (piece === undefined) return text;
    assert.ok(Buffer.isBuffer(piece));
    text += piece.toString();
  }
}

const namesOf = ({ entries }: { entries: readonly { name: string }[] }) =>
  entries.map(({ name }) => name);

test('a list shows every object in order of names, at the revision of the store', async () => {
  const { lister, store } = await scene('b', 'a');
  const whole = page(lister, '');
  assert.deepEqual(namesOf(whole), ['a', 'b']);
  assert.equal(whole.revision, store.revision);
  const body = JSON.parse(textOf(lister.body(boatKind, whole))) as Record<string, unknown>;
  assert.equal(body['kind'], 'BoatList');
  assert.deepEqual(body['metadata'], { continue: '', resourceVersion: String(store.revision) });
});

test('facts are in the body of a list, without another revision, and only where the kind says so', async () => {
  const { lister, store } = await scene('a', 'b');
  const live = { ...boatKind, liveStatus: ['state'] };
  const states = (kind: typeof boatKind): unknown[] => {
    const body = JSON.parse(textOf(lister.body(kind, page(lister, '')))) as {
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
  const before = lister.body(boatKind, page(lister, ''));
  assert.equal(lister.body(boatKind, page(lister, '')), before);
  await put(store, 'b');
  assert.notEqual(lister.body(boatKind, page(lister, '')), before);
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
  assert.deepEqual(namesOf(await select(lister, 'labelSelector=first%3Da')), ['alma', 'anna']);
  assert.deepEqual(namesOf(await select(lister, 'fieldSelector=metadata.name%3Dberta')), ['berta']);
  assert.deepEqual(namesOf(await select(lister, 'fieldSelector=metadata.name%3Dcarla')), []);
  assert.deepEqual(namesOf(await select(lister, 'fieldSelector=spec.home%21%3Dvisby')), []);
  assert.deepEqual(namesOf(await select(lister, 'labelSelector=first%3Da&limit=1')), ['alma']);
});

test('selected chunks continue where the last one ended', async () => {
  const { lister } = await scene('a', 'b', 'aa', 'ab', 'c');
  const first = await select(lister, 'labelSelector=first%3Da&limit=2');
  assert.deepEqual(namesOf(first), ['a', 'aa']);
  const second = await select(
    lister,
    `labelSelector=first%3Da&limit=2&continue=${first.continueToken}`,
  );
  assert.deepEqual(namesOf(second), ['ab']);
  const third = await select(
    lister,
    `labelSelector=first%3Dc&continue=${first.continueToken}&limit=1`,
  );
  assert.deepEqual(namesOf(third), ['c']);
  assert.equal(third.continueToken, undefined);
});

const filler = 'x'.repeat(64 * 1024);

async function large() {
  const all = await scene();
  const write = (name: string) =>
    all.store.commit({
      put: [
        {
          collection: 'boats',
          name,
          encode: (revision) =>
            encodeObject(
              { apiVersion: 'v1', kind: 'Boat', metadata: { name, annotations: { filler } } },
              revision,
            ),
        },
      ],
    });
  for (let at = 0; at < maxWriteBytes / filler.length + 10; at += 1) await write(`b${at}`);
  return { ...all, write };
}

const piecesOf = (body: Buffer | AnswerBody): Buffer[] => {
  assert.ok(!Buffer.isBuffer(body));
  const pieces: Buffer[] = [];
  for (;;) {
    const piece = body.next(Infinity);
    if (piece === undefined) return pieces;
    assert.ok(Buffer.isBuffer(piece));
    pieces.push(piece);
  }
};

test('all clients share the pieces of a whole list that fits into no single write', async () => {
  const { lister, store } = await large();
  const whole = page(lister, '');
  const first = piecesOf(lister.body(boatKind, whole));
  // Another collection changes, and with it only the revision.
  await store.commit({
    put: [{ collection: 'other', name: 'a', encode: () => Buffer.from('{}') }],
  });
  const body = lister.body(boatKind, page(lister, '')) as AnswerBody;
  const second = piecesOf(body);
  assert.equal(body.length, Buffer.concat(second).length);
  assert.notDeepEqual(first[0], second[0]);
  assert.ok(second.length > 5);
  for (const [at, piece] of second.entries())
    if (at > 0) assert.equal(piece.buffer, first[at]?.buffer);
  const { items } = JSON.parse(Buffer.concat(second).toString()) as { items: readonly unknown[] };
  assert.deepEqual(items, JSON.parse(`[${whole.entries.map(({ value }) => value).join(',')}]`));
});

test('a client that still reads an older whole list gets it whole, and no copy of it is kept', async () => {
  const { lister, write } = await large();
  const old = page(lister, '');
  const expected = piecesOf(lister.body(boatKind, old));
  const slow = lister.body(boatKind, old) as AnswerBody;
  const begun = [slow.next(10), slow.next(10)] as Buffer[];
  await write('zz');
  lister.body(boatKind, page(lister, ''));
  const rest = piecesOf(slow);
  assert.deepEqual(Buffer.concat([...begun, ...rest]), Buffer.concat(expected));
  // Only the objects are shared with what was made before.
  assert.ok(rest.every((piece) => expected.every((other) => other.buffer !== piece.buffer)));
});

/** Selections of 100 objects, where each look at one takes a quarter of a millisecond. */
async function slowScene() {
  const { store } = await scene(...Array.from({ length: 100 }, (_, at) => `b${at}`));
  const looked = { count: 0, users: [] as string[] };
  const clock = { monotonic: () => looked.count / 4 };
  const lister = new Lister({ store, clock, turns: new WorkTurns(clock) });
  const selectFor = (user: string): Promise<Page> => {
    const matches = (): boolean => {
      looked.count += 1;
      looked.users.push(user);
      return true;
    };
    const labels = { empty: false, matches };
    return lister.select(boatKind, options(), { labels, fields: undefined }, user);
  };
  return { looked, selectFor };
}

test('the selections of all callers together look at few objects in a turn of the event loop', async () => {
  const { looked, selectFor } = await slowScene();
  const start = () =>
    Promise.all(Array.from({ length: 10 }, (_, at) => selectFor(`user-${at % 3}`)));
  // Steps of 8 objects, which take 2 ms, until 5 ms are over.
  assert.equal(await mostPerTurn(start, looked), 8 * Math.ceil(workMs / 2));
  assert.equal(looked.count, 1000);
});

test('a user with many selections delays only itself', async () => {
  const { looked, selectFor } = await slowScene();
  await Promise.all([...Array.from({ length: 20 }, () => selectFor('eve')), selectFor('ada')]);
  assert.equal(looked.count, 2100);
  const beforeLast = looked.users.slice(0, looked.users.lastIndexOf('ada'));
  assert.ok(beforeLast.filter((user) => user === 'eve').length < 150);
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

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { suite, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { HansaError } from '../../core/errors/error.ts';
import { openStore } from '../../core/store/open.ts';
import { Answers } from '../http/answers.ts';
import type { Exchange } from '../http/exchange.ts';
import { type Selection, selectionOf } from './lister.ts';
import { encodeObject } from './object-of.ts';
import { listOptions } from './options.ts';
import { boatKind as kind } from './test-kind.ts';
import { Watches } from './watches.ts';

/** The answer of a client that reads when the test says so. */
class Reader extends EventEmitter {
  readonly chunks: Buffer[] = [];
  destroyed = false;
  hasEnded = false;
  #taken: (() => void) | undefined;

  writeHead(): void {}

  write(bytes: Buffer, taken: () => void): boolean {
    assert.equal(this.#taken, undefined, 'a chunk was written before the last one was taken');
    this.chunks.push(bytes);
    this.#taken = taken;
    return false;
  }

  end(bytes: Buffer, taken: () => void): void {
    if (bytes.length > 0) this.chunks.push(bytes);
    this.hasEnded = true;
    this.#taken = taken;
  }

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }

  /** Takes one chunk. */
  async read(): Promise<boolean> {
    const taken = this.#taken;
    if (taken === undefined) return false;
    this.#taken = undefined;
    taken();
    await turns();
    return true;
  }

  async readAll(): Promise<void> {
    while (await this.read());
  }

  get events(): string[] {
    const lines = Buffer.concat(this.chunks).toString().split('\n').slice(0, -1);
    return lines.map((line) => {
      const { type, object } = JSON.parse(line) as {
        type: string;
        object: { metadata?: { name?: string } };
      };
      return `${type} ${object.metadata?.name ?? ''}`.trim();
    });
  }

  get bytes(): number {
    return this.chunks.reduce((sum, { length }) => sum + length, 0);
  }
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) await settle();
}

async function pass(clock: VirtualClock, ms: number): Promise<void> {
  await clock.advance(ms);
  await turns();
}

const kilobyte = 'x'.repeat(1024);

async function scene(maxBytes = 64 * 1024 ** 2) {
  const clock = new VirtualClock();
  const random = new SeededRandom('watch-stream');
  const store = await openStore({ driver: 'memory' }, { clock });
  const answers = new Answers(clock, { withinMs: 60_000, maxBytes });
  const watches = new Watches({ store, clock, random, answers });
  const write = async (names: readonly string[], filler = kilobyte): Promise<void> => {
    await store.commit({
      put: names.map((name) => ({
        collection: kind.plural,
        name,
        encode: (revision: number) =>
          encodeObject(
            {
              apiVersion: 'hansa.dev/v1alpha1',
              kind: 'Boat',
              metadata: { name, uid: name, annotations: { filler } },
              spec: { berths: 1 },
            },
            revision,
          ),
      })),
    });
    await turns();
  };
  let mayWatch = true;
  const open = async (query = '', payer = 'ada', selection?: Selection): Promise<Reader> => {
    const reader = new Reader();
    const parameters = new URLSearchParams(query);
    const exchange = { response: reader, query: parameters, payer } as unknown as Exchange;
    const options = listOptions(parameters);
    const form = { as: 'object', encoding: 'json' } as const;
    watches.serve(exchange, kind, options, selection ?? selectionOf(kind, options), form, () => {
      if (!mayWatch) throw new HansaError('HANSA_FORBIDDEN', 'no more');
    });
    await turns();
    return reader;
  };
  const forbid = (): void => {
    mayWatch = false;
    for (const watch of watches.open) watch.recheck();
  };
  return {
    clock,
    store,
    work: answers.turns,
    unread: answers.unread,
    watches,
    write,
    open,
    forbid,
  };
}

const names = (count: number, prefix = 'b') =>
  Array.from({ length: count }, (_, at) => `${prefix}${String(at).padStart(5, '0')}`);

suite('a watch', () => {
  test('that is not read gets one chunk of what is there, and the rest as it reads', async () => {
    const { write, open, unread } = await scene();
    await write(names(500));
    const reader = await open();
    assert.equal(reader.chunks.length, 1);
    assert.ok(reader.bytes < 40 * 1024, `${reader.bytes} bytes wait`);
    assert.ok(unread.bytes < 40 * 1024);
    await reader.readAll();
    assert.deepEqual(
      reader.events,
      names(500).map((name) => `ADDED ${name}`),
    );
    assert.equal(unread.bytes, 0);
  });

  test('tells what is there, where that ends, and then what happened meanwhile', async () => {
    const { write, open } = await scene();
    await write(names(100));
    const reader = await open(
      'watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=',
    );
    await write(['late']);
    await reader.readAll();
    assert.deepEqual(reader.events.slice(-3), ['ADDED b00099', 'BOOKMARK', 'ADDED late']);
    assert.equal(reader.events.length, 102);
  });

  test('whose selector matches the last of many objects finds it', async () => {
    const { write, open } = await scene();
    for (const group of ['a', 'b', 'c', 'd']) await write(names(500, group), '');
    const reader = await open('fieldSelector=metadata.name%3Dd00499');
    for (let turn = 0; turn < 20; turn += 1) await turns();
    await reader.readAll();
    assert.deepEqual(reader.events, ['ADDED d00499']);
  });

  test('with a selector takes turns with those of other users', async () => {
    const { write, open } = await scene();
    await write(names(500), '');
    const users: string[] = [];
    const selectionOfUser = (user: string): Selection => ({
      labels: {
        empty: false,
        matches: () => {
          users.push(user);
          return false;
        },
      },
      fields: undefined,
    });
    const all = Array.from({ length: 20 }, () => open('', 'eve', selectionOfUser('eve')));
    await Promise.all([...all, open('', 'ada', selectionOfUser('ada'))]);
    for (let turn = 0; turn < 200 && users.length < 10_500; turn += 1) await turns();
    assert.equal(users.length, 10_500);
    const before = users.slice(0, users.lastIndexOf('ada'));
    assert.ok(before.filter((user) => user === 'eve').length < 1000);
  });

  test('keeps order and loses nothing when its client reads slowly', async () => {
    const { clock, write, open } = await scene();
    const reader = await open();
    for (const name of names(200)) {
      await write([name]);
      if (name.endsWith('0')) await reader.read();
      await pass(clock, 1_000);
    }
    await reader.readAll();
    assert.equal(reader.destroyed, false);
    assert.deepEqual(
      reader.events,
      names(200).map((name) => `ADDED ${name}`),
    );
  });

  test('is ended when nothing of it was read for the time that answers have', async () => {
    const { clock, write, open, unread, watches } = await scene();
    const reader = await open();
    await write(['a']);
    await pass(clock, 59_999);
    assert.equal(reader.destroyed, false);
    await pass(clock, 1);
    assert.equal(reader.destroyed, true);
    assert.equal(unread.bytes, 0);
    assert.equal(watches.count(kind.plural), 0);
  });

  test('that is silent is not ended: there is nothing to read', async () => {
    const { clock, open } = await scene();
    const reader = await open();
    await pass(clock, 600_000);
    assert.equal(reader.destroyed, false);
  });

  test('that falls behind by more than 8 MiB of changes is ended', async () => {
    const { write, open } = await scene();
    const reader = await open();
    const large = 'x'.repeat(128 * 1024);
    for (let count = 0; count < 64; count += 1) await write(['a'], large);
    assert.equal(reader.destroyed, false);
    await write(['a'], large);
    await write(['a'], large);
    assert.equal(reader.destroyed, true);
  });

  test('that waits for a turn of its user meanwhile is ended too', async () => {
    const { write, open, work } = await scene();
    const reader = await open('labelSelector=!none');
    await write(['a']);
    await reader.readAll();
    const others = Array.from({ length: 2_000 }, () => work.run('ada', yieldToEventLoop));
    const large = 'x'.repeat(128 * 1024);
    for (let count = 0; count < 60; count += 1) await write(['a'], large);
    assert.equal(reader.destroyed, false);
    for (let count = 0; count < 6; count += 1) await write(['a'], large);
    assert.equal(reader.chunks.length, 1);
    assert.equal(reader.destroyed, true);
    await Promise.all(others);
  });

  test('is ended when the watches of its user leave too much unread, the longest unread first', async () => {
    const { write, open, unread } = await scene(400 * 1024);
    await write(names(100));
    const other = await open('', 'bo');
    const readers: Reader[] = [];
    for (let count = 0; count < 8; count += 1) readers.push(await open());
    assert.equal(other.destroyed, false);
    assert.deepEqual(
      readers.map(({ destroyed }) => destroyed),
      [true, true, true, true, true, false, false, false],
    );
    assert.ok(unread.bytes <= 140 * 1024);
  });

  test('that has read everything ends with a bookmark, one that is behind ends without', async () => {
    const { write, open, watches } = await scene();
    await write(names(100));
    const behind = await open('allowWatchBookmarks=true');
    const current = await open('allowWatchBookmarks=true');
    await current.readAll();
    watches.drain();
    assert.equal(current.events.at(-1), 'BOOKMARK');
    assert.equal(current.events.length, 101);
    assert.ok(!behind.events.includes('BOOKMARK'));
    assert.deepEqual([behind.hasEnded, current.hasEnded], [true, true]);
  });

  test('whose caller lost the right is told so at once, even when it is behind', async () => {
    const { clock, write, open, forbid } = await scene();
    await write(names(100));
    const reader = await open();
    forbid();
    assert.equal(reader.events.at(-1), 'ERROR');
    assert.equal(reader.hasEnded, true);
    // It does not read that, either.
    await pass(clock, 60_000);
    assert.equal(reader.destroyed, true);
  });
});

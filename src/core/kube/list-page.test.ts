import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Clock } from '../clock/clock.ts';
import { settle, VirtualClock } from '../clock/virtual.ts';
import { JsonExcessError } from '../json/strict-json.ts';
import { WorkTime } from '../limits/turns.ts';
import { maxObjectValues, readListPage } from './list-page.ts';

const object = (name: string, more: object = {}) => ({ metadata: { name }, ...more });

const list = (items: unknown, more: object = {}): Buffer =>
  Buffer.from(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'PodList',
      metadata: { resourceVersion: '7', continue: 'next' },
      items,
      ...more,
    }),
  );

async function read(body: Buffer, maxValues = 1_000_000, time?: WorkTime) {
  const items: unknown[] = [];
  const head = await readListPage(body, time, { maxValues }, (item) => items.push(item));
  return { head, items };
}

describe('a page of a list', () => {
  test('gives each object the apiVersion and kind that lists leave out', async () => {
    assert.deepEqual(await read(list([object('a'), object('b', { kind: 'Own' })])), {
      head: { next: 'next', resourceVersion: '7' },
      items: [
        { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } },
        { apiVersion: 'v1', kind: 'Own', metadata: { name: 'b' } },
      ],
    });
    // Go writes null for an empty list.
    assert.deepEqual((await read(list(null))).items, []);
  });

  test('is undefined for everything but a list', async () => {
    const notLists = [
      list([], { kind: 'Pod' }),
      list([], { metadata: 1 }),
      list([{}]),
      list([object('a', { metadata: 'none' })]),
      Buffer.from('[]'),
      Buffer.from(
        list([object('a')])
          .toString()
          .replace(/\}$/, ',"items":[{}]}'),
      ),
    ];
    for (const body of notLists) assert.equal((await read(body)).head, undefined, String(body));
  });

  test('is rejected before it is parsed where it or an object of it has too many fields and items', async () => {
    const many = (count: number) => object('a', { data: Array.from({ length: count }, () => 0) });
    const cases = [
      [list([many(maxObjectValues)]), 1_000_000],
      [list([many(300), many(300)]), 500],
    ] as const;
    for (const [body, maxValues] of cases) {
      const items: unknown[] = [];
      const reading = readListPage(body, undefined, { maxValues }, (item) => items.push(item));
      await assert.rejects(reading, JsonExcessError);
      assert.deepEqual(items, []);
    }
  });

  test('lets others work between its objects', async () => {
    const base = new VirtualClock();
    let looks = 0;
    // Each look at the clock takes 3 ms, so two objects are a slice.
    const clock: Clock = {
      now: () => base.now(),
      monotonic: () => base.monotonic() + 3 * looks++,
      timer: (delayMs, fire) => base.timer(delayMs, fire),
    };
    const items = Array.from({ length: 100 }, (_, at) => object(`o-${at}`));
    let turns = 0;
    const others = async (): Promise<void> => {
      for (; turns < 1000; turns++) await settle();
    };
    const working = others();
    const { items: found } = await read(list(items), 1_000_000, new WorkTime(clock));
    const turnsMeanwhile = turns;
    await working;
    assert.equal(found.length, 100);
    assert.ok(turnsMeanwhile >= 50, `${turnsMeanwhile} turns`);
  });
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { latestMs } from '../../api/kinds/policy-record.ts';
import {
  byPlace,
  maxRecordLength,
  parseTenures,
  placesOf,
  recordedTenures,
  type TenureRecord,
  tenureOf,
  textOfTenures,
} from './tenures.ts';

const record = (
  clusterID: string,
  from: TenureRecord['from'],
  tenures: Readonly<Record<string, number>>,
): TenureRecord => ({ clusterID, from, tenures: new Map(Object.entries(tenures)) });

const claim = (clusterID: string, createdAt: string, admittedAt?: string) => ({
  clusterID,
  createdAt: `${createdAt}T00:00:00Z`,
  admittedAt: admittedAt && `${admittedAt}T00:00:00Z`,
});

const order = (claims: Parameters<typeof placesOf>[0], records: readonly TenureRecord[] = []) => {
  const places = placesOf(claims, { records, nowMs: 1000 });
  return claims
    .toSorted(byPlace(places))
    .map(({ clusterID }) => clusterID)
    .join(' ');
};

describe('the order of clusters', () => {
  test('is by date among new claims, and no date counts before the admission', () => {
    assert.equal(order([claim('a', '2026-01-02'), claim('b', '2026-01-01')]), 'b a');
    const forged = claim('evil', '1999-01-01', '2026-01-03');
    assert.equal(order([claim('a', '2026-01-02', '2020-01-01'), forged]), 'a evil');
    const together = [
      claim('a', '2024-01-02', '2026-01-01'),
      claim('b', '2023-01-01', '2026-01-01'),
    ];
    assert.equal(order(together), 'b a', 'members that were admitted at the same time');
  });

  test('puts what is new after all that is in effect, whatever its date and the clock say', () => {
    const claims = [claim('a', '2026-01-02'), claim('evil', '1999-01-01')];
    for (const ms of [1, 5000, latestMs]) {
      assert.equal(order(claims, [record('home', 'trusted', { a: ms })]), 'a evil', String(ms));
    }
  });

  test('is the earliest that homes say, then what the target says, then what others testify', () => {
    const homes = [record('h1', 'trusted', { a: 5 }), record('h2', 'trusted', { a: 4 })];
    const own = record('t', 'own', { a: 1, b: 2 });
    const others = [record('x', 'witness', { a: 0, b: 0, c: 3 }), record('y', 'witness', { c: 9 })];
    const tenancy = { records: [...homes, own, ...others], nowMs: 0 };
    assert.deepEqual(
      ['a', 'b', 'c', 'd'].map((id) => tenureOf(id, tenancy)?.ms),
      [4, 2, 3, undefined],
    );
  });

  test('puts nobody before those in effect because others testify', () => {
    const claims = [claim('a', '2026-01-02'), claim('friend', '2026-01-03')];
    const evil = record('evil', 'witness', { friend: 0 });
    for (const from of ['trusted', 'own'] as const) {
      assert.equal(order(claims, [record('t', from, { a: 5 }), evil]), 'a friend', from);
    }
    assert.equal(order(claims, [record('west', 'witness', { a: 5 }), evil]), 'friend a');
  });

  test('hears no member in its own cause', () => {
    const tenancy = { records: [record('evil', 'witness', { evil: 1 })], nowMs: 0 };
    assert.equal(tenureOf('evil', tenancy), undefined);
  });

  test('never changes for those in effect when others come, in any order and with any dates', () => {
    const id = fc.constantFrom('a', 'b', 'c', 'd', 'e');
    const date = fc.constantFrom('1999-01-01', '2024-01-01', '2026-01-01');
    const step = fc.record({ id, date, nowMs: fc.integer({ min: 0, max: 20 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const claims = new Map<string, ReturnType<typeof claim>>();
        let text: string | undefined;
        let before: readonly string[] = [];
        for (const { id: clusterID, date: createdAt, nowMs } of steps) {
          claims.set(clusterID, claim(clusterID, createdAt));
          const records = [{ clusterID: 't', from: 'own', tenures: parseTenures(text) } as const];
          text = recordedTenures(placesOf([...claims.values()], { records, nowMs }), text);
          const now = text.split(' ').map((part) => part.split('=')[0] ?? '');
          assert.deepEqual(now.slice(0, before.length), before);
          before = now;
        }
      }),
    );
  });
});

describe('a record', () => {
  test('comes back as it was written, the first one first', () => {
    const tenures = new Map([
      ['b', 7],
      ['a', 7],
      ['shop.example.com', 3],
    ]);
    assert.equal(textOfTenures(tenures), 'shop.example.com=3 a=7 b=7');
    assert.deepEqual([...parseTenures('shop.example.com=3 a=7 b=7')], [...tenures].toReversed());
  });

  test('leaves out what no site writes', () => {
    for (const text of ['', 'a', 'a=', '=1', 'a=-1', 'a=1.5', 'a=01', `a=${latestMs + 1}`, 'A=1']) {
      assert.deepEqual([...parseTenures(text)], [], text);
    }
    assert.deepEqual([...parseTenures(undefined)], []);
  });

  test('stays as it is while the order is the same', () => {
    const tenures = new Map([
      ['a', 1],
      ['b', 2],
    ]);
    assert.equal(recordedTenures(tenures, 'a=5 b=9'), 'a=5 b=9');
    assert.equal(recordedTenures(tenures, 'b=5 a=9'), 'a=1 b=2');
    assert.equal(recordedTenures(tenures, undefined), 'a=1 b=2');
  });

  test('fits into an annotation that its readers read, and never changes only because it is cut', () => {
    const tenures = new Map(
      Array.from({ length: 1000 }, (_, at) => [`${'c'.repeat(55)}${at}`, at] as const),
    );
    const text = textOfTenures(tenures);
    assert.ok(text.length <= maxRecordLength && text.length > maxRecordLength - 100);
    assert.equal(recordedTenures(tenures, text), text);
  });
});

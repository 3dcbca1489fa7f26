// Conformance tests with random commits, compared with a simple model.

import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { hasCode } from '../../errors/error.ts';
import type { Change, Commit, Store } from '../store.ts';
import { naiveRoot } from '../../merkle/test-naive-tree.ts';
import type { MakePlace } from './harness.ts';
import { audit, put, test, turn, withStore } from './harness.ts';

interface Step {
  /** A record, and whether its expectation should hold. */
  readonly expect: readonly { readonly name: string; readonly right: boolean }[];
  readonly put: readonly { readonly name: string; readonly value: string }[];
  readonly delete: readonly string[];
  readonly audit: readonly string[];
}

const name = fc.constantFrom('a', 'b', 'c', 'd');

const step: fc.Arbitrary<Step> = fc.record({
  expect: fc.array(fc.record({ name, right: fc.boolean() }), { maxLength: 2 }),
  put: fc.array(fc.record({ name, value: fc.string({ maxLength: 5 }) }), { maxLength: 3 }),
  delete: fc.array(name, { maxLength: 2 }),
  audit: fc.array(fc.string({ maxLength: 5 }), { maxLength: 2 }),
});

/** Steps of one group are called at once; the store may be reopened or compacted after a group. */
const plan = fc.array(
  fc.record({
    steps: fc.array(step, { minLength: 1, maxLength: 6 }),
    next: fc.constantFrom('go on', 'go on', 'reopen', 'compact'),
  }),
  { maxLength: 6 },
);

class Model {
  revision = 0;
  readonly records = new Map<string, { revision: number; value: string }>();
  readonly log: Buffer[] = [];
  readonly told: string[] = [];

  expectation({ name: of, right }: Step['expect'][number]): number | 'absent' {
    const at = this.records.get(of)?.revision ?? 'absent';
    if (right) return at;
    return at === 'absent' ? 1 : 'absent';
  }

  /** The outcome that the store must have: a revision, or 'refused'. */
  apply(wanted: Step): number | 'refused' {
    if (wanted.expect.some(({ right }) => !right)) return 'refused';
    for (const { name: of, value } of wanted.put) {
      this.revision++;
      this.records.set(of, { revision: this.revision, value });
      this.told.push(`${this.revision} ${of} = ${value}`);
    }
    for (const of of wanted.delete) {
      if (!this.records.delete(of)) continue;
      this.revision++;
      this.told.push(`${this.revision} ${of} deleted`);
    }
    for (const row of wanted.audit) this.log.push(Buffer.from(row));
    return this.revision;
  }
}

function commitOf(wanted: Step, model: Model): Commit {
  return {
    expect: wanted.expect.map((expectation) => ({
      collection: 'things',
      name: expectation.name,
      at: model.expectation(expectation),
    })),
    put: wanted.put.map(({ name: of, value }) => put('things', of, value)),
    delete: wanted.delete.map((of) => ({ collection: 'things', name: of })),
    audit: wanted.audit.map(audit),
  };
}

function check(store: Store, model: Model): void {
  assert.equal(store.revision, model.revision);
  const listed = store
    .list('things')
    .entries.map((entry) => [entry.name, entry.revision, entry.value.toString()]);
  const expected = [...model.records]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([of, { revision, value }]) => [of, revision, value]);
  assert.deepEqual(listed, expected);
  assert.equal(store.auditLog.size, model.log.length);
  assert.deepEqual(store.auditLog.rootHash, naiveRoot(model.log));
}

export function modelConformance(makePlace: MakePlace, runs: number): void {
  test('random commits, reopenings and compactions agree with a model', () =>
    fc.assert(
      fc.asyncProperty(plan, (groups) =>
        withStore(makePlace, async (first, place) => {
          let store = first;
          const model = new Model();
          const told: string[] = [];
          const watcher = {
            changes: (changes: readonly Change[]) => {
              for (const { revision, name: of, entry } of changes) {
                const what = entry === undefined ? 'deleted' : `= ${entry.value.toString()}`;
                told.push(`${revision} ${of} ${what}`);
              }
            },
            ended() {},
          };
          store.watch('things', 0, watcher);
          for (const { steps, next } of groups) {
            const outcomes: Promise<number | 'refused'>[] = [];
            const expected: (number | 'refused')[] = [];
            for (const wanted of steps) {
              const commit = commitOf(wanted, model);
              expected.push(model.apply(wanted));
              outcomes.push(
                store.commit(commit).then(
                  ({ revision }) => revision,
                  (error: unknown) => {
                    assert.ok(hasCode(error, 'HANSA_CONFLICT'), String(error));
                    return 'refused' as const;
                  },
                ),
              );
            }
            assert.deepEqual(await Promise.all(outcomes), expected);
            check(store, model);
            if (next === 'compact') await store.compact(store.revision);
            if (next === 'reopen') {
              await store.close();
              store = await place.open();
              check(store, model);
              store.watch('things', model.revision, watcher);
            }
          }
          await turn();
          assert.deepEqual(told, model.told);
          await store.close();
        }),
      ),
      { numRuns: runs },
    ));
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  activate,
  type AuthorityPhase,
  clockSkewMs,
  maxTtlSeconds,
  prepare,
  prune,
} from '../../core/identity/authority/phases.ts';
import {
  lastMomentMs,
  planRotation,
  type RotationState,
  standbyMs,
  turnMs,
} from './rotation-plan.ts';
import type { Unconfirmed } from './receipts.ts';

const day = 86_400_000;
const minute = 60_000;

const phase = (id: string, nowMs = 0, lifeMs = 90 * day): AuthorityPhase => ({
  id,
  state: 'active',
  notBeforeMs: nowMs - clockSkewMs,
  notAfterMs: nowMs + lifeMs,
  preparedAtMs: nowMs,
  activatedAtMs: nowMs,
  retiredAtMs: undefined,
  taintedAtMs: undefined,
});

const nobody: Unconfirmed = { waits: [], goesOn: [] };
const bruges: Unconfirmed = { waits: ['bruges.example'], goesOn: [] };

const state = (changes: Partial<RotationState>): RotationState => ({
  nowMs: 0,
  authorities: [phase('first')],
  requested: undefined,
  servedSinceMs: 0,
  spreadMs: 10 * minute,
  deadlineMs: day,
  unconfirmed: nobody,
  ...changes,
});

const prepared = (nowMs: number): readonly AuthorityPhase[] =>
  prepare([phase('first')], phase('second', nowMs), nowMs).set;

/** An hour and a minute: everything that the previous authority signed has expired. */
const standby = standbyMs(phase('first'));

test('the next one is prepared as soon as the one before is out of the bundle', () => {
  assert.equal(standby, maxTtlSeconds * 1000 + clockSkewMs);
  assert.deepEqual(planRotation(state({ nowMs: standby - 1 })), {
    act: 'wait',
    for: 'life',
    untilMs: standby,
    unconfirmed: [],
    next: [{ act: 'prepare' }],
  });
  assert.equal(planRotation(state({ nowMs: standby })).act, 'prepare');
});

test('one that lives shortly has the next one early', () => {
  const authorities = [phase('first', 0, 10 * minute)];
  const plan = (nowMs: number) => planRotation(state({ nowMs, authorities })).act;
  assert.deepEqual([plan(100_000 - 1), plan(100_000)], ['wait', 'prepare']);
});

test('the next one waits until half of the time for which the active one can sign is over', () => {
  const authorities = prepared(standby);
  const plan = planRotation(state({ nowMs: 45 * day - 1, authorities }));
  assert.ok(plan.act === 'wait' && plan.for === 'life' && plan.untilMs === 45 * day);
  assert.equal(planRotation(state({ nowMs: 45 * day, authorities })).act, 'activate');
  // It was the next one for 45 of its 90 days.
  const { set } = activate(authorities, undefined, 45 * day);
  assert.equal(turnMs(set[1] as AuthorityPhase), Math.floor(67.5 * day + standby / 2));
});

test('while nothing is due, it is told what happens next', () => {
  const nextAt = (nowMs: number, authorities: readonly AuthorityPhase[]) => {
    const plan = planRotation(state({ nowMs, authorities }));
    assert.ok(plan.act === 'wait' && plan.for === 'life');
    return plan.next;
  };
  const waiting = prepared(standby);
  assert.deepEqual(nextAt(day, waiting), [{ act: 'activate', id: 'second' }]);
  // What the first one signed lasts for as long as the second has none to follow it.
  const { set } = activate(waiting, undefined, 45 * day);
  const both = [{ act: 'prune', id: 'first' }, { act: 'prepare' }];
  assert.deepEqual(nextAt(45 * day, set), both);
  const early = prepare(set, phase('third', 45 * day), 45 * day).set;
  assert.deepEqual(nextAt(45 * day, early), both.slice(0, 1));
});

test('it signs when the bundle had time to spread and everybody has confirmed', () => {
  const authorities = prepared(45 * day);
  const plan = (ms: number, unconfirmed = nobody) =>
    planRotation(state({ nowMs: 45 * day + ms, authorities, unconfirmed }));
  const early = plan(10 * minute - 1);
  assert.ok(early.act === 'wait' && early.for === 'spread');
  const waits = plan(10 * minute, bruges);
  assert.ok(waits.act === 'wait' && waits.for === 'receipts');
  assert.deepEqual(waits.unconfirmed, ['bruges.example']);
  assert.equal(waits.untilMs, 46 * day);
  const done = plan(10 * minute);
  assert.ok(done.act === 'activate' && done.id === 'second');
  assert.deepEqual(done.unconfirmed, []);
});

test('after the deadline it goes on, and names who has not confirmed', () => {
  const plan = planRotation(
    state({ nowMs: 46 * day, authorities: prepared(45 * day), unconfirmed: bruges }),
  );
  assert.ok(plan.act === 'activate');
  assert.deepEqual(plan.unconfirmed, ['bruges.example']);
  assert.match(plan.why, /not confirmed by bruges\.example/);
});

test('it goes on at once without those that reject the site, and names them', () => {
  const gone = { ...nobody, goesOn: ['visby.example'] };
  const plan = (unconfirmed: Unconfirmed) =>
    planRotation(
      state({ nowMs: 45 * day + 10 * minute, authorities: prepared(45 * day), unconfirmed }),
    );
  const done = plan(gone);
  assert.ok(done.act === 'activate');
  assert.deepEqual(done.unconfirmed, ['visby.example']);
  assert.match(done.why, /not confirmed by visby\.example/);
  const waits = plan({ ...gone, ...bruges, goesOn: ['visby.example'] });
  assert.ok(waits.act === 'wait' && waits.for === 'receipts');
  assert.deepEqual(waits.unconfirmed, ['bruges.example']);
});

test('what an operator asked for does not wait for its turn, and waits for receipts from then on', () => {
  const authorities = prepared(standby);
  const asked = (id: string, nowMs: number, unconfirmed = nobody) =>
    planRotation(state({ nowMs, authorities, requested: { id, atMs: 2 * day }, unconfirmed }));
  assert.equal(asked('second', 2 * day).act, 'activate');
  assert.equal(asked('another', 2 * day).act, 'wait');
  const waits = asked('second', 2 * day, bruges);
  assert.ok(waits.act === 'wait' && waits.for === 'receipts' && waits.untilMs === 3 * day);
  assert.equal(asked('second', 3 * day, bruges).act, 'activate');
});

test('at its turn peers are waited for, however long ago it was prepared', () => {
  const plan = planRotation(
    state({ nowMs: 45 * day, authorities: prepared(standby), unconfirmed: bruges }),
  );
  assert.ok(plan.act === 'wait' && plan.for === 'receipts' && plan.untilMs === 46 * day);
});

test('time in which the site was down is no time in which the bundle has spread', () => {
  const authorities = prepared(45 * day);
  const nowMs = 46 * day;
  const plan = planRotation(state({ nowMs, authorities, servedSinceMs: nowMs }));
  assert.ok(plan.act === 'wait' && plan.for === 'spread' && plan.untilMs === nowMs + 10 * minute);
});

test('one that is not valid yet, because the clock was set back, does not sign', () => {
  const authorities = prepared(2 * day);
  const requested = { id: 'second', atMs: 2 * day };
  const plan = planRotation(state({ nowMs: day, authorities, requested }));
  assert.ok(plan.act === 'wait' && plan.untilMs === 2 * day - clockSkewMs);
});

test('near its end nothing is waited for', () => {
  const nowMs = lastMomentMs(phase('first'));
  const authorities = prepared(nowMs - 1);
  const plan = planRotation(state({ nowMs, authorities, unconfirmed: bruges }));
  assert.equal(plan.act, 'activate');
});

test('an old one goes when the last SVID under it has expired', () => {
  const { set } = activate(prepared(45 * day), undefined, 45 * day + minute);
  const goesMs = 45 * day + minute + maxTtlSeconds * 1000 + clockSkewMs;
  const before = planRotation(state({ nowMs: goesMs - 1, authorities: set }));
  assert.ok(before.act === 'wait' && before.untilMs === goesMs);
  assert.equal(planRotation(state({ nowMs: goesMs, authorities: set })).act, 'prune');
});

/** At any sequence of times, each planned step is possible, and there is always an active authority. */
test('a year of any life, with any peers and pauses, never leaves the site without an authority', () => {
  const lives = fc.constantFrom(600_000, 3_600_000, day, 30 * day, 90 * day, 365 * day);
  const pauses = fc.array(
    fc.record({ share: fc.double({ min: 0.001, max: 0.15, noNaN: true }), deaf: fc.boolean() }),
    { minLength: 50, maxLength: 120 },
  );
  fc.assert(
    fc.property(lives, pauses, fc.constantFrom(0, 600_000, day), (lifeMs, walk, spreadMs) => {
      let nowMs = 0;
      let made = 1;
      let set: readonly AuthorityPhase[] = [phase('0', 0, lifeMs)];
      for (const { share, deaf } of walk) {
        nowMs += Math.ceil(share * lifeMs);
        for (let steps = 0; ; steps++) {
          assert.ok(steps < 8, 'the plan does not come to rest');
          const plan = planRotation({
            nowMs,
            authorities: set,
            requested: undefined,
            servedSinceMs: 0,
            spreadMs,
            deadlineMs: day,
            unconfirmed: deaf ? bruges : nobody,
          });
          if (plan.act === 'wait') {
            assert.ok(plan.untilMs > nowMs);
            break;
          }
          if (plan.act === 'prune') set = prune(set, nowMs).set;
          else if (plan.act === 'prepare') {
            set = prepare(set, phase(`${made++}`, nowMs, lifeMs), nowMs).set;
          } else set = activate(set, plan.id, nowMs).set;
        }
        const active = set.find((one) => one.state === 'active');
        assert.ok(active !== undefined && nowMs < active.notAfterMs);
        const hasNext = set.some((one) => one.state === 'prepared');
        assert.ok(
          hasNext || nowMs < standbyMs(active),
          'an emergency would find none to go on with',
        );
      }
    }),
    { numRuns: 200 },
  );
});

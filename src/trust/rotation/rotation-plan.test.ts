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
} from '../../core/identity/authority-phases.ts';
import { lastMomentMs, planRotation, type RotationState } from './rotation-plan.ts';

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

const state = (changes: Partial<RotationState>): RotationState => ({
  nowMs: 0,
  authorities: [phase('first')],
  requested: undefined,
  spreadMs: 10 * minute,
  deadlineMs: day,
  unconfirmed: [],
  ...changes,
});

const prepared = (nowMs: number): readonly AuthorityPhase[] =>
  prepare([phase('first')], phase('second', nowMs), nowMs).set;

test('nothing is due in the first half of its life', () => {
  assert.deepEqual(planRotation(state({ nowMs: 45 * day - 1 })), {
    act: 'wait',
    for: 'life',
    untilMs: 45 * day,
    unconfirmed: [],
  });
});

test('the next one is prepared at half of its life', () => {
  assert.equal(planRotation(state({ nowMs: 45 * day })).act, 'prepare');
});

test('it signs when the bundle had time to spread and everybody has confirmed', () => {
  const authorities = prepared(45 * day);
  const plan = (ms: number, unconfirmed: string[] = []) =>
    planRotation(state({ nowMs: 45 * day + ms, authorities, unconfirmed }));
  const early = plan(10 * minute - 1);
  assert.ok(early.act === 'wait' && early.for === 'spread');
  const waits = plan(10 * minute, ['bruges.example']);
  assert.ok(waits.act === 'wait' && waits.for === 'receipts');
  assert.deepEqual(waits.unconfirmed, ['bruges.example']);
  assert.equal(waits.untilMs, 46 * day);
  const done = plan(10 * minute);
  assert.ok(done.act === 'activate' && done.id === 'second');
  assert.deepEqual(done.unconfirmed, []);
});

test('after the deadline it goes on, and names who has not confirmed', () => {
  const plan = planRotation(
    state({ nowMs: 46 * day, authorities: prepared(45 * day), unconfirmed: ['bruges.example'] }),
  );
  assert.ok(plan.act === 'activate');
  assert.deepEqual(plan.unconfirmed, ['bruges.example']);
  assert.match(plan.why, /not confirmed by bruges\.example/);
});

test('one that was prepared by hand waits for its operator, or for half of the life', () => {
  const authorities = prepared(day);
  const plan = planRotation(state({ nowMs: 2 * day, authorities }));
  assert.ok(plan.act === 'wait' && plan.for === 'operator' && plan.untilMs === 45 * day);
  assert.equal(
    planRotation(state({ nowMs: 2 * day, authorities, requested: 'second' })).act,
    'activate',
  );
  assert.equal(planRotation(state({ nowMs: 45 * day, authorities })).act, 'activate');
  const stale = planRotation(state({ nowMs: 2 * day, authorities, requested: 'another' }));
  assert.equal(stale.act, 'wait');
});

test('near its end nothing is waited for', () => {
  const nowMs = lastMomentMs(phase('first'));
  const authorities = prepared(nowMs - 1);
  const plan = planRotation(state({ nowMs, authorities, unconfirmed: ['bruges.example'] }));
  assert.equal(plan.act, 'activate');
});

test('an old one goes when the last SVID under it has expired', () => {
  const { set } = activate(prepared(45 * day), undefined, 45 * day + minute);
  const goesMs = 45 * day + minute + maxTtlSeconds * 1000 + clockSkewMs;
  const before = planRotation(state({ nowMs: goesMs - 1, authorities: set }));
  assert.ok(before.act === 'wait' && before.untilMs === goesMs);
  assert.equal(planRotation(state({ nowMs: goesMs, authorities: set })).act, 'prune');
});

/** Whoever runs the plan at any moments: what is asked for is possible, and somebody always signs. */
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
            spreadMs,
            deadlineMs: day,
            unconfirmed: deaf ? ['bruges.example'] : [],
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
      }
    }),
    { numRuns: 200 },
  );
});

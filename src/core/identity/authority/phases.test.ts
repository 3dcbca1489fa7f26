import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HansaError, hasCode } from '../../errors/error.ts';
import {
  activate,
  type AuthorityPhase,
  clockSkewMs,
  hasLapsed,
  maxAuthoritiesOfAKind,
  maxTtlSeconds,
  type Phased,
  prepare,
  prune,
  replaceAtOnce,
  revoke,
  signedUntilMs,
  taint,
} from './phases.ts';

const day = 86_400_000;
const hour = 3_600_000;
const lastsMs = maxTtlSeconds * 1000 + clockSkewMs;

let made = 0;
const fresh = (nowMs = 0): AuthorityPhase => ({
  id: `${(++made).toString(16).padStart(8, '0')}-authority`,
  state: 'active',
  notBeforeMs: nowMs,
  notAfterMs: nowMs + 90 * day,
  preparedAtMs: nowMs,
  activatedAtMs: nowMs,
  retiredAtMs: undefined,
  taintedAtMs: undefined,
});

const states = ({ set }: Phased<AuthorityPhase>): string => set.map(({ state }) => state).join(' ');
const verbs = ({ steps }: Phased<AuthorityPhase>): string =>
  steps.map(({ verb }) => verb).join(' ');

test('an authority goes from prepared to active to old to tainted to gone', () => {
  const first = fresh();
  const second = fresh();
  const one = prepare([first], second, 1);
  assert.equal(states(one), 'active prepared');
  const two = activate(one.set, undefined, 2);
  assert.equal(states(two), 'old active');
  assert.equal(two.set[0]?.retiredAtMs, 2);
  assert.equal(two.set[1]?.activatedAtMs, 2);
  const three = taint(two.set, undefined, 3);
  assert.equal(states(three), 'tainted active');
  const four = revoke(three.set, undefined, 4);
  assert.deepEqual(
    four.set.map(({ id }) => id),
    [second.id],
  );
  assert.equal([one, two, three, four].map(verbs).join(' '), 'prepare activate taint revoke');
});

test('the beginning of an id names an authority, where it names one only', () => {
  const set = prepare([fresh()], fresh(), 0).set;
  const { id } = set[1] as AuthorityPhase;
  assert.equal(states(activate(set, id.slice(0, 8), 1)), 'old active');
  const twins = [
    { ...fresh(), id: 'aaaaaaaa1' },
    { ...fresh(), id: 'aaaaaaaa2' },
  ];
  assert.throws(
    () => taint(twins, 'aaaaaaaa', 0),
    (caught) => hasCode(caught, 'HANSA_BAD_REQUEST'),
  );
});

for (const [what, code, step] of [
  [
    'a second one is prepared',
    'HANSA_ALREADY_EXISTS',
    () => prepare(prepare([fresh()], fresh(), 0).set, fresh(), 0),
  ],
  [
    'one is activated, and none is prepared',
    'HANSA_AUTHORITY_STATE',
    () => activate([fresh()], undefined, 0),
  ],
  [
    'the active one is activated',
    'HANSA_AUTHORITY_STATE',
    (set: AuthorityPhase[]) => activate(set, set[1]?.id, 0),
  ],
  [
    'an old one is activated again',
    'HANSA_AUTHORITY_STATE',
    (set: AuthorityPhase[]) => activate(set, set[0]?.id, 0),
  ],
  [
    'an expired one is activated',
    'HANSA_AUTHORITY_STATE',
    () => activate(prepare([fresh()], fresh(), 0).set, undefined, 90 * day),
  ],
  [
    'one is activated before its time, by a clock that was set back',
    'HANSA_AUTHORITY_STATE',
    () => activate(prepare([fresh()], fresh(), 0).set, undefined, -day),
  ],
  [
    'the active one is tainted',
    'HANSA_AUTHORITY_STATE',
    (set: AuthorityPhase[]) => taint(set, set[1]?.id, 0),
  ],
  [
    'one is tainted, and none is old',
    'HANSA_AUTHORITY_STATE',
    () => taint([fresh()], undefined, 0),
  ],
  [
    'a tainted one is tainted',
    'HANSA_AUTHORITY_STATE',
    (set: AuthorityPhase[]) => taint(taint(set, set[0]?.id, 0).set, set[0]?.id, 0),
  ],
  [
    'the active one is revoked',
    'HANSA_AUTHORITY_STATE',
    (set: AuthorityPhase[]) => revoke(set, set[1]?.id, 90 * day),
  ],
  [
    'an old one is revoked while what it signed lives',
    'HANSA_AUTHORITY_STATE',
    (set: AuthorityPhase[]) => revoke(set, set[0]?.id, lastsMs - 1),
  ],
  [
    'one is revoked, and none can be',
    'HANSA_AUTHORITY_STATE',
    () => revoke([fresh()], undefined, 0),
  ],
  ['one is named that is not there', 'HANSA_NOT_FOUND', () => taint([fresh()], 'ffffffffffff', 0)],
  [
    'one is named by too little',
    'HANSA_NOT_FOUND',
    (set: AuthorityPhase[]) => taint(set, '0000', 0),
  ],
] as const) {
  test(`it is refused that ${what} (${code})`, () => {
    const set = activate(prepare([fresh()], fresh(), 0).set, undefined, 0).set;
    assert.throws(
      () => step([...set]),
      (caught) => hasCode(caught, code),
    );
  });
}

test('an old one may go when nothing that it signed is left, a prepared or tainted one at any time', () => {
  const { set } = activate(prepare([fresh()], fresh(), 0).set, undefined, 0);
  const id = set[0]?.id;
  assert.equal(signedUntilMs(set[0] as AuthorityPhase), lastsMs);
  assert.equal(states(revoke(set, id, lastsMs)), 'active');
  assert.equal(states(revoke(taint(set, id, 0).set, id, 0)), 'active');
  const prepared = prepare(set, fresh(), 0).set;
  assert.equal(states(revoke(prepared, prepared[2]?.id, 0)), 'old active');
});

test('preparing takes out what has lapsed, and says so', () => {
  const { set } = activate(prepare([fresh()], fresh(), 0).set, undefined, 0);
  const next = prepare(set, fresh(), lastsMs);
  assert.equal(states(next), 'active prepared');
  assert.equal(verbs(next), 'revoke prepare');
});

test('the set is bounded, and an emergency finds room', () => {
  let set: readonly AuthorityPhase[] = [fresh()];
  for (let i = 1; i < maxAuthoritiesOfAKind; i++) {
    set = activate(prepare(set, fresh(), i).set, undefined, i).set;
  }
  assert.equal(set.length, maxAuthoritiesOfAKind);
  assert.throws(
    () => prepare(set, fresh(), 100),
    (caught) => hasCode(caught, 'HANSA_AUTHORITY_STATE') && /Wait until/.test(caught.message),
  );
  const next = fresh();
  const after = replaceAtOnce(set, next, 100);
  assert.equal(after.set.find(({ state }) => state === 'active')?.id, next.id);
  assert.ok(after.set.length < maxAuthoritiesOfAKind);
});

test('an emergency takes the prepared one, or gives it up too', () => {
  const first = fresh();
  const second = fresh();
  const third = fresh();
  const { set } = prepare([first], second, 0);
  const taken = replaceAtOnce(set, undefined, 1);
  assert.deepEqual(
    taken.set.map(({ id }) => id),
    [second.id],
  );
  assert.equal(verbs(taken), 'activate taint revoke');
  const anew = replaceAtOnce(set, third, 1);
  assert.deepEqual(
    anew.set.map(({ id }) => id),
    [third.id],
  );
  assert.equal(verbs(anew), 'revoke prepare activate taint revoke');
});

/** Walks at random; whatever is asked, in whatever order, the set keeps its promises. */
test('no walk leaves the set without one that signs, with two, or unbounded', () => {
  const step = fc.record({
    act: fc.constantFrom('prepare', 'activate', 'taint', 'revoke', 'prune', 'emergency', 'fresh'),
    which: fc.option(fc.nat({ max: 8 }), { nil: undefined }),
    waitMs: fc.constantFrom(0, 1000, hour, 2 * hour, 40 * day),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (walk) => {
      let nowMs = 0;
      let set: readonly AuthorityPhase[] = [fresh(nowMs)];
      for (const { act, which, waitMs } of walk) {
        nowMs += waitMs;
        const before = set;
        const named = which === undefined ? undefined : set[which % set.length]?.id;
        let taken: Phased<AuthorityPhase>;
        try {
          if (act === 'prepare') taken = prepare(set, fresh(nowMs), nowMs);
          else if (act === 'activate') taken = activate(set, named, nowMs);
          else if (act === 'taint') taken = taint(set, named, nowMs);
          else if (act === 'revoke') taken = revoke(set, named, nowMs);
          else if (act === 'prune') taken = prune(set, nowMs);
          else if (act === 'fresh') taken = replaceAtOnce(set, fresh(nowMs), nowMs);
          else {
            const usable = set.some((one) => one.state === 'prepared' && nowMs < one.notAfterMs);
            taken = replaceAtOnce(set, usable ? undefined : fresh(nowMs), nowMs);
          }
        } catch (error) {
          assert.ok(error instanceof HansaError, String(error));
          assert.equal(set, before);
          continue;
        }
        set = taken.set;
        const count = (state: string): number => set.filter((one) => one.state === state).length;
        assert.equal(count('active'), 1);
        assert.ok(count('prepared') <= 1);
        assert.ok(set.length <= maxAuthoritiesOfAKind);
        assert.equal(new Set(set.map(({ id }) => id)).size, set.length);
        for (const one of set) {
          assert.equal(
            one.retiredAtMs !== undefined,
            one.state === 'old' || one.state === 'tainted',
          );
          assert.equal(one.taintedAtMs !== undefined, one.state === 'tainted');
          assert.equal(one.activatedAtMs === undefined, one.state === 'prepared');
        }
        // Whatever disappeared was told of, and never while something that it signed was relied on.
        for (const gone of before.filter(({ id }) => set.every((one) => one.id !== id))) {
          assert.ok(taken.steps.some((one) => one.verb === 'revoke' && one.id === gone.id));
          const emergency = act === 'emergency' || act === 'fresh';
          if (!emergency && gone.state === 'old') assert.ok(hasLapsed(gone, nowMs));
          if (!emergency) assert.notEqual(gone.state, 'active');
        }
      }
    }),
    { numRuns: 300 },
  );
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import {
  initialState,
  isLive,
  isReenrolling,
  nextState,
  type PeerEvent,
  type PeerPosition,
  type PeerState,
  peerTransitions,
  refuseStep,
} from './peer-states.ts';

const events: readonly PeerEvent[] = [
  'accept',
  'enroll',
  'activate',
  'degrade',
  'recover',
  'suspend',
  'resume',
  'reenrol',
  'revoke',
];

/** The edges of the design, drawn again by hand. */
const edges: ReadonlySet<string> = new Set([
  'proposed accepted',
  'accepted enrolled',
  'enrolled active',
  'active degraded',
  'degraded active',
  'enrolled suspended',
  'active suspended',
  'degraded suspended',
  'suspended enrolled',
  'suspended active',
  'suspended degraded',
  'enrolled proposed',
  'active proposed',
  'degraded proposed',
  'suspended proposed',
  ...['proposed', 'accepted', 'enrolled', 'active', 'degraded', 'suspended'].map(
    (state) => `${state} revoked`,
  ),
]);

function walk(steps: readonly PeerEvent[]): PeerPosition[] {
  const path: PeerPosition[] = [{ state: initialState }];
  for (const event of steps) {
    const next = nextState(path.at(-1) as PeerPosition, event);
    if (next !== undefined) path.push(next.position);
  }
  return path;
}

/** Mostly steps that are possible, so that walks get far. */
const walks = fc.array(fc.oneof(fc.nat(), fc.constantFrom(...events)), { maxLength: 40 });

function stroll(choices: readonly (number | PeerEvent)[]): PeerPosition[] {
  const steps: PeerEvent[] = [];
  for (const choice of choices) {
    const { state } = walk(steps).at(-1) as PeerPosition;
    const possible = peerTransitions.filter(({ from }) => from === state);
    const chosen = typeof choice === 'number' ? possible[choice % possible.length]?.event : choice;
    if (chosen !== undefined) steps.push(chosen);
  }
  return walk(steps);
}

suite('the states of a peer', () => {
  test('change along the edges of the design and no others', () => {
    const seen = new Set<string>();
    // Every position that can be reached, and every event in it: there are few.
    const waiting: PeerPosition[] = [{ state: initialState }];
    const known = new Set(waiting.map((position) => JSON.stringify(position)));
    for (const position of waiting) {
      for (const event of events) {
        const next = nextState(position, event)?.position;
        if (next === undefined) continue;
        seen.add(`${position.state} ${next.state}`);
        if (known.has(JSON.stringify(next))) continue;
        known.add(JSON.stringify(next));
        waiting.push(next);
      }
    }
    assert.deepEqual([...seen].toSorted(), [...edges].toSorted());
  });

  test('return from suspension to where they were', () => {
    fc.assert(
      fc.property(walks, (choices) => {
        const path = stroll(choices);
        for (const [at, position] of path.entries()) {
          assert.equal(position.stateBefore !== undefined, position.state === 'suspended');
          if (position.state !== 'suspended') continue;
          assert.equal(position.stateBefore, path[at - 1]?.state);
          assert.equal(nextState(position, 'resume')?.position.state, position.stateBefore);
        }
      }),
    );
  });

  test('end with revoked, which every other state leads to', () => {
    const states = new Set<PeerState>(peerTransitions.map(({ from }) => from));
    for (const state of states) {
      assert.equal(nextState({ state }, 'revoke')?.position.state, 'revoked');
    }
    for (const event of events) assert.equal(nextState({ state: 'revoked' }, event), undefined);
  });

  test('begin again with reenrol, and forget a suspension', () => {
    fc.assert(
      fc.property(walks, (choices) => {
        for (const position of stroll(choices)) {
          const again = nextState(position, 'reenrol');
          const isPossible = isLive(position.state) || position.state === 'suspended';
          assert.equal(again !== undefined, isPossible);
          if (again !== undefined) assert.deepEqual(again.position, { state: initialState });
        }
      }),
    );
    assert.ok(isReenrolling({ state: 'proposed', reenrolments: 1 }));
    assert.ok(!isReenrolling({ state: 'proposed' }));
    assert.ok(!isReenrolling({ state: 'accepted', reenrolments: 1 }));
  });

  test('have one row for each state and event, and a verb for each row', () => {
    const keys = peerTransitions.map(({ from, event }) => `${from} ${event}`);
    assert.equal(new Set(keys).size, keys.length);
    for (const { verb } of peerTransitions) assert.match(verb, /^peer\.[a-z]+$/);
  });

  test('are told with what an operator can do where a step is not possible', () => {
    assert.match(
      refuseStep('a.example', 'proposed', 'suspend').message,
      /Possible now: revoke\. To see what to do: hansa peer show a\.example/,
    );
    assert.match(
      refuseStep('a.example', 'active', 'resume').message,
      /Possible now: suspend, reenrol, revoke\./,
    );
    assert.match(refuseStep('a.example', 'revoked', 'resume').message, /a new invitation/);
  });

  test('are live where the peer is believed', () => {
    const live = ['proposed', 'accepted', 'enrolled', 'active', 'degraded', 'suspended', 'revoked'];
    assert.deepEqual(
      (live as PeerState[]).filter((state) => isLive(state)),
      ['enrolled', 'active', 'degraded'],
    );
  });
});

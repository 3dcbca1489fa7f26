import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { peerTransitions } from './peer-states.ts';
import type { PeerCause } from './peer-cause.ts';
import { peerHint, peerHintLines } from './peer-hints.ts';

const name = 'bruges.example';
const states = ['proposed', 'accepted', 'enrolled', 'active', 'degraded', 'suspended', 'revoked'];
const roles = ['inviter', 'acceptor'] as const;
const causes: readonly (PeerCause | undefined)[] = [
  undefined,
  'WaitsForPeer',
  'ForeignFederation',
  'FederationLimit',
  'Refused',
  'Untrusted',
  'Unreachable',
  'WaitsForRedemption',
  'NeedsInvitation',
];
type Role = (typeof roles)[number];
const hint = (state: string, role: Role, cause?: PeerCause, alert?: string): string =>
  peerHint({
    name,
    state,
    role,
    ...(cause === undefined ? {} : { cause }),
    ...(alert === undefined ? {} : { alert }),
  });

/** Every row that asks the reader for something; every other combination has no hint. */
const table: readonly [state: string, role: Role | 'both', cause: PeerCause | 'any', RegExp][] = [
  [
    'proposed',
    'both',
    'WaitsForRedemption',
    /hansa peer accept.*hansa peer reenrol bruges\.example/,
  ],
  ['proposed', 'inviter', 'NeedsInvitation', /^To invite it again: hansa peer reenrol .*revoke/],
  ['proposed', 'acceptor', 'NeedsInvitation', /^Ask the operator of bruges\.example for a new/],
  ['proposed', 'inviter', 'any', /If it matches: hansa peer confirm bruges\.example/],
  [
    'proposed',
    'acceptor',
    'WaitsForPeer',
    /^Ask the operator of bruges\.example to run hansa peer list/,
  ],
  ['proposed', 'acceptor', 'Untrusted', /hansa peer revoke .*for a new one/],
  ['proposed', 'acceptor', 'Unreachable', /hansa doctor --peer bruges\.example/],
  ['proposed', 'acceptor', 'Refused', /hansa doctor --peer bruges\.example/],
  ['accepted', 'both', 'ForeignFederation', /hansa delete spiffefederation bruges\.example/],
  ['accepted', 'both', 'FederationLimit', /maxFederations/],
  ['enrolled', 'both', 'Refused', /fingerprint from hansa status at this site/],
  ['enrolled', 'both', 'Untrusted', /hansa trust bundle bootstrap bruges\.example --fingerprint/],
  ['enrolled', 'both', 'Unreachable', /hansa doctor --peer bruges\.example/],
  ['degraded', 'both', 'Refused', /fingerprint from hansa status at this site/],
  ['degraded', 'both', 'Untrusted', /hansa trust bundle bootstrap bruges\.example --fingerprint/],
  ['degraded', 'both', 'any', /hansa doctor --peer bruges\.example/],
  ['suspended', 'both', 'any', /hansa peer resume bruges\.example/],
  ['revoked', 'both', 'any', /hansa peer invite --for bruges\.example/],
];

suite('the hint for a peer', () => {
  for (const state of states) {
    for (const role of roles) {
      for (const cause of causes) {
        const row = table.find(
          ([of, who, why]) =>
            of === state && (who === 'both' || who === role) && (why === 'any' || why === cause),
        );
        const what = `${state}, ${role}, ${cause ?? 'no cause'}`;
        test(`for ${what} is ${row === undefined ? 'empty' : 'what the reader can do'}`, () => {
          const told = hint(state, role, cause);
          if (row === undefined) assert.equal(told, '');
          else assert.match(told, row[3]);
          assert.doesNotMatch(told, /by itself/);
        });
      }
    }
  }

  test('never asks the invited side to confirm', () => {
    for (const state of states) {
      for (const cause of causes) {
        assert.doesNotMatch(hint(state, 'acceptor', cause), /hansa peer confirm/);
      }
    }
  });

  test('covers every state of the table of transitions', () => {
    const known = new Set(peerTransitions.flatMap(({ from, to }) => [from, to]));
    known.delete('state before');
    assert.deepEqual([...known].toSorted(), states.toSorted());
  });

  test('for an alert says how to find out which site is the right one', () => {
    for (const state of ['proposed', 'active', 'degraded']) {
      assert.match(
        hint(state, 'inviter', undefined, 'another site tried'),
        /fingerprint .*hansa peer revoke bruges\.example.*hansa peer confirm bruges\.example/,
      );
    }
  });

  test('stands below a table for those who need it, revoked ones left out', () => {
    assert.deepEqual(
      peerHintLines([
        { name, state: 'active' },
        { name: 'reval.example', state: 'revoked' },
        { name: 'novgorod.example', state: 'suspended' },
      ]),
      ['novgorod.example: To trust it again: hansa peer resume novgorod.example.'],
    );
  });
});

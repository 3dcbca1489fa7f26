import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { WitnessedSummary } from '../routes/witness-routes.ts';
import { cosignedText, logHints, logState } from './log-rows.ts';

const log: WitnessedSummary = {
  name: 'bruges.example',
  origin: 'bruges.example',
  key: 'bruges.example+01234567+AQ==',
  events: 7,
  rootHash: '',
  confirmed: true,
  cosigned: { events: 5, at: '2026-01-01T00:00:00Z', waitsSeconds: 0 },
};
const finding = { id: 'ab', reason: 'Shrank', message: 'm', at: '', proof: [] } as const;

describe('the log of a peer', () => {
  test('that is consistent and cosigned needs nothing', () => {
    assert.equal(logState(log), 'Consistent');
    assert.deepEqual(logHints([log]), []);
    assert.deepEqual(logHints([]), []);
    assert.equal(cosignedText(log), '5 events of this site, at 2026-01-01T00:00:00Z');
  });

  test('with a finding is named first by that, then as stale, then as unconfirmed', () => {
    const all = { ...log, finding, staleSeconds: 90, confirmed: false };
    const { finding: _found, ...stale } = all;
    const { staleSeconds: _stale, ...unconfirmed } = stale;
    assert.deepEqual([all, stale, unconfirmed].map(logState), ['Shrank', 'Stale', 'Unconfirmed']);
    const hints = [all, stale, unconfirmed].map((one) => logHints([one])[0]);
    assert.match(hints[0] ?? '', /finding \(Shrank\): hansa witness show bruges\.example$/);
    assert.match(hints[1] ?? '', /for 90s .* hansa doctor --peer bruges\.example$/);
    assert.match(hints[2] ?? '', /hansa witness confirm bruges\.example$/);
  });
});

describe('the log of this site', () => {
  const waiting = (waitsSeconds: number | undefined): WitnessedSummary => ({
    ...log,
    cosigned: { events: 0, ...(waitsSeconds === undefined ? {} : { waitsSeconds }) },
  });

  test('that no peer has cosigned for a quarter of an hour has a hint', () => {
    assert.match(
      logHints([waiting(1200), waiting(3600)])[0] ?? '',
      /^No peer has cosigned new events of this site's audit log for 20m\./,
    );
    assert.equal(cosignedText(waiting(1200)), 'no event of this site; new ones wait for 20m');
  });

  test('that one peer cosigns, or that waits for less, has none', () => {
    assert.deepEqual(logHints([waiting(1200), waiting(0)]), []);
    assert.deepEqual(logHints([waiting(900)]), []);
    assert.equal(cosignedText(waiting(900)), 'no event of this site');
  });

  test('of peers that are not live has none', () => {
    assert.deepEqual(logHints([waiting(undefined)]), []);
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { humanDuration } from './duration.ts';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const year = 365 * day;

const samples: readonly (readonly [number, string])[] = [
  [-2 * second, '<invalid>'],
  [-1 * second, '0s'],
  [-1, '0s'],
  [999, '0s'],
  [59 * second, '59s'],
  [119 * second, '119s'],
  [2 * minute, '2m'],
  [5 * minute + 10 * second, '5m10s'],
  [10 * minute + 10 * second, '10m'],
  [179 * minute, '179m'],
  [3 * hour, '3h'],
  [3 * hour + 5 * minute, '3h5m'],
  [8 * hour + 5 * minute, '8h'],
  [47 * hour, '47h'],
  [2 * day, '2d'],
  [3 * day + 4 * hour, '3d4h'],
  [8 * day + 4 * hour, '8d'],
  [2 * year - hour, '729d'],
  [2 * year, '2y'],
  [2 * year + 45 * day, '2y45d'],
  [8 * year + 45 * day, '8y'],
];

for (const [duration, printed] of samples) {
  test(`${duration} ms are printed as ${printed}`, () => {
    assert.equal(humanDuration(duration), printed);
  });
}

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Figure } from './figure.ts';
import { missedPromises, report } from './report.ts';

const run = {
  started: new Date('2026-11-16T05:00:00Z'),
  minutes: 14.2,
  load: 0.31,
  kubernetes: '1.36.3',
  etcd: '3.7.3',
  spire: '1.13.3',
};

const figures: readonly Figure[] = [
  {
    bench: 'fast',
    value: 20,
    unit: 'requests/s',
    min: 18,
    max: 23,
    anchor: 'SPIRE',
    anchorValue: 10,
    ratio: 2,
    atLeast: 1.5,
  },
  {
    bench: 'slow',
    value: 5,
    unit: 'requests/s',
    anchor: 'SPIRE',
    anchorValue: 10,
    ratio: 0.5,
    atLeast: 1,
    aim: 2,
  },
  { bench: 'late', value: 300, unit: 'ms', aimAtMost: 200 },
  { bench: 'limited', value: 260, unit: 'ms', atMost: 250 },
];

test('the page has a row for every figure, in their order', () => {
  const rows = report(figures, run).match(/^\| (fast|slow|late|limited) .*$/gm);
  assert.equal(rows?.length, 4);
  assert.match(
    rows[0] ?? '',
    /20 requests\/s \(18 to 23\) \| 10 \(SPIRE\) \| 2 .*holds at least 1\.5×/,
  );
  assert.match(rows[1] ?? '', /\*\*misses\*\* at least 1×, misses the aim of 2×/);
  assert.match(rows[2] ?? '', /misses the aim of at most 200 ms/);
  assert.match(rows[3] ?? '', /\*\*misses\*\* at most 250 ms/);
});

test('the page says what was lost, and which run it comes from', () => {
  const page = report(figures, run);
  assert.match(page, /Slower or larger than the anchor: slow\./);
  assert.match(page, /Promises that do not hold: slow; limited\./);
  assert.match(page, /Aims that are missed: slow; late\./);
  assert.match(page, /one run of 14 minutes on 2026-11-16; .* load average was 0\.3/);
  assert.match(page, /SPIRE is version 1\.13\.3/);
});

test('a page without losses says so', () => {
  assert.match(report(figures.slice(0, 1), run), /Promises that do not hold: none\./);
});

test('a missed promise is told from a missed aim', () => {
  assert.deepEqual(
    missedPromises(figures).map(({ bench }) => bench),
    ['slow', 'limited'],
  );
  assert.deepEqual(missedPromises(figures.slice(0, 1)), []);
});

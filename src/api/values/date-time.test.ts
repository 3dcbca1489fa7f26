import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseTimestamp, timestampProblem, validateDateTime } from './date-time.ts';

test('the format date-time takes RFC 3339 in either case, with real days', () => {
  const good = [
    '2026-01-02T03:04:05Z',
    '2026-01-02t03:04:05z',
    '2024-02-29T23:59:59.123456789+14:00',
    '0001-01-01T00:00:00Z',
  ];
  const bad = [
    '',
    'T',
    '2026-01-02',
    '2026-01-02 03:04:05Z',
    '2026-02-29T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-01-32T00:00:00Z',
    '2026-01-02T24:00:00Z',
    '2026-01-02T23:60:00Z',
    '2026-01-02T23:59:60Z',
    '2026-01-02T03:04:05',
    '26-01-02T03:04:05Z',
  ];
  for (const text of good) assert.equal(validateDateTime(text), true, text);
  for (const text of bad) assert.equal(validateDateTime(text), false, text);
});

test('a timestamp is read to the moment that it names', () => {
  assert.equal(parseTimestamp('1970-01-01T00:00:01Z'), 1000);
  assert.equal(parseTimestamp('1970-01-01T02:00:00+02:00'), 0);
  assert.equal(parseTimestamp('1970-01-01T00:00:00.5Z'), 500);
  assert.equal(parseTimestamp('1970-01-01T00:00:00,5004Z'), 500);
  assert.equal(parseTimestamp('1970-01-01T1:00:00Z'), 3_600_000);
  assert.equal(parseTimestamp('1970-01-02T01:00:00+24:60'), 0);
  assert.equal(parseTimestamp('1970-01-01T00:00:00-00:30'), 1_800_000);
  assert.equal(parseTimestamp('1970-01-01t00:00:00z'), undefined);
  assert.equal(parseTimestamp('2026-02-30T00:00:00Z'), undefined);
});

test('a timestamp is refused where its moment has no year of four digits', () => {
  assert.equal(parseTimestamp('9999-12-31T23:59:59-00:01'), undefined);
  assert.equal(parseTimestamp('0000-01-01T00:00:00+00:01'), undefined);
  assert.equal(
    timestampProblem('9999-12-31T23:59:59-00:01'),
    'parsing time "9999-12-31T23:59:59-00:01": year out of range',
  );
  assert.equal(typeof parseTimestamp('9999-12-31T23:59:59Z'), 'number');
  assert.equal(typeof parseTimestamp('0000-01-01T00:00:00Z'), 'number');
});

test('a refused timestamp says why in the words of Go', () => {
  const layout = 'as "2006-01-02T15:04:05Z07:00"';
  const samples: readonly (readonly [string, string])[] = [
    ['never', `parsing time "never" ${layout}: cannot parse "never" as "2006"`],
    ['2026-1', `parsing time "2026-1" ${layout}: cannot parse "1" as "01"`],
    ['2026-13-01T00:00:00Z', 'parsing time "2026-13-01T00:00:00Z": month out of range'],
    ['2026-02-30T00:00:00Z', 'parsing time "2026-02-30T00:00:00Z": day out of range'],
    [
      '2026-01-02T03:04:05',
      `parsing time "2026-01-02T03:04:05" ${layout}: cannot parse "" as "Z07:00"`,
    ],
    [
      '2026-01-02T03:04:05+25:00',
      'parsing time "2026-01-02T03:04:05+25:00": time zone offset hour out of range',
    ],
    ['2026-01-02T24:04:05Z', 'parsing time "2026-01-02T24:04:05Z": hour out of range'],
    ['2026-01-02T03:04:05Zz', 'parsing time "2026-01-02T03:04:05Zz": extra text: "z"'],
  ];
  for (const [text, problem] of samples) assert.equal(timestampProblem(text), problem);
});

test('every moment that is written is read back', () => {
  fc.assert(
    fc.property(
      fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true }),
      (date) => {
        assert.equal(parseTimestamp(date.toISOString()), date.getTime());
        assert.equal(validateDateTime(date.toISOString()), true);
      },
    ),
  );
});

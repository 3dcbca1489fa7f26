// Parses durations on the command line, in the format of Go and kubectl, plus days: 30s, 5m, 1h30m,
// 500ms, 7d.

import { InvalidArgumentError } from 'commander';

const units: ReadonlyMap<string, number> = new Map(
  Object.entries<number>({
    ms: 1,
    s: 1000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
  }),
);

/** In milliseconds. A bare number counts seconds. */
export function parseDurationFlag(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  const parts = [...text.matchAll(/(\d{1,9}(?:\.\d+)?)(ms|s|m|h|d)/g)];
  if (text === '' || parts.map((part) => part[0]).join('') !== text) {
    throw new InvalidArgumentError('Expected a duration such as 30s, 5m, 1h30m or 7d.');
  }
  return parts.reduce(
    (sum, [, count = '0', unit = 's']) => sum + Number(count) * (units.get(unit) ?? 0),
    0,
  );
}

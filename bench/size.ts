// How much a benchmark does. BENCH_SMALL=1 asks for as little as shows that it works: `make test` runs
// every benchmark that way, and the figures mean nothing then.

export const isSmall = process.env['BENCH_SMALL'] === '1';

export function sized<T>(whole: T, small: T): T {
  return isSmall ? small : whole;
}

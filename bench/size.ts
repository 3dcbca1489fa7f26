// The size of each benchmark. With BENCH_SMALL=1 a benchmark only shows that it works: `make test` runs
// all of them this way, and the figures then mean nothing.

export const isSmall = process.env['BENCH_SMALL'] === '1';

export function sized<T>(whole: T, small: T): T {
  return isSmall ? small : whole;
}

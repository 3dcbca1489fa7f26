// The three sizes of each benchmark. `make bench` runs the quick one. The long one takes more rounds, for
// docs/benchmarks.md and for promises that the quick one missed. With BENCH_SMALL=1 a benchmark only shows that it
// works: `make test` runs all of them this way, and the figures then mean nothing.

export type Size = 'long' | 'quick' | 'small';

const { BENCH_SMALL, BENCH_LONG } = process.env;

export const size: Size = BENCH_SMALL === '1' ? 'small' : BENCH_LONG === '1' ? 'long' : 'quick';

export const isSmall = size === 'small';

export function sized<T>(long: T, quick: T, small: T): T {
  return { long, quick, small }[size];
}

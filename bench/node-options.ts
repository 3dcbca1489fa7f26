// How the launcher (`hansa`) starts Node for a site. Benchmarks that start a site with an entry point of their own
// use the same.

export const nodeOptions = ['--disable-sigusr1', '--max-semi-space-size=8', '--expose-gc'] as const;

export const nodeEnvironment = { MALLOC_ARENA_MAX: '2' } as const;

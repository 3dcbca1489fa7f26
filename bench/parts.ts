// The benchmarks that are separate programs, in the order of docs/benchmarks.md.

/** Beside SQLite, bare cryptography and, for the thread, two SPIRE servers. */
export const siteParts = ['store', 'audit', 'identity', 'thread'] as const;

/** Beside SPIRE. */
export const trustParts = ['bundle', 'mint', 'streams', 'federations'] as const;

/** The Go programs that the benchmarks run. */
export const benchTools = [
  'etcd',
  'kube-apiserver',
  'mint',
  'streams',
  'spire-server',
  'spire-agent',
] as const;

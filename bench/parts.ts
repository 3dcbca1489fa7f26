// The benchmarks that are separate programs, in the order of docs/benchmarks.md.

/**
 * Compared with SQLite, with cryptography only, (`thread`) with two SPIRE servers and without witnessing,
 * (`heartbeats`) with the same without kept connections, and (`peers`) with the same of a few peers.
 */
export const siteParts = ['store', 'audit', 'identity', 'thread', 'heartbeats', 'peers'] as const;

/** Compared with SPIRE. */
export const trustParts = ['bundle', 'mint', 'streams', 'federations', 'agents'] as const;

/** Compared with kube-apiserver. */
export const authParts = ['reviews'] as const;

/**
 * Compared with client-go, with the writes of the API servers themselves, (`vm-names`) with ExternalDNS by itself,
 * (`spire-operator`) with commands of SPIRE, and (`idle`) with a site without the plane.
 */
export const kubernetesParts = [
  'reflector',
  'league',
  'members',
  'policies',
  'vm-names',
  'spire-operator',
  'idle',
] as const;

/** The Go programs that the benchmarks run. */
export const benchTools = [
  'etcd',
  'kubectl',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-proxy',
  'coredns',
  'client-go',
  'external-dns',
  'mint',
  'streams',
  'agent-load',
  'spire-server',
  'spire-agent',
] as const;

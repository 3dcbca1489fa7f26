// Which peer a record concerns, for `hansa audit list --peer` and `hansa audit export --peer`.

/** The peer that an object names in its spec: of a grant, or of a Cluster of that peer. */
export function peerNamedIn(spec: unknown): { readonly peer?: string } {
  const { peer } = (spec ?? {}) as { readonly peer?: unknown };
  const { trustDomain } = (peer ?? {}) as { readonly trustDomain?: unknown };
  const found = typeof peer === 'string' ? peer : trustDomain;
  return typeof found === 'string' ? { peer: found } : {};
}

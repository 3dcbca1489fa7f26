// Resource versions as numbers. Clients may compare them since Kubernetes 1.35 (KEP-5504), and the
// servers of all older versions already took them from the revision of etcd.

/** A positive number without leading zeros, of at most 128 bits. */
const decimal = /^[1-9]\d{0,38}$/;

export function isResourceVersion(value: unknown): value is string {
  return typeof value === 'string' && decimal.test(value);
}

/** Negative where `a` is older, zero where both are the same. Both must be resource versions. */
export function compareVersions(a: string, b: string): number {
  if (a.length !== b.length) return a.length - b.length;
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

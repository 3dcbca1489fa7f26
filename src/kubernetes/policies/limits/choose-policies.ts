// Decides which policies of one member other members get, where it has more than its limits. Every supervisor comes to
// the same result from the same objects: the oldest come first. Pure.

/** What a member may make sites write into other members. */
export interface PolicyLimit {
  readonly policies: number;
  /** Of their content, all together. */
  readonly policyBytes: number;
}

/** Where `Federation` has none for a member: 10,000 policies of 6 KiB. */
export const defaultPolicyLimit: PolicyLimit = {
  policies: 10_000,
  policyBytes: 64 * 1024 * 1024,
};

/** A policy that asks for a place. */
export interface PolicyClaim {
  readonly createdMs: number;
  readonly bytes: number;
}

/** The keys of those that others get. All are of one member. */
export function choosePolicies(
  claims: ReadonlyMap<string, PolicyClaim>,
  { policies, policyBytes }: PolicyLimit,
): ReadonlySet<string> {
  const sorted = [...claims].toSorted(
    ([a, one], [b, two]) => one.createdMs - two.createdMs || (a < b ? -1 : 1),
  );
  const chosen = new Set<string>();
  let used = 0;
  for (const [key, { bytes }] of sorted) {
    if (chosen.size >= policies) break;
    // A smaller one may still fit.
    if (used + bytes > policyBytes) continue;
    used += bytes;
    chosen.add(key);
  }
  return chosen;
}

/** For the condition: which limit, and what to do. */
export function explainPolicyLimit(
  clusterID: string,
  { policies, policyBytes }: PolicyLimit,
): string {
  const size = `${Math.floor(policyBytes / 1024)} KiB`;
  return `Other clusters get at most ${policies} policies and ${size} of ${clusterID}, the oldest first, and this policy exceeds that. Clusters that do not have this version do not get it, and nothing is deleted. Remove annotations or policies that are not needed, or raise limits.policies or limits.policyBytes of ${clusterID} in Federation.`;
}

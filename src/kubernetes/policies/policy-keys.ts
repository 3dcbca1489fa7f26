// The keys of the part for policies: federated policies, and the mark that the member is in sync.

import { keyOfPolicy, policyOfKey, type PolicyRef } from './policy-ref.ts';

export type PolicyKey =
  | { readonly type: 'policy'; readonly ref: PolicyRef }
  | { readonly type: 'mark' }
  | { readonly type: 'none' };

/** No resource has this name. */
export const markKey = '|mark';

export const policyKey = keyOfPolicy;

export function parsePolicyKey(key: string): PolicyKey {
  if (key === markKey) return { type: 'mark' };
  const ref = policyOfKey(key);
  return ref === undefined ? { type: 'none' } : { type: 'policy', ref };
}

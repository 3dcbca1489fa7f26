// The keys of the part for policies: federated policies, the mark that the member is in sync, and what policies can
// select.

import { keyOfPolicy, policyOfKey, type PolicyRef } from './policy-ref.ts';

export type PolicyKey =
  | { readonly type: 'policy'; readonly ref: PolicyRef }
  | { readonly type: 'mark' }
  | { readonly type: 'selection' }
  | { readonly type: 'none' };

/** No resource has these names. */
export const markKey = '|mark';
export const selectionKey = '|selection';

export const policyKey = keyOfPolicy;

export function parsePolicyKey(key: string): PolicyKey {
  if (key === markKey) return { type: 'mark' };
  if (key === selectionKey) return { type: 'selection' };
  const ref = policyOfKey(key);
  return ref === undefined ? { type: 'none' } : { type: 'policy', ref };
}

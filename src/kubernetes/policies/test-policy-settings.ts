// Test fixture: settings of sites for federated policies.

import type { PolicySettings } from '../settings.ts';
import { defaultPolicyKinds, parsePolicyKinds } from './policy-kinds.ts';

/** A week, as the default. */
const retentionMs = 168 * 3_600_000;

export const noPolicies: PolicySettings = { kinds: [], retentionMs };

export const usualPolicies: PolicySettings = {
  kinds: parsePolicyKinds(defaultPolicyKinds),
  retentionMs,
};

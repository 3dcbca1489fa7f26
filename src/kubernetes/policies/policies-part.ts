// The part of the member controller that brings federated policies into a member, and records which version it has.

import type { MemberPart } from '../controllers/member-controller.ts';
import { markMember } from './mark-member.ts';
import { PolicyEvents } from './policy-events.ts';
import { parsePolicyKey } from './policy-keys.ts';
import { type PolicyOptions, PolicyTerm } from './policy-term.ts';
import { syncPolicy } from './sync-policy.ts';

export function policiesPart(options: PolicyOptions): MemberPart {
  let term: PolicyTerm | undefined;
  return {
    name: 'policies',
    start: (sink) => {
      term = new PolicyTerm(options, sink);
      return new PolicyEvents(term);
    },
    reconcile: async (key, context) => {
      if (term === undefined) return undefined;
      const parsed = parsePolicyKey(key);
      switch (parsed.type) {
        case 'policy':
          return syncPolicy(term, parsed.ref, context);
        case 'mark':
          return markMember(term, context);
        default:
          return undefined;
      }
    },
  };
}

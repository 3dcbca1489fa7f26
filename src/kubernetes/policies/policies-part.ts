// The part of the member controller that brings federated policies into a member, and records which version it has.

import type { MemberPart } from '../controllers/member-controller.ts';
import { paced } from '../copies/origin-pacer.ts';
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
      const current = term;
      if (current === undefined) return undefined;
      const parsed = parsePolicyKey(key);
      switch (parsed.type) {
        case 'policy':
          return paced(current.pacer, key, (run) => syncPolicy(current, parsed.ref, context, run));
        case 'mark':
          return markMember(current, context);
        default:
          return undefined;
      }
    },
  };
}

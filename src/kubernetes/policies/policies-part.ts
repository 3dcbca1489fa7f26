// The part of the member controller that brings federated policies into a member, and records which version it has.

import type { ReconcileResult } from '../../core/reconcile/controller.ts';
import type { MemberPart } from '../controllers/member-controller.ts';
import { paced } from '../copies/origin-pacer.ts';
import { markMember } from './mark-member.ts';
import { PolicyEvents } from './policy-events.ts';
import { parsePolicyKey, policyKey } from './policy-keys.ts';
import { policiesIn } from './policy-member.ts';
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
        case 'selection':
          return renewSelection(current);
        default:
          return undefined;
      }
    },
  };
}

/** The federated Services changed, so each policy of the target may select others. */
function renewSelection({ selection, options, sink }: PolicyTerm): ReconcileResult | undefined {
  const waitMs = selection.renew();
  if (waitMs !== undefined) return { requeueAfterMs: waitMs };
  for (const ref of policiesIn(options.member)) sink.add(policyKey(ref));
  return undefined;
}

// Decides whether the site signs for the workloads of an agent now. Quick, and as of the current store.

import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { HansaError } from '../../../core/errors/error.ts';
import type { FederationState } from '../../authorization/federation-state.ts';
import { signingProblem } from '../../join/conflicts.ts';
import type { Members } from '../../join/members.ts';
import { judgeVouching } from '../../join/vouching.ts';

export interface AgentStandingParts {
  readonly trustDomain: TrustDomain;
  readonly members: Pick<Members, 'get'>;
  readonly federationState: { readonly current: FederationState };
}

/** Why the site signs nothing for the agent. Undefined if it signs. HANSA_UNAVAILABLE can pass, HANSA_FORBIDDEN cannot. */
export function agentStanding(
  { trustDomain, members, federationState }: AgentStandingParts,
  agent: string,
): HansaError | undefined {
  const refuse = (code: 'HANSA_FORBIDDEN' | 'HANSA_UNAVAILABLE', why: string): HansaError =>
    new HansaError(code, `Cannot sign for the agent ${agent}: ${why}.`);
  const member = members.get(`agent/${agent}`)?.member;
  if (member === undefined) return refuse('HANSA_FORBIDDEN', 'it has not joined, or was forgotten');
  const vouching = judgeVouching(member, trustDomain.name, federationState.current);
  if (vouching.state === 'revoked') return refuse('HANSA_FORBIDDEN', vouching.why);
  if (vouching.state === 'paused') return refuse('HANSA_UNAVAILABLE', vouching.why);
  const conflict = signingProblem(member);
  return conflict === undefined ? undefined : refuse('HANSA_UNAVAILABLE', conflict);
}

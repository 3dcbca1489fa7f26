// Decides the state of an agent from the records of the site, and explains it to operators. Pure.

import type { Agent } from '../../api/kinds/agent.ts';
import { timestamp } from '../../api/object.ts';
import type { Member } from '../join/members.ts';
import type { Vouching } from '../join/vouching.ts';

export type AgentState = NonNullable<NonNullable<Agent['status']>['state']>;

export interface AgentKnowledge {
  readonly member: Pick<Member, 'name' | 'notAfterMs'>;
  /** Why the site signs nothing for it, in a clause; undefined if it signs. */
  readonly signingProblem: string | undefined;
  readonly vouching: Vouching;
  /** How long it counts as connected if its replica writes nothing more; undefined without a stream. */
  readonly connectedUntilMs: number | undefined;
  /** Whether it has been connected before, at any replica. */
  readonly hasConnected: boolean;
  /** The last moment at which its key can attest again. */
  readonly reattestUntilMs: number;
}

export interface JudgedAgent {
  readonly state: AgentState;
  readonly reason: string;
  /** When the state may change without a change of the records. */
  readonly changesAtMs: number | undefined;
}

export function judgeAgent(known: AgentKnowledge, nowMs: number): JudgedAgent {
  const { member, vouching, connectedUntilMs, hasConnected, reattestUntilMs } = known;
  const { name, notAfterMs } = member;
  if (known.signingProblem !== undefined) {
    return { state: 'Conflicted', reason: sentence(known.signingProblem), changesAtMs: undefined };
  }
  if (vouching.state !== 'trusted') {
    const reason = `The site does not trust the trust domain that vouched for this agent: ${vouching.why}`;
    return { state: 'Suspended', reason: sentence(reason), changesAtMs: undefined };
  }
  if (connectedUntilMs !== undefined && nowMs < connectedUntilMs) {
    // Without a time, so that a new stream changes nothing.
    return { state: 'Connected', reason: 'It is connected.', changesAtMs: connectedUntilMs };
  }
  const expired = `Its SVID expired at ${timestamp(notAfterMs)}`;
  if (nowMs >= reattestUntilMs) {
    const reason = `${expired}, and it did not come back before ${timestamp(reattestUntilMs)}. Run hansa agent forget ${name}, and join the machine again.`;
    return { state: 'Expired', reason, changesAtMs: undefined };
  }
  if (nowMs >= notAfterMs) {
    const reason = `${expired}. Start hansa agent run on its machine: it can attest again with its key until ${timestamp(reattestUntilMs)}.`;
    return { state: 'Expired', reason, changesAtMs: reattestUntilMs };
  }
  if (!hasConnected) {
    const reason = 'It has joined, but not connected yet. Start hansa agent run on its machine.';
    return { state: 'Joined', reason, changesAtMs: notAfterMs };
  }
  const reason =
    'It is not connected. Check that hansa agent run runs on its machine and reaches the site.';
  return { state: 'Disconnected', reason, changesAtMs: notAfterMs };
}

/** As much as the status takes, with room for the full stop. */
const maxReasonLength = 1023;

function sentence(clause: string): string {
  const text = `${clause.slice(0, 1).toUpperCase()}${clause.slice(1, maxReasonLength)}`;
  return text.endsWith('.') ? text : `${text}.`;
}

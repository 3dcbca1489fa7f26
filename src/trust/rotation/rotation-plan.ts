// Rotation: how authorities of this site take turns without anybody noticing.
//
// Soon after one begins to sign, the next is prepared, and is published for as long as that one signs:
// whoever fetches the bundle, however seldom, holds it long before it is needed, and an emergency finds
// one that others know already.
//
// Here live when a step is due (this file, pure), who holds the bundle (receipts.ts), whether the clock
// is to be believed (clock-jumps.ts), the controller that takes the steps by itself
// (rotation-controller.ts), and the steps by hand (rotation-routes.ts).
// What a step does to the authorities is in core/identity/authority/phases.ts, and how peers tell
// what they hold is for peering: the two meet in the status of FederationPeers.

import {
  type AuthorityPhase,
  clockSkewMs,
  hasLapsed,
  maxTtlSeconds,
  signedUntilMs,
} from '../../core/identity/authority/phases.ts';

/** What is to be done with the authorities of one kind, or what is waited for. */
export type RotationPlan =
  | { readonly act: 'prune'; readonly why: string }
  | { readonly act: 'prepare'; readonly why: string }
  | {
      readonly act: 'activate';
      readonly id: string;
      readonly why: string;
      /** Peers that were waited for in vain. */
      readonly unconfirmed: readonly string[];
    }
  | {
      readonly act: 'wait';
      /** life: nothing is due. clock: what is due cannot be told, because the clock has jumped. */
      readonly for: 'life' | 'spread' | 'receipts' | 'clock';
      /** When it is looked at again, whatever happens before. */
      readonly untilMs: number;
      /** With `receipts`: who has not confirmed. */
      readonly unconfirmed: readonly string[];
      /** With `life`: what is due then, in this order. */
      readonly next?: readonly NextStep[];
    };

/** A step that is not due yet. `id`: of the authority that signs from then on, or goes out of the bundle. */
export interface NextStep {
  readonly act: 'prune' | 'prepare' | 'activate';
  readonly id?: string;
}

export interface RotationState {
  readonly nowMs: number;
  /** Of one kind. */
  readonly authorities: readonly AuthorityPhase[];
  /** The prepared one that an operator asked to be activated as soon as that harms nobody. */
  readonly requested: { readonly id: string; readonly atMs: number } | undefined;
  /** Since when the bundle is served without a break: nobody fetches from a site that is down. */
  readonly servedSinceMs: number;
  readonly spreadMs: number;
  readonly deadlineMs: number;
  /** Peers to be waited for that do not hold the bundle. */
  readonly unconfirmed: readonly string[];
}

/** For how long one can sign, from when it began to. */
function signingLife({ activatedAtMs, preparedAtMs, notAfterMs }: AuthorityPhase): {
  readonly fromMs: number;
  readonly lifeMs: number;
} {
  const fromMs = activatedAtMs ?? preparedAtMs;
  return { fromMs, lifeMs: notAfterMs - fromMs };
}

/** When the next one is prepared: as the one before goes out of the bundle, so that others fetch once. */
export function standbyMs(active: AuthorityPhase): number {
  const { fromMs, lifeMs } = signingLife(active);
  return fromMs + Math.min(maxTtlSeconds * 1000 + clockSkewMs, Math.floor(lifeMs / 6));
}

/** When the next one takes over. In the long run each signs for a third of its life, after a third as the next. */
export function turnMs(active: AuthorityPhase): number {
  const { fromMs, lifeMs } = signingLife(active);
  return fromMs + Math.floor(lifeMs / 2);
}

/** From here on nothing is waited for: what the active one signs would be cut short. */
export function lastMomentMs(active: AuthorityPhase): number {
  const { preparedAtMs, notAfterMs } = active;
  const reserveMs = Math.min((notAfterMs - preparedAtMs) / 6, signingLife(active).lifeMs / 2);
  return notAfterMs - Math.floor(reserveMs);
}

/** Total and deterministic. Level-triggered: it is asked again after every step. */
export function planRotation(state: RotationState): RotationPlan {
  const { nowMs, authorities } = state;
  const active = authorities.find((one) => one.state === 'active');
  const prepared = authorities.find((one) => one.state === 'prepared');
  if (authorities.some((one) => hasLapsed(one, nowMs))) {
    return { act: 'prune', why: 'nothing that it signed is valid any more' };
  }
  if (active === undefined) return { act: 'wait', for: 'life', untilMs: Infinity, unconfirmed: [] };
  if (prepared !== undefined) return planActivation(state, active, prepared);
  const standby = standbyMs(active);
  if (nowMs >= standby) return { act: 'prepare', why: `to follow ${short(active.id)}` };
  return waitFor({ act: 'prepare' }, standby, authorities);
}

function planActivation(
  state: RotationState,
  active: AuthorityPhase,
  prepared: AuthorityPhase,
): RotationPlan {
  const { nowMs, requested, servedSinceMs, spreadMs, deadlineMs, unconfirmed } = state;
  const lapseMs = nextLapseMs(state.authorities);
  const asked = requested?.id === prepared.id;
  const dueMs = asked ? requested.atMs : turnMs(active);
  if (!asked && nowMs < dueMs) {
    return waitFor({ act: 'activate', id: prepared.id }, dueMs, state.authorities);
  }
  // The clock was set back.
  if (nowMs < prepared.notBeforeMs) return wait('spread', Math.min(prepared.notBeforeMs, lapseMs));
  const lastMs = lastMomentMs(active);
  const reason = asked ? 'asked for' : `${short(active.id)} is in the second half of its life`;
  const activate = (why: string, without: readonly string[] = []): RotationPlan => ({
    act: 'activate',
    id: prepared.id,
    why: without.length === 0 ? why : `${why}; not confirmed by ${without.join(', ')}`,
    unconfirmed: without,
  });
  if (nowMs >= lastMs) return activate(`${short(active.id)} ends soon`, unconfirmed);
  const publishedMs = Math.max(prepared.preparedAtMs, servedSinceMs);
  const spreadAtMs = Math.min(publishedMs + spreadMs, lastMs);
  if (nowMs < spreadAtMs) return wait('spread', Math.min(spreadAtMs, lapseMs));
  if (unconfirmed.length === 0) return activate(`${reason}, and the bundle has spread`);
  const deadline = Math.min(Math.max(publishedMs, dueMs) + Math.max(spreadMs, deadlineMs), lastMs);
  if (nowMs < deadline) return wait('receipts', Math.min(deadline, lapseMs), unconfirmed);
  return activate(`${reason}, and the deadline for receipts is over`, unconfirmed);
}

function nextLapseMs(authorities: readonly AuthorityPhase[]): number {
  return Math.min(...authorities.map(lapseMsOf));
}

function lapseMsOf(one: AuthorityPhase): number {
  return one.state === 'prepared' ? one.notAfterMs : (signedUntilMs(one) ?? Infinity);
}

/** Until the step is due, or one lapses before: what has lapsed goes first. */
function waitFor(
  step: NextStep,
  atMs: number,
  authorities: readonly AuthorityPhase[],
): RotationPlan {
  const untilMs = Math.min(atMs, nextLapseMs(authorities));
  const gone = authorities.filter((one) => lapseMsOf(one) === untilMs);
  const next = gone.map(({ id }): NextStep => ({ act: 'prune', id }));
  if (atMs === untilMs) next.push(step);
  return { act: 'wait', for: 'life', untilMs, unconfirmed: [], next };
}

function wait(
  what: Extract<RotationPlan, { readonly act: 'wait' }>['for'],
  untilMs: number,
  unconfirmed: readonly string[] = [],
): RotationPlan {
  return { act: 'wait', for: what, untilMs, unconfirmed };
}

function short(id: string): string {
  return id.slice(0, 16);
}

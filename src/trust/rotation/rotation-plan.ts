// Rotation: how a site replaces its authorities without failed calls.
//
// Soon after an authority becomes active, the site prepares and publishes the next one. So every client
// that fetches the bundle, even rarely, holds the next authority long before it signs. An emergency
// rotation can use it too.
//
// This file decides when a step is due (pure). Related files: receipts.ts (which peers hold the bundle),
// clock-jumps.ts (whether the clock is trusted), rotation-controller.ts (automatic steps) and
// rotation-routes.ts (manual steps). core/identity/authority/phases.ts applies a step to the
// authorities. Peering writes receipts into the status of FederationPeers.

import {
  type AuthorityPhase,
  clockSkewMs,
  hasLapsed,
  maxTtlSeconds,
  signedUntilMs,
} from '../../core/identity/authority/phases.ts';

import type { Unconfirmed } from './receipts.ts';

/** The next step for the authorities of one kind, or the reason to wait. */
export type RotationPlan =
  | { readonly act: 'prune'; readonly why: string }
  | { readonly act: 'prepare'; readonly why: string }
  | {
      readonly act: 'activate';
      readonly id: string;
      readonly why: string;
      /** Peers that did not confirm before the deadline. */
      readonly unconfirmed: readonly string[];
    }
  | {
      readonly act: 'wait';
      /** life: no step is due. clock: the clock has jumped, so due steps are unknown. */
      readonly for: 'life' | 'spread' | 'receipts' | 'clock';
      /** When to plan again, at the latest. */
      readonly untilMs: number;
      /** With `receipts`: the peers that have not confirmed. */
      readonly unconfirmed: readonly string[];
      /** With `life`: the steps that are due then, in this order. */
      readonly next?: readonly NextStep[];
    };

/** A step that is not due yet. `id`: the authority that becomes active, or leaves the bundle. */
export interface NextStep {
  readonly act: 'prune' | 'prepare' | 'activate';
  readonly id?: string;
}

export interface RotationState {
  readonly nowMs: number;
  /** Of one kind. */
  readonly authorities: readonly AuthorityPhase[];
  /** The prepared authority that an operator asked to activate as soon as it is safe. */
  readonly requested: { readonly id: string; readonly atMs: number } | undefined;
  /** Since when the site serves the bundle without interruption. */
  readonly servedSinceMs: number;
  readonly spreadMs: number;
  readonly deadlineMs: number;
  /** Peers that do not hold the bundle yet. */
  readonly unconfirmed: Unconfirmed;
}

/** How long an authority can sign after its activation. */
function signingLife({ activatedAtMs, preparedAtMs, notAfterMs }: AuthorityPhase): {
  readonly fromMs: number;
  readonly lifeMs: number;
} {
  const fromMs = activatedAtMs ?? preparedAtMs;
  return { fromMs, lifeMs: notAfterMs - fromMs };
}

/** When to prepare the next authority: when the previous one leaves the bundle, so that peers fetch once. */
export function standbyMs(active: AuthorityPhase): number {
  const { fromMs, lifeMs } = signingLife(active);
  return fromMs + Math.min(maxTtlSeconds * 1000 + clockSkewMs, Math.floor(lifeMs / 6));
}

/** When to activate the next one. In the long run, each is prepared for a third of its lifetime and active for a third. */
export function turnMs(active: AuthorityPhase): number {
  const { fromMs, lifeMs } = signingLife(active);
  return fromMs + Math.floor(lifeMs / 2);
}

/** After this time a rotation no longer waits, because the active authority would shorten its SVIDs. */
export function lastMomentMs(active: AuthorityPhase): number {
  const { preparedAtMs, notAfterMs } = active;
  const reserveMs = Math.min((notAfterMs - preparedAtMs) / 6, signingLife(active).lifeMs / 2);
  return notAfterMs - Math.floor(reserveMs);
}

/** Total and deterministic. Level-triggered: call it again after every step. */
export function planRotation(state: RotationState): RotationPlan {
  const { nowMs, authorities } = state;
  const active = authorities.find((one) => one.state === 'active');
  const prepared = authorities.find((one) => one.state === 'prepared');
  if (authorities.some((one) => hasLapsed(one, nowMs))) {
    return { act: 'prune', why: 'everything that it signed has expired' };
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
  const reason = asked ? 'requested' : `${short(active.id)} is in the second half of its lifetime`;
  const without = [...unconfirmed.waits, ...unconfirmed.goesOn].toSorted();
  const activate = (why: string): RotationPlan => ({
    act: 'activate',
    id: prepared.id,
    why: without.length === 0 ? why : `${why}; not confirmed by ${without.join(', ')}`,
    unconfirmed: without,
  });
  if (nowMs >= lastMs) return activate(`${short(active.id)} ends soon`);
  const publishedMs = Math.max(prepared.preparedAtMs, servedSinceMs);
  const spreadAtMs = Math.min(publishedMs + spreadMs, lastMs);
  if (nowMs < spreadAtMs) return wait('spread', Math.min(spreadAtMs, lapseMs));
  if (unconfirmed.waits.length === 0) return activate(`${reason}, and the bundle has spread`);
  const deadline = Math.min(Math.max(publishedMs, dueMs) + Math.max(spreadMs, deadlineMs), lastMs);
  if (nowMs < deadline) return wait('receipts', Math.min(deadline, lapseMs), unconfirmed.waits);
  return activate(`${reason}, and the deadline for receipts has passed`);
}

function nextLapseMs(authorities: readonly AuthorityPhase[]): number {
  return Math.min(...authorities.map(lapseMsOf));
}

function lapseMsOf(one: AuthorityPhase): number {
  return one.state === 'prepared' ? one.notAfterMs : (signedUntilMs(one) ?? Infinity);
}

/** Waits until the step is due, or until an old authority must leave the bundle before it. */
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

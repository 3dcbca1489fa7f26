// Rotation: how authorities of this site take turns without anybody noticing.
//
// Here live when a step is due (this file, pure), who holds the bundle (receipts.ts), the controller
// that takes the steps by itself (rotation-controller.ts), and the steps by hand (rotation-routes.ts).
// What a step does to the authorities is in core/identity/authority-phases.ts, and how peers tell
// what they hold is for peering: the two meet in the status of FederationPeers.

import {
  type AuthorityPhase,
  hasLapsed,
  signedUntilMs,
} from '../../core/identity/authority-phases.ts';

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
      /** life: nothing is due. operator: one is prepared, and nobody asked for it to be activated yet. */
      readonly for: 'life' | 'operator' | 'spread' | 'receipts';
      /** When it is looked at again, whatever happens before. */
      readonly untilMs: number;
      /** With `receipts`: who has not confirmed. */
      readonly unconfirmed: readonly string[];
    };

export interface RotationState {
  readonly nowMs: number;
  /** Of one kind. */
  readonly authorities: readonly AuthorityPhase[];
  /** The prepared one that an operator asked to be activated as soon as that harms nobody. */
  readonly requested: string | undefined;
  readonly spreadMs: number;
  readonly deadlineMs: number;
  /** Peers to be waited for that do not hold the bundle. */
  readonly unconfirmed: readonly string[];
}

/** The next one is prepared when half of its life is over. */
export function halfLifeMs({ preparedAtMs, notAfterMs }: AuthorityPhase): number {
  return preparedAtMs + (notAfterMs - preparedAtMs) / 2;
}

/** From here on nothing is waited for: what the active one signs would be cut short. */
export function lastMomentMs({ preparedAtMs, notAfterMs }: AuthorityPhase): number {
  return notAfterMs - (notAfterMs - preparedAtMs) / 6;
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
  const half = halfLifeMs(active);
  if (prepared !== undefined) return planActivation(state, active, prepared, half);
  if (nowMs >= half) {
    return { act: 'prepare', why: `half of the life of ${short(active.id)} is over` };
  }
  return wait('life', Math.min(half, nextLapseMs(authorities)));
}

function planActivation(
  state: RotationState,
  active: AuthorityPhase,
  prepared: AuthorityPhase,
  halfMs: number,
): RotationPlan {
  const { nowMs, requested, spreadMs, deadlineMs, unconfirmed } = state;
  const lapseMs = nextLapseMs(state.authorities);
  const asked = requested === prepared.id;
  if (!asked && nowMs < halfMs) return wait('operator', Math.min(halfMs, lapseMs));
  const lastMs = lastMomentMs(active);
  const reason = asked ? 'asked for' : `half of the life of ${short(active.id)} is over`;
  const activate = (why: string, without: readonly string[] = []): RotationPlan => ({
    act: 'activate',
    id: prepared.id,
    why: without.length === 0 ? why : `${why}; not confirmed by ${without.join(', ')}`,
    unconfirmed: without,
  });
  if (nowMs >= lastMs) return activate(`${short(active.id)} ends soon`, unconfirmed);
  const spreadAtMs = Math.min(prepared.preparedAtMs + spreadMs, lastMs);
  if (nowMs < spreadAtMs) return wait('spread', Math.min(spreadAtMs, lapseMs));
  if (unconfirmed.length === 0) return activate(`${reason}, and the bundle has spread`);
  const deadline = Math.min(prepared.preparedAtMs + Math.max(spreadMs, deadlineMs), lastMs);
  if (nowMs < deadline) return wait('receipts', Math.min(deadline, lapseMs), unconfirmed);
  return activate(`${reason}, and the deadline for receipts is over`, unconfirmed);
}

function nextLapseMs(authorities: readonly AuthorityPhase[]): number {
  return Math.min(
    ...authorities.map((one) =>
      one.state === 'prepared' ? one.notAfterMs : (signedUntilMs(one) ?? Infinity),
    ),
  );
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

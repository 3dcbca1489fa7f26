// Who may hold a lease, as pure functions from the present row to the next one. `undefined` means
// that the caller may not.

import type { LeaseState } from '../store.ts';

/** The holder of a lease that was released. Nobody can acquire under this name. */
export const noHolder = '';

export function acquireLease(
  present: LeaseState | undefined,
  name: string,
  holder: string,
  durationMs: number,
  nowMs: number,
): LeaseState | undefined {
  const expiresAtMs = nowMs + durationMs;
  if (present?.holder === holder) return { ...present, expiresAtMs };
  const free = present === undefined || present.holder === noHolder || present.expiresAtMs <= nowMs;
  return free ? { name, holder, epoch: (present?.epoch ?? 0) + 1, expiresAtMs } : undefined;
}

/** An expired lease that nobody took meanwhile can still be renewed: the epoch proves that. */
export function renewLease(
  present: LeaseState | undefined,
  holder: string,
  epoch: number,
  durationMs: number,
  nowMs: number,
): LeaseState | undefined {
  if (present?.holder !== holder || present.epoch !== epoch) return undefined;
  return { ...present, expiresAtMs: nowMs + durationMs };
}

/** The row stays, so that the epoch never shrinks. */
export function releaseLease(
  present: LeaseState | undefined,
  holder: string,
  epoch: number,
): LeaseState | undefined {
  if (present?.holder !== holder || present.epoch !== epoch) return undefined;
  return { ...present, holder: noHolder, expiresAtMs: 0 };
}

// The rules for leases, as pure functions from the current row to the next one. `undefined` means
// that the caller may not have the lease.

import type { LeaseState } from '../store.ts';

/** The holder of a lease that was released. No process can acquire a lease under this name. */
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

/** A holder can renew an expired lease if no other holder took it meanwhile, which the epoch proves. */
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

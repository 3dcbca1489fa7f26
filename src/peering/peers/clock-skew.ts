// How far the clock of a peer is from ours, from the times of messages between the two sites (RFC 5905 §8),
// and whether that is too far. Pure.

import type { ConditionUpdate } from '../../core/reconcile/conditions.ts';

export const clockCondition = 'ClockInSync';

export interface ClockSkew {
  /** Positive if the clock of the peer is ahead of ours. */
  readonly skewMs: number;
  /** The true skew differs by at most this much, because messages take time. */
  readonly uncertaintyMs: number;
}

export interface RoundTrip {
  /** When we sent a message, by our clock. */
  readonly sentMs: number;
  /** When it arrived at the peer, and when the peer sent its next message, by the clock of the peer. */
  readonly arrivedMs: number;
  readonly returnedMs: number;
  /** How long after `sentMs` that message arrived here. */
  readonly elapsedMs: number;
}

/** Times are whole milliseconds, so a fast answer can seem to arrive before it was sent. */
const roundingMs = 2;

/**
 * A slow answer makes the measurement uncertain, and not wrong. Undefined where the peer claims to have held
 * the message for longer than it was away.
 */
export function measureSkew(trip: RoundTrip): ClockSkew | undefined {
  const { sentMs, arrivedMs, returnedMs, elapsedMs } = trip;
  const heldMs = returnedMs - arrivedMs;
  const travelMs = elapsedMs - heldMs;
  if (heldMs < 0 || travelMs < -roundingMs) return undefined;
  const skewMs = (arrivedMs - sentMs + (returnedMs - (sentMs + elapsedMs))) / 2;
  return {
    skewMs: Math.round(skewMs),
    uncertaintyMs: Math.ceil(Math.max(travelMs, 0) / 2) + roundingMs,
  };
}

/** Whether both can be true. If not, a clock was set in between. */
export function agree(one: ClockSkew, other: ClockSkew): boolean {
  return Math.abs(one.skewMs - other.skewMs) <= one.uncertaintyMs + other.uncertaintyMs;
}

/** Undefined where the measurement is too uncertain to tell: the condition stays as it is. */
export function judgeSkew(
  { skewMs, uncertaintyMs }: ClockSkew,
  limitMs: number,
): ConditionUpdate | undefined {
  const offMs = Math.abs(skewMs);
  if (offMs + uncertaintyMs <= limitMs) {
    return {
      type: clockCondition,
      status: 'True',
      reason: 'InSync',
      message: `The clocks of the sites differ by at most ${limitMs / 1000} s.`,
    };
  }
  if (offMs - uncertaintyMs <= limitMs) return undefined;
  const [reason, direction] = skewMs > 0 ? ['Ahead', 'ahead of'] : ['Behind', 'behind'];
  return {
    type: clockCondition,
    status: 'False',
    reason,
    // Without the value, which changes all the time: status.clock has it.
    message: `The clock of the peer is more than ${limitMs / 1000} s ${direction} that of this site. Check the time synchronization (NTP) of both sites.`,
  };
}

/** As `1.2 s ahead`. */
export function skewText({ skewMs, uncertaintyMs }: ClockSkew): string {
  const offMs = Math.abs(skewMs);
  const places = offMs < 10_000 ? 1 : 0;
  const seconds = (offMs / 1000).toFixed(places);
  if (offMs <= uncertaintyMs || Number(seconds) === 0) return 'in sync';
  return `${seconds} s ${skewMs > 0 ? 'ahead' : 'behind'}`;
}

// When a token is renewed, and how a failed renewal is retried. Pure.

import type { PickedCredential, RenewSettings } from './credential-source.ts';

/** However short the tokens are that an API server grants. */
const leastMs = 30_000;
/** The first retry of a failed renewal; each further one waits twice as long. */
const firstRetryMs = 10_000;
const longestRetryMs = 15 * 60_000;

type Life = Pick<PickedCredential, 'issuedAtMs' | 'expiresAtMs'>;

/** Undefined for a token that does not expire. */
export function renewAtMs(
  { issuedAtMs, expiresAtMs }: Life,
  { renewBeforeMs }: Pick<RenewSettings, 'renewBeforeMs'>,
): number | undefined {
  if (expiresAtMs === undefined) return undefined;
  if (issuedAtMs === undefined) return expiresAtMs - renewBeforeMs;
  // An API server may grant less than the site asks for. Then half of the life is used.
  const lifeMs = Math.max(expiresAtMs - issuedAtMs, 0);
  return Math.max(expiresAtMs - Math.min(renewBeforeMs, lifeMs / 2), issuedAtMs + leastMs);
}

/** After how long the site looks again. */
export function nextLookMs(
  renewsAtMs: number | undefined,
  nowMs: number,
  { intervalMs }: Pick<RenewSettings, 'intervalMs'>,
): number {
  if (renewsAtMs === undefined) return intervalMs;
  return Math.min(Math.max(renewsAtMs - nowMs, 1_000), intervalMs);
}

/** `unit` is random in [0, 1). Replicas and clusters must not retry in step. */
export function retryAfterMs(
  failures: number,
  askedForMs: number | undefined,
  unit: number,
): number {
  const doubled = firstRetryMs * 2 ** Math.min(failures - 1, 20);
  const backOffMs = Math.min(doubled, longestRetryMs) * (0.5 + unit / 2);
  // A hostile API server must not stop renewals by a long Retry-After.
  return Math.max(backOffMs, Math.min(askedForMs ?? 0, longestRetryMs));
}

/** Whether a failure is urgent: less than half of the time for renewals is left. */
export function isUrgent(
  life: Life,
  settings: Pick<RenewSettings, 'renewBeforeMs'>,
  nowMs: number,
): boolean {
  const { expiresAtMs } = life;
  const beginMs = renewAtMs(life, settings);
  if (expiresAtMs === undefined || beginMs === undefined) return false;
  return nowMs >= (beginMs + expiresAtMs) / 2;
}

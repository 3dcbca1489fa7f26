// Computes when to order the next certificate, and when to retry. Pure.

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** What is left when the next one is ordered: a third of its life, or this. */
const earliestMs = 30 * dayMs;
/** Of what is left: so that sites that began together do not come together. */
const jitter = 0.1;

/** `unit` is random in [0, 1). Drawn once a certificate. */
export function renewAtMs(
  certificate: { readonly notBeforeMs: number; readonly notAfterMs: number },
  nowMs: number,
  unit: number,
): number {
  const { notBeforeMs, notAfterMs } = certificate;
  const lifeMs = notAfterMs - notBeforeMs;
  const leftMs = Math.min(lifeMs / 3, earliestMs) * (1 + jitter * unit);
  // A clock that is wrong must not make us order without end.
  return Math.max(notAfterMs - leftMs, nowMs + Math.min(lifeMs / 2, hourMs));
}

const firstRetryMs = 60_000;
const lastRetryMs = 6 * hourMs;

/**
 * How long to wait after so many failures in a row: servers count failed validations by the hour.
 * What the server asked for is respected.
 */
export function retryAfterMs(
  failures: number,
  askedForMs: number | undefined,
  unit: number,
): number {
  const backOffMs = Math.min(firstRetryMs * 2 ** Math.min(failures - 1, 16), lastRetryMs);
  return Math.max(backOffMs * (1 + jitter * unit), askedForMs ?? 0);
}

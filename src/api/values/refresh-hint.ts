// How often the bundle of a trust domain is fetched again, by the hint of its publisher.

/** SPIFFE Federation §5.2.1 leaves the hint to the server; five minutes is what SPIFFE suggests where there is none. */
export const defaultRefreshHintSeconds = 300;
/** A hint may not make us a burden to a peer, nor keep its rotation from us for more than an hour. */
const bounds = { lowest: 60, highest: 3600 } as const;

/** When to ask a publisher again, within what is good for both. */
export function refreshAfterSeconds(hint: number | undefined): number {
  return Math.min(Math.max(hint ?? defaultRefreshHintSeconds, bounds.lowest), bounds.highest);
}

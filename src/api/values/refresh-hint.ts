// Computes from the refresh hint of a bundle how often the site fetches it.

/** SPIFFE Federation §5.2.1 leaves the hint to the server. Without a hint, SPIFFE suggests five minutes. */
export const defaultRefreshHintSeconds = 300;
/** A hint may not make us a burden to a peer, nor keep its rotation from us for more than an hour. */
const bounds = { lowest: 60, highest: 3600 } as const;

/** When to ask a publisher again, within what is good for both. */
export function refreshAfterSeconds(hint: number | undefined): number {
  return Math.min(Math.max(hint ?? defaultRefreshHintSeconds, bounds.lowest), bounds.highest);
}

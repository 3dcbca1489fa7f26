// The short hash that stands for a token in logs, audit records and the output of `hansa cluster review`.

import { hash } from 'node:crypto';

/** Enough to tell the tokens of a site apart, and no help in guessing one. */
const hexDigits = 16;

/** Only for tokens that a line is written about: reviews that succeed do not need it. */
export function tokenHash(token: string): string {
  return hash('sha256', token).slice(0, hexDigits);
}

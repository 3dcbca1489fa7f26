// Denials in the words of kube-apiserver. The texts of other libraries that it passes on are part of them.

import type { Denial } from './verdict.ts';

/** Two authenticators of kube-apiserver say this: the first knows only the server's own token. */
const unknownToken = 'invalid bearer token';

/** Repeated reasons count once, and one reason alone has no brackets, as in Go's aggregated errors. */
export function denied(...reasons: readonly string[]): Denial {
  const distinct = new Set([unknownToken, ...reasons]);
  return {
    authenticated: false,
    error: distinct.size === 1 ? unknownToken : `[${[...distinct].join(', ')}]`,
  };
}

/** Not a token, or a token of another issuer. */
export const notOurs: Denial = denied();

/** Nothing but white space, or a space at the start: kube-apiserver sees no token at all. */
export const blank: Denial = { authenticated: false };

export const noKeysFound: Denial = denied('invalid signature, no keys found');

/** The text of go-jose for a wrong signature or algorithm. */
export const wrongSignature = 'go-jose/go-jose: error in cryptographic primitive';

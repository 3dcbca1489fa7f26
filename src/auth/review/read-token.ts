// Reads a token of one cluster: finds it, checks the issuer, and verifies the signature with the keys of
// that cluster. The order of the checks is that of kube-apiserver, because its answers depend on it.

import { quoteGo } from '../../api/schema/go-text.ts';
import { verifyJws } from '../../core/identity/jwt/jws.ts';
import type { KeySet, VerificationKey } from '../keys/cluster-keys.ts';
import { decodeClaims, legacyIssuer, type TokenClaims } from './decode-claims.ts';
import { denied, notOurs, wrongSignature } from './denial.ts';
import { type ParsedToken, parseToken } from './parse-token.ts';
import type { Denial } from './verdict.ts';

/** A token whose signature a key of the cluster made. */
export interface SignedToken {
  readonly claims: TokenClaims;
  /** The claim `aud`. Empty for a token that is meant for the API server without saying so. */
  readonly audiences: readonly string[];
  /**
   * The token in its only canonical form. A text that was sent can have white space and stray bits in it, and words
   * behind it, so the same token has any number of texts.
   */
  readonly text: string;
  /** Infinity for a token that does not expire. kube-apiserver accepts a token for a minute longer. */
  readonly expiresAtMs: number;
}

export type ReadToken =
  | { readonly type: 'denied'; readonly verdict: Denial }
  /** No key has the `kid` of the token. Newer keys may. */
  | { readonly type: 'unknownKey' }
  | { readonly type: 'signed'; readonly token: SignedToken; readonly key: VerificationKey };

const unknownKey: ReadToken = { type: 'unknownKey' };
const otherIssuer: ReadToken = { type: 'denied', verdict: notOurs };

export function readToken(sent: string, keys: KeySet, issuer: string): ReadToken {
  const parsed = parseToken(sent);
  if (parsed.type === 'denied') return parsed;
  if (parsed.issuer !== issuer && parsed.issuer !== legacyIssuer) return otherIssuer;
  const candidates = keys.for(parsed.header.keyId);
  if (candidates.length === 0) return unknownKey;
  const reasons: string[] = [];
  for (const key of candidates) {
    const claims = claimsSignedBy(key, parsed);
    if (typeof claims === 'string') {
      reasons.push(claims);
      continue;
    }
    const { iss = '' } = parsed.claims;
    if (iss === parsed.issuer) return { type: 'signed', token: signedToken(parsed, claims), key };
    const shown = quoteGo(typeof iss === 'string' ? iss : '');
    return { type: 'denied', verdict: denied(`token issuer ${shown} is invalid`) };
  }
  return { type: 'denied', verdict: denied(...reasons) };
}

/** Returns the claims, or why there are none. */
function claimsSignedBy(key: VerificationKey, token: ParsedToken): TokenClaims | string {
  if (token.header.refusal !== undefined) return token.header.refusal;
  return isSignedBy(key, token) ? decodeClaims(token.payload, token.claims) : wrongSignature;
}

function isSignedBy({ publicKey }: VerificationKey, token: ParsedToken): boolean {
  const { header, signed, signature, payload } = token;
  const { algorithm } = header;
  if (algorithm === undefined) return false;
  if (header.isPayloadRaw) {
    const head = canonicalForm(signed.slice(0, signed.indexOf('.') + 1));
    const bytes = Buffer.concat([Buffer.from(head, 'latin1'), payload]);
    return verifyJws(algorithm, publicKey, bytes, signature);
  }
  if (verifyJws(algorithm, publicKey, Buffer.from(signed, 'latin1'), signature)) return true;
  // go-jose ignores stray bits at the end of base64, and verifies the text without them.
  const canonical = canonicalForm(signed);
  return (
    canonical !== signed &&
    verifyJws(algorithm, publicKey, Buffer.from(canonical, 'latin1'), signature)
  );
}

function canonicalForm(signed: string): string {
  return signed
    .split('.')
    .map((part) => Buffer.from(part, 'base64url').toString('base64url'))
    .join('.');
}

function signedToken({ signed, signature }: ParsedToken, claims: TokenClaims): SignedToken {
  const { audiences, expiry, legacySecret } = claims;
  // kube-apiserver does not look at the expiry of a legacy token.
  const expires = legacySecret === undefined ? expiry : undefined;
  return {
    claims,
    audiences,
    text: `${canonicalForm(signed)}.${signature.toString('base64url')}`,
    expiresAtMs: expires === undefined ? Number.POSITIVE_INFINITY : expires * 1000,
  };
}

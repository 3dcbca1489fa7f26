// What a ServiceAccount token says about itself, for its renewal. Nothing here is verified: the API
// server decides what the token is good for.

import { unverifiedClaims } from '../../identity/jwt/unverified-claims.ts';
import { isRecord } from '../../json/is-record.ts';

/** A header of most servers holds no more. */
export const maxTokenBytes = 16 * 1024;

export interface TokenClaims {
  readonly issuer: string | undefined;
  readonly subject: string | undefined;
  readonly audiences: readonly string[];
  readonly issuedAtMs: number | undefined;
  /** Undefined: it does not expire. */
  readonly expiresAtMs: number | undefined;
  readonly serviceAccount: { readonly namespace: string; readonly name: string } | undefined;
  /** The object with which the token ends. */
  readonly boundTo: BoundObject | undefined;
}

export interface BoundObject {
  readonly kind: 'Pod' | 'Secret' | 'Node';
  readonly name: string;
  readonly uid: string;
}

/** Undefined where it cannot be sent in a header: it is empty, too long, or not one word. */
export function tokenIn(text: string): string | undefined {
  const token = text.trim();
  return token.length <= maxTokenBytes && /^[\x21-\x7e]+$/.test(token) ? token : undefined;
}

/** Undefined where it is not a JWT. */
export function claimsOf(token: string): TokenClaims | undefined {
  const claims = token.length > maxTokenBytes ? undefined : unverifiedClaims(token);
  if (claims === undefined) return undefined;
  const { iss, sub, aud, iat, exp } = claims;
  const subject = typeof sub === 'string' ? sub : undefined;
  return {
    issuer: typeof iss === 'string' ? iss : undefined,
    subject,
    audiences: (Array.isArray(aud) ? aud : [aud]).filter((one) => typeof one === 'string'),
    issuedAtMs: secondsToMs(iat),
    expiresAtMs: secondsToMs(exp),
    serviceAccount: serviceAccountOf(subject),
    boundTo: boundObjectOf(claims['kubernetes.io']),
  };
}

/** The names become part of a path. */
const namePattern = /^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$/;
const namespacePattern = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

function serviceAccountOf(subject: string | undefined): TokenClaims['serviceAccount'] {
  const [system, kind, namespace = '', name = '', ...rest] = subject?.split(':') ?? [];
  if (system !== 'system' || kind !== 'serviceaccount' || rest.length > 0) return undefined;
  return namespacePattern.test(namespace) && namePattern.test(name)
    ? { namespace, name }
    : undefined;
}

/** A token that is bound to a Pod names its Node, too. */
const bindable = [
  ['pod', 'Pod'],
  ['secret', 'Secret'],
  ['node', 'Node'],
] as const;

function boundObjectOf(claim: unknown): BoundObject | undefined {
  if (!isRecord(claim)) return undefined;
  for (const [field, kind] of bindable) {
    const found = claim[field];
    if (!isRecord(found)) continue;
    const { name, uid } = found;
    if (typeof name === 'string' && typeof uid === 'string') return { kind, name, uid };
  }
  return undefined;
}

function secondsToMs(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value > 0
    ? value * 1000
    : undefined;
}

// The rules of JWT-SVIDs, each with the section that states it. Every rejection names exactly one
// rule (as in x509/rules.ts) and never shows the token.

import { HansaError } from '../../errors/error.ts';

export const jwtRules = {
  'size-limit': 'limit of this site',
  serialization: 'JWT-SVID §5.1, RFC 7515 §3.1',
  base64url: 'RFC 7515 §2',
  json: 'RFC 7515 §5.2 (3), RFC 7519 §7.2 (10)',
  'duplicate-member': 'RFC 7515 §4, RFC 7519 §4',
  header: 'JWT-SVID §2',
  'critical-header': 'JWT-SVID §2, RFC 7515 §4.1.11',
  algorithm: 'JWT-SVID §2.1, RFC 8725 §3.1',
  'key-id': 'JWT-SVID §2.2, RFC 7515 §4.1.4',
  type: 'JWT-SVID §2.3',
  subject: 'JWT-SVID §3.1',
  audience: 'JWT-SVID §3.2, RFC 7519 §4.1.3',
  expiry: 'JWT-SVID §3.3, RFC 7519 §4.1.4',
  'not-before': 'RFC 7519 §4.1.5',
  'issued-at': 'RFC 7519 §4.1.6',
  'no-bundle': 'SPIFFE Workload API §6.3',
  'unknown-key': 'JWT-SVID §6.2, SPIFFE Workload API §6.3',
  'key-type': 'RFC 7518 §3.1, RFC 8725 §3.1',
  signature: 'JWT-SVID §4, RFC 7515 §5.2 (8)',
} as const satisfies Record<string, string>;

export type JwtRule = keyof typeof jwtRules;

/** `what` is a clause that says which value broke the rule: "its alg is none". */
export function refuseJwt(rule: JwtRule, what: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_JWT_INVALID',
    `The JWT-SVID is rejected: ${what} (${rule}; ${jwtRules[rule]}).`,
    { cause, details: { causes: [{ reason: rule, message: what }] } },
  );
}

/** The rule that a rejection names; undefined for other errors. */
export function brokenJwtRule(caught: unknown): JwtRule | undefined {
  if (!(caught instanceof HansaError) || caught.code !== 'HANSA_JWT_INVALID') return undefined;
  const reason = caught.details?.causes?.[0]?.reason;
  return reason !== undefined && Object.hasOwn(jwtRules, reason) ? (reason as JwtRule) : undefined;
}

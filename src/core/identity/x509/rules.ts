// The rules for certificates, each with the section that states it. The linter (before the site
// signs) and the validator (before it trusts) use the same rules and messages.

import { HansaError } from '../../errors/error.ts';

export const rules = {
  'malformed-der': 'X.690 §10, distinguished encoding',
  'size-limit': 'limit of this site',
  'version-3': 'RFC 5280 §4.1.2.1',
  'request-version': 'RFC 2986 §4.1',
  'serial-number': 'RFC 5280 §4.1.2.2',
  'signature-algorithm': 'allowed algorithms of this site, RFC 5280 §4.1.1.2',
  'public-key': 'allowed keys of this site, RFC 5280 §4.1.2.7',
  issuer: 'RFC 5280 §4.1.2.4',
  validity: 'RFC 5280 §4.1.2.5',
  'not-yet-valid': 'RFC 5280 §6.1.3 (a)(2)',
  expired: 'RFC 5280 §6.1.3 (a)(2)',
  'duplicate-extension': 'RFC 5280 §4.2',
  'unknown-critical-extension': 'RFC 5280 §4.2',
  'name-constraints': 'X.509-SVID §4.2, RFC 5280 §4.2.1.10',
  'subject-alternative-name': 'RFC 5280 §4.2.1.6',
  'critical-san': 'X.509-SVID §3.1, RFC 5280 §4.1.2.6',
  'exactly-one-uri': 'X.509-SVID §2',
  'spiffe-id': 'SPIFFE-ID §2',
  'leaf-path': 'X.509-SVID §3.1',
  'signing-path': 'X.509-SVID §3.2',
  'leaf-not-ca': 'X.509-SVID §4.1',
  'signing-is-ca': 'X.509-SVID §4.1, RFC 5280 §4.2.1.9',
  'key-usage': 'X.509-SVID §4.3',
  'leaf-key-usage': 'X.509-SVID §4.3',
  'signing-key-usage': 'X.509-SVID §4.3',
  'extended-key-usage': 'X.509-SVID §4.4',
  'key-identifier': 'RFC 5280 §4.2.1.1, §4.2.1.2',
  'path-length': 'RFC 5280 §6.1.4 (l), (m)',
  'trust-domain': 'X.509-SVID §3.2',
  'no-bundle': 'X.509-SVID §5.1',
  'unknown-authority': 'X.509-SVID §5.1, RFC 5280 §6.1',
  signature: 'RFC 5280 §6.1.3 (a)(1)',
  'no-certificate': 'X.509-SVID §5.1',
  'session-reused': 'limit of this site: resumed sessions hide the chain',
  'expected-id': 'X.509-SVID §5.2',
  'server-name': 'SPIFFE Federation §5.2.1.4, RFC 6125 §6',
  'web-authority': 'SPIFFE Federation §5.2.1.4, RFC 6125 §6',
  'pinned-key': 'pinnedKeys of the federation',
} as const satisfies Record<string, string>;

export type Rule = keyof typeof rules;

/** `what` is a clause that says which value broke the rule: "the leaf has cA set to true". */
export function refuse(rule: Rule, what: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_CERTIFICATE_INVALID',
    `The certificate is rejected: ${what} (${rule}; ${rules[rule]}).`,
    { cause, details: { causes: [{ reason: rule, message: what }] } },
  );
}

/** The rule that a rejection names; undefined for other errors. */
export function brokenRule(caught: unknown): Rule | undefined {
  if (!(caught instanceof HansaError) || caught.code !== 'HANSA_CERTIFICATE_INVALID') {
    return undefined;
  }
  const reason = caught.details?.causes?.[0]?.reason;
  return reason !== undefined && Object.hasOwn(rules, reason) ? (reason as Rule) : undefined;
}

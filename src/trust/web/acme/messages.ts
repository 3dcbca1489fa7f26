// Parses the messages of an ACME server (RFC 8555 §7.1). It ignores unknown fields, as §7.1 requires, and
// checks the required ones. Throws AcmeProblem.

import { AcmeProblem, problemIn } from './problem.ts';
import { parseBoundedJson } from '../../../core/json/strict-json.ts';

export interface Directory {
  readonly newNonce: string;
  readonly newAccount: string;
  readonly newOrder: string;
  readonly externalAccountRequired: boolean;
}

/** RFC 8555 §7.1.6. */
export type OrderStatus = 'pending' | 'ready' | 'processing' | 'valid' | 'invalid';

export interface Order {
  readonly status: OrderStatus;
  readonly authorizations: readonly string[];
  readonly finalize: string;
  readonly certificate: string | undefined;
  /** Where the status is invalid. */
  readonly problem: AcmeProblem | undefined;
}

export interface Challenge {
  readonly type: string;
  readonly url: string;
  readonly token: string;
  readonly problem: AcmeProblem | undefined;
}

export interface Authorization {
  readonly status: 'pending' | 'valid' | 'invalid' | 'deactivated' | 'expired' | 'revoked';
  readonly dnsName: string;
  readonly challenges: readonly Challenge[];
}

const maxUrlLength = 2048;
/** One name has one authorization, with a handful of challenges. */
const maxAuthorizations = 4;
const maxChallenges = 16;

export function parseDirectory(body: Buffer): Directory {
  const fields = parseObject(body, 'the directory');
  const meta = isObject(fields['meta']) ? fields['meta'] : {};
  return {
    newNonce: parseUrl(fields['newNonce'], 'newNonce of the directory'),
    newAccount: parseUrl(fields['newAccount'], 'newAccount of the directory'),
    newOrder: parseUrl(fields['newOrder'], 'newOrder of the directory'),
    externalAccountRequired: meta['externalAccountRequired'] === true,
  };
}

const orderStatuses: readonly string[] = ['pending', 'ready', 'processing', 'valid', 'invalid'];

export function parseOrder(body: Buffer): Order {
  const fields = parseObject(body, 'an order');
  const { status, authorizations, certificate, error } = fields;
  if (typeof status !== 'string' || !orderStatuses.includes(status)) {
    throw malformed('an order has a status that RFC 8555 does not know');
  }
  if (
    !Array.isArray(authorizations) ||
    authorizations.length === 0 ||
    authorizations.length > maxAuthorizations
  ) {
    throw malformed(`an order does not have 1 to ${maxAuthorizations} authorizations`);
  }
  return {
    status: status as OrderStatus,
    authorizations: authorizations.map((url) => parseUrl(url, 'an authorization of the order')),
    finalize: parseUrl(fields['finalize'], 'finalize of the order'),
    certificate:
      certificate === undefined ? undefined : parseUrl(certificate, 'the certificate of the order'),
    problem: error === undefined ? undefined : problemIn(error),
  };
}

const authorizationStatuses: readonly string[] = [
  'pending',
  'valid',
  'invalid',
  'deactivated',
  'expired',
  'revoked',
];

export function parseAuthorization(body: Buffer): Authorization {
  const { status, identifier, challenges } = parseObject(body, 'an authorization');
  if (typeof status !== 'string' || !authorizationStatuses.includes(status)) {
    throw malformed('an authorization has a status that RFC 8555 does not know');
  }
  if (!isObject(identifier) || identifier['type'] !== 'dns') {
    throw malformed('an authorization is not for a DNS name');
  }
  const dnsName = identifier['value'];
  if (typeof dnsName !== 'string' || dnsName.length > 253) {
    throw malformed('an authorization has no name');
  }
  if (!Array.isArray(challenges) || challenges.length > maxChallenges) {
    throw malformed(`an authorization has no list of at most ${maxChallenges} challenges`);
  }
  return {
    status: status as Authorization['status'],
    dnsName,
    challenges: challenges.flatMap(parseChallenge),
  };
}

/** Kinds of challenges that we do not know may have other fields: they are left out. */
function parseChallenge(value: unknown): Challenge[] {
  if (!isObject(value)) throw malformed('a challenge is not an object');
  const { type, url, token, error } = value;
  if (type !== 'http-01' && type !== 'tls-alpn-01') return [];
  // RFC 8555 §8.3: base64url. It becomes part of a path, so nothing else may be in it.
  if (typeof token !== 'string' || !/^[A-Za-z0-9_-]{16,256}$/.test(token)) {
    throw malformed(`the token of the challenge ${type} is not base64url of 16 to 256 characters`);
  }
  return [
    {
      type,
      url: parseUrl(url, `the URL of the challenge ${type}`),
      token,
      problem: error === undefined || error === null ? undefined : problemIn(error),
    },
  ];
}

/** https only, with no user in it. */
export function parseUrl(value: unknown, what: string): string {
  const url =
    typeof value === 'string' && value.length <= maxUrlLength && URL.canParse(value)
      ? new URL(value)
      : undefined;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') {
    throw malformed(`${what} is not an https URL`);
  }
  return url.href;
}

function parseObject(body: Buffer, what: string): Record<string, unknown> {
  try {
    const value: unknown = parseBoundedJson(body);
    if (isObject(value)) return value;
  } catch {
    // The parser's words would quote the answer.
  }
  throw malformed(`${what} is not a JSON object`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function malformed(what: string): AcmeProblem {
  return new AcmeProblem('malformed', `the server's answer cannot be used: ${what}`);
}

// Reads the answer of an API server to a TokenReview. The answer is hostile: this site accepts it only where
// it agrees with the verified claims of the token, so that no cluster can hand out another user or group.

import { parseBoundedJson } from '../../core/json/strict-json.ts';
import { hideTokens } from '../../core/kube/hide-tokens.ts';
import { magic, readEnvelope, readMessage, type Shape } from '../../core/kube/protobuf.ts';
import type { Acceptance, ReviewedUser, TokenQuestion, Verdict } from '../review/verdict.ts';

/** Why the answer is not accepted. The text goes to logs and callers, so it quotes nothing from the answer. */
export class UnacceptableAnswer extends Error {
  override readonly name = 'UnacceptableAnswer';
}

/** An answer has about thirty values. The audiences are echoed. */
const maxValues = 2_000;
/** Longer than any error of kube-apiserver that is no echo of a long list. */
const mostErrorCharacters = 4096;
/** Most audiences that an API server can add by itself. */
const mostAudiences = 64;

/**
 * `claimed` is what the token itself says, after its signature was verified. Its audiences are those of the claim
 * `aud`. Empty: a legacy token, for which the API server supplies its own. Throws UnacceptableAnswer.
 */
export function readUpstreamAnswer(
  body: Buffer,
  question: TokenQuestion,
  claimed: Acceptance,
): Verdict {
  const review = isProtobuf(body)
    ? parseProtobuf(body, question)
    : record(parse(body, question), 'the answer is not a JSON object');
  if (review['kind'] !== 'TokenReview' || review['apiVersion'] !== 'authentication.k8s.io/v1') {
    throw new UnacceptableAnswer('the answer is not a TokenReview of authentication.k8s.io/v1');
  }
  checkEcho(record(review['spec'], 'the answer has no spec'), question);
  const status = record(review['status'] ?? {}, 'its status is not an object');
  const { authenticated = false, error } = status;
  if (typeof authenticated !== 'boolean') {
    throw new UnacceptableAnswer('its status.authenticated is not a boolean');
  }
  if (error !== undefined && typeof error !== 'string') {
    throw new UnacceptableAnswer('its status.error is not a text');
  }
  if (!authenticated) {
    const text = readable(error ?? '', question.token);
    return text === '' ? { authenticated: false } : { authenticated: false, error: text };
  }
  if (error !== undefined && error !== '') {
    throw new UnacceptableAnswer('it accepts the token and reports an error');
  }
  const given = record(status['user'], 'it accepts the token for no user');
  return {
    authenticated: true,
    user: checkedUser(given, claimed.user),
    audiences: checkedAudiences(status['audiences'], question, claimed),
    expiresAtMs: claimed.expiresAtMs,
  };
}

/** No JSON begins with these bytes, so they tell more than the Content-Type of a hostile server. */
function isProtobuf(body: Buffer): boolean {
  return body.length > magic.length && body.compare(magic, 0, magic.length, 0, magic.length) === 0;
}

function parse(body: Buffer, question: TokenQuestion): unknown {
  try {
    return parseBoundedJson(body, mostValues(question));
  } catch {
    throw new UnacceptableAnswer('the answer is not JSON, or has too many values');
  }
}

/** Field numbers of k8s.io/api/authentication/v1. */
const answerShape: Shape = {
  2: ['spec', { 1: ['token', 'text'], 2: ['audiences', 'texts'] }],
  3: [
    'status',
    {
      1: ['authenticated', 'flag'],
      2: [
        'user',
        {
          1: ['username', 'text'],
          2: ['uid', 'text'],
          3: ['groups', 'texts'],
          4: ['extra', 'lists'],
        },
      ],
      3: ['error', 'text'],
      4: ['audiences', 'texts'],
    },
  ],
};

/** In the form of the JSON. */
function parseProtobuf(body: Buffer, question: TokenQuestion): Readonly<Record<string, unknown>> {
  try {
    const { apiVersion, kind, raw } = readEnvelope(body);
    const { spec, status } = readMessage(raw, answerShape, { left: mostValues(question) });
    return { apiVersion, kind, spec, status };
  } catch {
    throw new UnacceptableAnswer('the answer is not protobuf, or has too many values');
  }
}

function mostValues({ audiences }: TokenQuestion): number {
  return maxValues + 2 * audiences.length;
}

/** An answer to another question would be a mixed-up connection, or a replay. */
function checkEcho(spec: Readonly<Record<string, unknown>>, question: TokenQuestion): void {
  if (spec['token'] !== question.token) throw new UnacceptableAnswer('it echoes another token');
  const audiences = strings(spec['audiences'] ?? [], 'it echoes audiences that are no texts');
  if (!isSame(audiences, question.audiences)) {
    throw new UnacceptableAnswer('it echoes other audiences');
  }
}

/**
 * Username, uid and groups must be those of the claims. Older API servers report fewer `extra` fields, so
 * the answer decides which are reported, and the claims decide their values. Unknown fields are left out.
 */
function checkedUser(user: Readonly<Record<string, unknown>>, claimed: ReviewedUser): ReviewedUser {
  if (user['username'] !== claimed.username) {
    throw new UnacceptableAnswer('it names another user than the claims of the token');
  }
  if (user['uid'] !== claimed.uid) {
    throw new UnacceptableAnswer('it gives another uid than the claims of the token');
  }
  const groups = strings(user['groups'] ?? [], 'its groups are no texts');
  if (!isSame(groups.toSorted(), claimed.groups.toSorted())) {
    throw new UnacceptableAnswer('it gives other groups than the claims of the token');
  }
  const extra = checkedExtra(user['extra'] ?? {}, claimed.extra);
  return Object.keys(extra).length === Object.keys(claimed.extra).length
    ? claimed
    : { ...claimed, extra };
}

function checkedExtra(answered: unknown, claimed: ReviewedUser['extra']): ReviewedUser['extra'] {
  const extra = record(answered, 'its user.extra is not an object');
  const checked: Record<string, readonly string[]> = {};
  for (const [key, values] of Object.entries(claimed)) {
    if (!Object.hasOwn(extra, key)) continue;
    const given = strings(extra[key], 'its user.extra has values that are no lists');
    if (!isSame(given, values)) {
      throw new UnacceptableAnswer('its user.extra contradicts the claims of the token');
    }
    checked[key] = values;
  }
  return checked;
}

function checkedAudiences(
  answered: unknown,
  { audiences: asked }: TokenQuestion,
  { audiences: tokenAudiences }: Acceptance,
): readonly string[] {
  const audiences = strings(answered ?? [], 'its status.audiences are no texts');
  if (asked.length > 0 && audiences.length === 0) {
    throw new UnacceptableAnswer('it accepts the token for none of the audiences');
  }
  if (asked.length === 0 && audiences.length > mostAudiences) {
    throw new UnacceptableAnswer(`it lists more than ${mostAudiences} audiences`);
  }
  for (const allowed of [asked, tokenAudiences]) {
    const known = new Set(allowed);
    if (known.size > 0 && !audiences.every((audience) => known.has(audience))) {
      throw new UnacceptableAnswer('it lists an audience that was not asked for or not claimed');
    }
  }
  return audiences;
}

/** The error as the API server wrote it, within bounds, without control characters and without the token. */
function readable(error: string, token: string): string {
  const text = error
    .toWellFormed()
    // oxlint-disable-next-line no-control-regex -- they are removed
    .replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '')
    .replaceAll(token.trim(), '[token]');
  // The question may have white space inside the token.
  return hideTokens(text).slice(0, mostErrorCharacters);
}

function record(value: unknown, problem: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw new UnacceptableAnswer(problem);
}

function strings(value: unknown, problem: string): readonly string[] {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value;
  throw new UnacceptableAnswer(problem);
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, at) => text === other[at]);
}

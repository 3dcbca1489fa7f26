// Errors of an ACME server (RFC 8555 §6.7, RFC 9457), as printable messages.

import { escaped } from '../../../core/errors/remote-words.ts';
import type { TransportResponse } from '../../../core/identity/tls/transport.ts';

/** Its message is for people: what the server said, as far as that can be printed. */
export class AcmeProblem extends Error {
  override readonly name = 'AcmeProblem';
  /** Without `urn:ietf:params:acme:error:`; `malformed` also for what we could not read. */
  readonly type: string;
  /** How long the server wants to be left alone. */
  readonly retryAfterMs: number | undefined;

  constructor(type: string, message: string, retryAfterMs?: number) {
    super(message);
    this.type = type;
    this.retryAfterMs = retryAfterMs;
  }
}

const namespace = 'urn:ietf:params:acme:error:';
const maxShown = 400;
const maxSubproblems = 5;
const dayMs = 24 * 3600 * 1000;

/** RFC 9110 §10.2.3: seconds or a date; never more than a day, whatever the server says. */
export function parseRetryAfter(text: string | undefined, nowMs: number): number | undefined {
  if (text === undefined || text.length > 64) return undefined;
  const afterMs = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(afterMs) ? undefined : Math.min(Math.max(afterMs, 0), dayMs);
}

/** Of an answer that is no success. */
export function problemOf(answer: TransportResponse, nowMs: number): AcmeProblem {
  const retryAfterMs = parseRetryAfter(answer.headers['retry-after'], nowMs);
  const { type, words } = describe(parse(answer.body));
  return new AcmeProblem(type, `${words} (HTTP ${answer.status})`, retryAfterMs);
}

/** Of the `error` of a challenge or an order. */
export function problemIn(error: unknown): AcmeProblem {
  const { type, words } = describe(error);
  return new AcmeProblem(type, words);
}

/** RFC 8555 §6.7.1 knows one level of subproblems; what a server nests below that is not looked at. */
function describe(
  problem: unknown,
  withSubproblems = true,
): { readonly type: string; readonly words: string } {
  if (!isObject(problem)) return { type: 'malformed', words: 'the server gave no reason' };
  const { type, detail, subproblems } = problem;
  const short =
    typeof type === 'string' && /^urn:ietf:params:acme:error:[A-Za-z]{1,64}$/.test(type)
      ? type.slice(namespace.length)
      : 'unknown';
  const told =
    typeof detail === 'string' && detail !== '' ? escaped(detail, maxShown) : 'no detail given';
  const below =
    withSubproblems && Array.isArray(subproblems)
      ? subproblems.slice(0, maxSubproblems).map((each) => describe(each, false).words)
      : [];
  return { type: short, words: [`${short}: ${told}`, ...below].join('; ').slice(0, 4 * maxShown) };
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

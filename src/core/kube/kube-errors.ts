// The errors of the Kubernetes client: an API server that cannot be reached, and one that answers
// with a failure. Texts of a server are bounded and printable before they become part of a message.

import { HansaError } from '../errors/error.ts';
import { inWords } from '../identity/tls/connect-failure.ts';
import { isLate } from '../identity/tls/dial.ts';
import { isRecord } from '../json/is-record.ts';
import { parseBoundedJson } from '../json/strict-json.ts';
import { hideTokens } from './hide-tokens.ts';
import type { KubeResponse } from './kube-client.ts';

/**
 * Why an API server cannot be reached. `protocol`: it does not speak HTTP, redirects, or sends too many
 * headers. `proxy`: the proxy cannot be reached or refuses. `tls`: no handshake, for other reasons than
 * its certificate.
 */
export type UnreachableReason =
  | 'dns'
  | 'refused'
  | 'route'
  | 'timeout'
  | 'reset'
  | 'tls'
  | 'proxy'
  | 'protocol';

const reasons: ReadonlyMap<string, UnreachableReason> = new Map(
  Object.entries<UnreachableReason>({
    ENOTFOUND: 'dns',
    EAI_AGAIN: 'dns',
    ECONNREFUSED: 'refused',
    EHOSTUNREACH: 'route',
    ENETUNREACH: 'route',
    ETIMEDOUT: 'timeout',
    ECONNRESET: 'reset',
    EPIPE: 'reset',
    EPROTO: 'tls',
  }),
);

/** `where` is the host and port of the server; `why` is half a sentence. */
export function unreachable(
  where: string,
  reason: UnreachableReason,
  why: string,
  cause?: unknown,
): HansaError {
  return new HansaError('HANSA_UNREACHABLE', `Cannot reach the API server ${where}: ${why}.`, {
    cause,
    details: { causes: [{ reason, message: why }] },
  });
}

/** Describes an error of a socket or of the TLS handshake. */
export function unreachableBy(where: string, cause: NodeJS.ErrnoException): HansaError {
  if (isLate(cause)) return unreachable(where, 'timeout', cause.message, cause);
  const code = cause.code ?? '';
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') {
    return unreachable(where, 'tls', `the TLS handshake failed (${code})`, cause);
  }
  const reason = reasons.get(code) ?? 'reset';
  return unreachable(where, reason, code === 'EPIPE' ? 'connection reset' : inWords(cause), cause);
}

/** Undefined for other errors than HANSA_UNREACHABLE of this client. */
export function unreachableReason(caught: unknown): UnreachableReason | undefined {
  if (!(caught instanceof HansaError) || caught.code !== 'HANSA_UNREACHABLE') return undefined;
  return caught.details?.causes?.[0]?.reason as UnreachableReason | undefined;
}

/** Longest message of a server that is shown. */
const maxMessageLength = 1024;
const maxReasonLength = 64;
const maxCauses = 16;
/** A server that asks for more has a wrong idea of its load. */
const maxRetryAfterSeconds = 3600;

/** An API server answered with another status than 2xx. */
export class KubeStatusError extends HansaError {
  /** The HTTP status. */
  readonly status: number;
  /** As in Kubernetes: NotFound, AlreadyExists, Conflict, Forbidden, …; empty where the server gave none. */
  readonly reason: string;
  /** In the server's words, bounded and printable. Empty where it gave none. */
  readonly serverMessage: string;
  /** At most an hour. */
  readonly retryAfterSeconds: number | undefined;
  /** The reasons of the causes, such as ResourceVersionTooLarge. The first few. */
  readonly causes: readonly string[];

  /** `what` is half a sentence: "get /api/v1/…". */
  constructor(
    where: string,
    what: string,
    response: Pick<KubeResponse, 'status' | 'headers' | 'body'>,
  ) {
    const status = statusOf(response.body);
    const words = status.message === '' ? 'no explanation' : status.message;
    const retryAfterSeconds = retryAfter(response) ?? status.retryAfterSeconds;
    super(
      'HANSA_UNAVAILABLE',
      `Cannot ${what}: the API server ${where} answered ${response.status}${status.reason && ` ${status.reason}`}: ${words}`,
      { details: { ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) } },
    );
    this.status = response.status;
    this.reason = status.reason;
    this.serverMessage = status.message;
    this.retryAfterSeconds = retryAfterSeconds;
    this.causes = status.causes;
  }
}

/** The header Retry-After in whole seconds, at most an hour. Dates are ignored: Kubernetes sends none. */
export function retryAfter({ headers }: Pick<KubeResponse, 'headers'>): number | undefined {
  const text = headers['retry-after'];
  return text !== undefined && /^\d{1,9}$/.test(text)
    ? Math.min(Number(text), maxRetryAfterSeconds)
    : undefined;
}

interface ServerStatus {
  readonly reason: string;
  readonly message: string;
  readonly retryAfterSeconds: number | undefined;
  readonly causes: readonly string[];
}

/** A kind Status, or whatever text a proxy sent instead. */
function statusOf(body: Buffer): ServerStatus {
  let value: unknown;
  try {
    value = parseBoundedJson(body);
  } catch {
    const message = printableText(body.toString('utf8', 0, maxMessageLength), maxMessageLength);
    return { reason: '', message, retryAfterSeconds: undefined, causes: [] };
  }
  if (!isRecord(value) || value['kind'] !== 'Status') {
    return { reason: '', message: '', retryAfterSeconds: undefined, causes: [] };
  }
  const { reason, message, details } = value;
  const seconds = isRecord(details) ? details['retryAfterSeconds'] : undefined;
  return {
    reason: typeof reason === 'string' ? printableText(reason, maxReasonLength) : '',
    message: typeof message === 'string' ? printableText(message, maxMessageLength) : '',
    retryAfterSeconds:
      Number.isInteger(seconds) && (seconds as number) > 0
        ? Math.min(seconds as number, maxRetryAfterSeconds)
        : undefined,
    causes: isRecord(details) ? causesOf(details['causes']) : [],
  };
}

function causesOf(causes: unknown): readonly string[] {
  if (!Array.isArray(causes)) return [];
  return causes.slice(0, maxCauses).flatMap((cause: unknown) => {
    const reason = isRecord(cause) ? cause['reason'] : undefined;
    return typeof reason === 'string' ? [printableText(reason, maxReasonLength)] : [];
  });
}

/** One line without tokens and control characters, of at most `maxLength` characters. */
export function printableText(text: string, maxLength: number): string {
  const clean = hideTokens(
    text.slice(0, maxLength).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' '),
  ).trim();
  return text.length > maxLength ? `${clean}…` : clean;
}

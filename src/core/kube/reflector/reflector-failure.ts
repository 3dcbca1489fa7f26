// Why a list or a watch ended. The reason decides what the reflector does next.

import { HansaError } from '../../errors/error.ts';
import { KubeStatusError } from '../kube-errors.ts';
import { LineTooLongError } from './json-lines.ts';
import { MalformedError } from './watch-event.ts';

/**
 * - `ended`: the server ended the watch, as it does after `timeoutSeconds`.
 * - `silent`: neither an event nor a bookmark came in time.
 * - `expired`: the server no longer has the history since our version (410).
 * - `behind`: the server has not seen our version: it is a replica that is behind, or etcd was restored.
 * - `backwards`: an event has an older version than the one before it.
 * - `unsupported`: the server refuses the parameters (400, 415, 422).
 * - `too-large`: a page or an event has too many bytes. `over-limit`: all objects together have, or one of them.
 * - `slow`: a list does not end.
 * - `internal`: a transform or an index of the site failed.
 */
export type FailureReason =
  | 'ended'
  | 'silent'
  | 'unreachable'
  | 'certificate'
  | 'credential'
  | 'unauthorized'
  | 'forbidden'
  | 'not-found'
  | 'throttled'
  | 'server'
  | 'expired'
  | 'behind'
  | 'backwards'
  | 'unsupported'
  | 'malformed'
  | 'too-large'
  | 'over-limit'
  | 'slow'
  | 'internal';

export class ReflectorError extends Error {
  override readonly name = 'ReflectorError';
  readonly reason: FailureReason;

  constructor(reason: FailureReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

export interface Failure {
  readonly reason: FailureReason;
  readonly message: string;
  /** How long the server asked to wait. */
  readonly retryAfterMs: number;
}

export function failureOf(error: unknown): Failure {
  const message = error instanceof Error ? error.message : String(error);
  const seconds = error instanceof KubeStatusError ? error.retryAfterSeconds : undefined;
  return { reason: reasonOf(error), message, retryAfterMs: (seconds ?? 0) * 1000 };
}

const statuses: ReadonlyMap<number, FailureReason> = new Map([
  [400, 'unsupported'],
  [401, 'unauthorized'],
  [403, 'forbidden'],
  [404, 'not-found'],
  [410, 'expired'],
  [415, 'unsupported'],
  [422, 'unsupported'],
  [429, 'throttled'],
]);

const codes: ReadonlyMap<string, FailureReason> = new Map([
  ['HANSA_UNREACHABLE', 'unreachable'],
  ['HANSA_CERTIFICATE_INVALID', 'certificate'],
  ['HANSA_TOO_LARGE', 'too-large'],
  ['HANSA_UNAVAILABLE', 'credential'],
]);

function reasonOf(error: unknown): FailureReason {
  if (error instanceof ReflectorError) return error.reason;
  if (error instanceof KubeStatusError) {
    // Servers before 1.19 say it in the message only.
    const isBehind =
      error.causes.includes('ResourceVersionTooLarge') ||
      error.serverMessage.includes('Too large resource version');
    return isBehind ? 'behind' : (statuses.get(error.status) ?? 'server');
  }
  if (error instanceof MalformedError) return 'malformed';
  if (error instanceof LineTooLongError) return 'too-large';
  if (error instanceof HansaError) return codes.get(error.code) ?? 'internal';
  return 'internal';
}

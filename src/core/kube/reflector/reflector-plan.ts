// Decides what a reflector does next: list, check, watch, and after which delay. It does no I/O and
// reads no clock.

import { ReflectorError, type FailureReason } from './reflector-failure.ts';
import { compareVersions } from './resource-version.ts';

/**
 * - `list`: read all pages. `watch-list`: a watch that begins with all objects.
 *   Both: `notOlderThan` the last seen version, or a consistent read where that is undefined.
 * - `check`: ask whether the server knows `version`.
 * - `watch`: all changes after `version`.
 */
export type Step =
  | {
      readonly type: 'list';
      readonly notOlderThan: string | undefined;
      readonly pageSize: number;
    }
  | { readonly type: 'watch-list'; readonly notOlderThan: string | undefined }
  | { readonly type: 'check'; readonly version: string }
  | { readonly type: 'watch'; readonly version: string };

/** How a step ended. */
export interface StepEnd {
  readonly reason: FailureReason;
  /** How long a watch was open while the cache held the whole collection; 0 for all other steps. */
  readonly followedMs: number;
  readonly retryAfterMs: number;
  /** Uniform in [0, 1), for the jitter. */
  readonly unit: number;
}

export const firstDelayMs = 200;
export const longestDelayMs = 30_000;
/** Another attempt to read too many objects is as expensive as the first. */
const overLimitDelayMs = 5 * 60_000;
/** A watch that was followed for this long was no failure, however it ended. */
const steadyMs = 10_000;
/** A watch that brought news and broke is resumed after at most 1.6 s, which is the delay after this many failures. */
const mostFailuresWithNews = 4;
/** Objects in a page, as in client-go. */
const firstPageSize = 500;
const largestPageSize = 8000;

/** These say nothing against a retry of the same step. */
const temporary: ReadonlySet<FailureReason> = new Set<FailureReason>([
  'ended',
  'silent',
  'unreachable',
  'certificate',
  'credential',
  'unauthorized',
  'throttled',
  'server',
]);
/** The server, or etcd below it, does not support initial events, or ignores that we ask for them. */
const noInitialEvents: ReadonlySet<FailureReason> = new Set<FailureReason>([
  'unsupported',
  'server',
  'silent',
]);

export class ReflectorPlan {
  #next: 'list' | 'check' | 'watch' = 'list';
  #version = '';
  #needsConsistentRead = false;
  #usesInitialEvents: boolean;
  #pageSize = firstPageSize;
  #failures = 0;
  /** Complete lists since the last steady watch. Each costs the server and this site more than a watch. */
  #lists = 0;
  #step: Step | undefined;
  /** Whether the current step brought a newer version after the list. */
  #hasNews = false;
  /** Whether the current list or watch-list is complete. */
  #isListed = false;

  constructor(usesInitialEvents: boolean) {
    this.#usesInitialEvents = usesInitialEvents;
  }

  /** The last version seen; empty before the first list. */
  get version(): string {
    return this.#version;
  }

  /** Failed steps since the last steady watch. Those with news count less. */
  get failures(): number {
    return this.#failures;
  }

  begin(): Step {
    this.#isListed = false;
    this.#hasNews = false;
    this.#step = this.#planned();
    return this.#step;
  }

  /**
   * Whether a list of this version restarts the history of the cluster: etcd was restored from a backup, so a
   * consistent read has an older version than the last one seen. Throws for a list that is older than we
   * asked for: it would bring back deleted objects.
   */
  isRestart(version: string): boolean {
    const asked = this.#step;
    const minimum =
      asked?.type === 'list' || asked?.type === 'watch-list' ? asked.notOlderThan : undefined;
    if (minimum !== undefined && compareVersions(version, minimum) < 0) {
      const why = `the list has version ${version}, not ${minimum} or later`;
      throw new ReflectorError('behind', why);
    }
    return this.#version !== '' && compareVersions(version, this.#version) < 0;
  }

  /** The cache holds all objects of this version. */
  listed(version: string): void {
    this.#version = version;
    this.#lists++;
    this.#isListed = true;
    this.#needsConsistentRead = false;
    this.#next = 'watch';
  }

  /** The server has this version now. Throws where that is older than the one we asked for. */
  checked(version: string): void {
    if (compareVersions(version, this.#version) < 0) {
      throw new ReflectorError('behind', `the server has version ${version}, not ${this.#version}`);
    }
    this.#next = 'watch';
  }

  /**
   * An event or a bookmark of a watch has this version. Throws for an older one than before: events of one
   * watch are in order, so the server lost its history or repeats itself.
   */
  received(version: string): void {
    const order = compareVersions(version, this.#version);
    if (order < 0) {
      const why = `an event has version ${version} after ${this.#version}`;
      throw new ReflectorError('backwards', why);
    }
    if (order === 0) return;
    this.#version = version;
    this.#hasNews = true;
  }

  /**
   * A step failed or a watch ended. Returns the delay before the next step. Only a steady watch resets it: a
   * server that lists, sends one event and breaks the watch, again and again, must not be asked without a pause.
   */
  ended({ reason, followedMs, retryAfterMs, unit }: StepEnd): number {
    const step = this.#step;
    const isFirst = step?.type === 'list' || step?.type === 'watch-list';
    if (isFirst && !this.#isListed) this.#notListed(step, reason);
    else this.#next = temporary.has(reason) ? 'check' : 'list';
    if (reason === 'behind') this.#needsConsistentRead = true;
    const isSteady = followedMs >= steadyMs;
    if (isSteady) {
      this.#failures = 0;
      this.#lists = 0;
    }
    if (isSteady && (reason === 'ended' || reason === 'silent')) return 0;
    this.#failures++;
    if (this.#hasNews && this.#next === 'check') {
      this.#failures = Math.min(this.#failures, mostFailuresWithNews);
    }
    const count = this.#next === 'list' ? Math.max(this.#failures, this.#lists) : this.#failures;
    const longest =
      reason === 'over-limit'
        ? overLimitDelayMs
        : Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(count - 1, 20));
    // From half of it to the whole, so that reflectors that failed together do not retry together.
    return Math.max(longest * (0.5 + unit / 2), retryAfterMs * (1 + unit / 10));
  }

  #planned(): Step {
    const version = this.#version;
    if (this.#next !== 'list') return { type: this.#next, version };
    const notOlderThan = version === '' || this.#needsConsistentRead ? undefined : version;
    return this.#usesInitialEvents
      ? { type: 'watch-list', notOlderThan }
      : { type: 'list', notOlderThan, pageSize: this.#pageSize };
  }

  #notListed(step: Step, reason: FailureReason): void {
    this.#next = 'list';
    if (step.type === 'watch-list') {
      if (noInitialEvents.has(reason)) this.#usesInitialEvents = false;
      if (reason === 'expired') this.#needsConsistentRead = true;
      return;
    }
    // Larger pages need fewer requests before the server forgets the first one.
    if (reason === 'expired') this.#pageSize = Math.min(this.#pageSize * 2, largestPageSize);
    if (reason === 'too-large') this.#pageSize = Math.max(1, Math.floor(this.#pageSize / 4));
    if (reason === 'expired' || reason === 'unsupported') this.#needsConsistentRead = true;
  }
}

// Asks the API server of a cluster about a token: one request in flight for each question, a limit and a gate
// for each cluster, and no answer that contradicts the verified claims.

import { clusterKind } from '../../api/kinds/cluster.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { KubeRequest, KubeResponse } from '../../core/kube/kube-client.ts';
import { ConcurrencyLimiter } from '../../core/limits/concurrency-limiter.ts';
import type { Log } from '../../core/log/log.ts';
import type { ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import { tokenHash } from '../review/token-hash.ts';
import type { Acceptance, TokenQuestion, Verdict } from '../review/verdict.ts';
import type { ReviewMetrics } from './review-metrics.ts';
import { encodeQuestion, type QuestionEncoding } from './encode-question.ts';
import { recordRefusal } from '../peers/peer-refusal.ts';
import { UncheckedError } from './unchecked-error.ts';
import { readUpstreamAnswer, UnacceptableAnswer } from './upstream-answer.ts';
import {
  busy,
  failureOf,
  failureOfStatus,
  noAPIServer,
  unreachable,
  upstreamOf,
} from './upstream-failure.ts';
import { type Pass, UpstreamGate } from './upstream-gate.ts';

const path = '/apis/authentication.k8s.io/v1/tokenreviews';

/** For one question: waiting for its turn, and the request. API servers answer in milliseconds. */
const patienceMs = 5_000;
/** Above the 50 connections of a busy client, below what a small API server serves at once (400). */
const atOnce = 64;
/** A quarter of the calls that planes may have with one peer, so that its other clusters are not blocked. */
const atOnceOfPeer = 16;
/** Beyond it the API server is too slow for the callers, and they get HTTP 503 at once. */
const mostWaiting = 1_024;
/** The answer echoes the question and adds the user. */
const answerBytes = 64 * 1024;
/** Shortest time between two log lines about unacceptable answers of one cluster. */
const logEveryMs = 60_000;

/** The answer of the API server, and when the request for it was sent (monotonic). */
export interface Check {
  readonly verdict: Verdict;
  readonly beganAt: number;
}

class Flight {
  /** Undefined while it waits for its turn. */
  beganAt: number | undefined;
  /** The check that follows, for questions that came too late for this one. */
  next: Promise<Check> | undefined;
  readonly check: Promise<Check>;

  constructor(begin: (flight: Flight) => Promise<Check>) {
    this.check = begin(this);
  }
}

/** What this process keeps for one version of one cluster. */
interface Lane {
  readonly generation: number;
  readonly gate: UpstreamGate;
  readonly limiter: ConcurrencyLimiter;
  readonly flights: Map<string, Flight>;
  encoding: QuestionEncoding;
  loggedAt: number;
}

export interface ForwarderParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly audit: Pick<Audit, 'deny'>;
  readonly metrics: ReviewMetrics;
}

export class Forwarder {
  readonly #parts: ForwarderParts;
  readonly #lanes = new Map<string, Lane>();

  constructor(parts: ForwarderParts) {
    this.#parts = parts;
  }

  /**
   * Asks, or joins the request for the same question (`key`). It joins only a request that began at most
   * `joinableMs` ago, so that an answer is never older than the caller allows. Rejects with UncheckedError.
   */
  ask(
    cluster: ReviewedCluster,
    key: string,
    question: TokenQuestion,
    claimed: Acceptance,
    joinableMs: number,
  ): Promise<Check> {
    const lane = this.#laneOf(cluster);
    const flight = lane.flights.get(key);
    if (flight === undefined) return this.#begin(lane, cluster, key, question, claimed);
    const { beganAt } = flight;
    if (beganAt === undefined || this.#parts.clock.monotonic() <= beganAt + joinableMs) {
      return flight.check;
    }
    const again = (): Promise<Check> => this.ask(cluster, key, question, claimed, joinableMs);
    flight.next ??= flight.check.then(again, again);
    return flight.next;
  }

  /** Forgets clusters that are not in the list. */
  retain(clusters: readonly Pick<ReviewedCluster, 'uid'>[]): void {
    const uids = new Set(clusters.map(({ uid }) => uid));
    for (const uid of this.#lanes.keys()) if (!uids.has(uid)) this.#lanes.delete(uid);
  }

  /** A changed Cluster may have another API server or credential, so it starts afresh. */
  #laneOf(cluster: ReviewedCluster): Lane {
    const { uid, generation, peer } = cluster;
    const current = this.#lanes.get(uid);
    if (current !== undefined && current.generation >= generation) return current;
    const { clock } = this.#parts;
    const created: Lane = {
      generation,
      gate: new UpstreamGate(clock, cluster),
      limiter: new ConcurrencyLimiter({
        clock,
        atOnce: peer === undefined ? atOnce : atOnceOfPeer,
        patienceMs,
        mostWaiting,
      }),
      flights: new Map(),
      encoding: peer === undefined ? 'protobuf' : 'json',
      loggedAt: Number.NEGATIVE_INFINITY,
    };
    this.#lanes.set(uid, created);
    return created;
  }

  #begin(
    lane: Lane,
    cluster: ReviewedCluster,
    key: string,
    question: TokenQuestion,
    claimed: Acceptance,
  ): Promise<Check> {
    const problem = lane.gate.problem() ?? (lane.limiter.isFull ? busy(cluster) : undefined);
    if (problem !== undefined) return Promise.reject(problem);
    const givesUpAt = this.#parts.clock.monotonic() + patienceMs;
    const flight = new Flight((started) =>
      lane.limiter
        .run(async () => {
          const beganAt = this.#parts.clock.monotonic();
          if (beganAt >= givesUpAt) throw busy(cluster);
          started.beganAt = beganAt;
          const verdict = await this.#send(lane, cluster, question, claimed, givesUpAt - beganAt);
          return { verdict, beganAt };
        })
        .finally(() => lane.flights.delete(key)),
    );
    lane.flights.set(key, flight);
    return flight.check;
  }

  async #send(
    lane: Lane,
    cluster: ReviewedCluster,
    question: TokenQuestion,
    claimed: Acceptance,
    timeoutMs: number,
  ): Promise<Verdict> {
    const { clock, metrics } = this.#parts;
    const { name, upstream = cluster.client } = cluster;
    // Admission requires `apiServer` for these modes.
    if (upstream === undefined) throw noAPIServer(cluster);
    const pass = lane.gate.enter();
    const beganAt = clock.monotonic();
    const forwarded = metrics.forwarding(name);
    const { encoding } = lane;
    let response: KubeResponse;
    try {
      response = await upstream.request(requestOf(question, encoding, timeoutMs));
      if (response.status === 415 && encoding === 'protobuf') {
        // Every kube-apiserver reads protobuf, but a program that imitates one may not.
        lane.encoding = 'json';
        const leftMs = Math.max(1, timeoutMs - (clock.monotonic() - beganAt));
        response = await upstream.request(requestOf(question, 'json', leftMs));
      }
    } catch (caught) {
      if (caught instanceof UnacceptableAnswer) {
        this.#reached(lane, cluster, pass);
        throw this.#refuse(lane, cluster, question, caught);
      }
      if (!hasCode(caught, 'HANSA_TOO_LARGE')) {
        throw this.#failed(lane, cluster, pass, failureOf(cluster, caught));
      }
      this.#reached(lane, cluster, pass);
      const problem = new UnacceptableAnswer('the answer is too large');
      throw this.#refuse(lane, cluster, question, problem);
    } finally {
      forwarded(clock.monotonic() - beganAt);
    }
    return this.#read(lane, cluster, pass, response, question, claimed);
  }

  #read(
    lane: Lane,
    cluster: ReviewedCluster,
    pass: Pass,
    { status, headers, body }: KubeResponse,
    question: TokenQuestion,
    claimed: Acceptance,
  ): Verdict {
    if (status === 429) throw lane.gate.throttled(pass, headers['retry-after']);
    const failure = failureOfStatus(cluster, status);
    if (failure !== undefined) throw this.#failed(lane, cluster, pass, failure);
    this.#reached(lane, cluster, pass);
    // Not counted by the gate: one odd token may cause it, and must not stop the others.
    if (status === 500) {
      throw unreachable(cluster, `${upstreamOf(cluster)} answered HTTP 500.`);
    }
    try {
      if (status !== 200 && status !== 201) {
        throw new UnacceptableAnswer(`it answered HTTP ${status}`);
      }
      return readUpstreamAnswer(body, question, claimed);
    } catch (caught) {
      if (!(caught instanceof UnacceptableAnswer)) throw caught;
      throw this.#refuse(lane, cluster, question, caught);
    }
  }

  #reached(lane: Lane, { name }: ReviewedCluster, pass: Pass): void {
    if (lane.gate.isClosed)
      this.#parts.log.info('an API server or peer answers again', { cluster: name });
    lane.gate.reached(pass);
  }

  #failed(
    lane: Lane,
    { name }: ReviewedCluster,
    pass: Pass,
    failure: UncheckedError,
  ): UncheckedError {
    const wasClosed = lane.gate.isClosed;
    lane.gate.failed(pass, failure);
    if (lane.gate.isClosed && !wasClosed) {
      this.#parts.log.warn('cannot ask an API server or peer about tokens', {
        cluster: name,
        error: failure,
      });
    }
    return failure;
  }

  /** Records an answer that this site does not accept, as it may be an attack. */
  #refuse(
    lane: Lane,
    cluster: ReviewedCluster,
    { token }: TokenQuestion,
    problem: UnacceptableAnswer,
  ): UncheckedError {
    const { name, uid, peer } = cluster;
    const { clock, log, audit } = this.#parts;
    const failure = new UncheckedError(
      'answer',
      name,
      `this site does not accept the answer of ${upstreamOf(cluster)}: ${problem.message}. ${
        peer === undefined
          ? 'Check spec.apiServer of the Cluster, and whether its API server can be trusted.'
          : `Ask the operator of ${peer.trustDomain} why.`
      }`,
    );
    if (clock.monotonic() >= lane.loggedAt + logEveryMs) {
      lane.loggedAt = clock.monotonic();
      log.warn('the answer of an API server or peer about a token is not accepted', {
        cluster: name,
        hash: tokenHash(token),
        problem: problem.message,
      });
    }
    if (peer !== undefined) {
      recordRefusal(audit, cluster, problem.message, tokenHash(token));
      return failure;
    }
    audit.deny({
      actor: { user: `api-server:${name}`, groups: [], via: 'tokenreview' },
      verb: `${clusterKind.auditName}.refuse`,
      kind: clusterKind.kind,
      name,
      uid,
      outcome: 'deny',
      code: failure.code,
      reason: problem.message,
      tokenHash: tokenHash(token),
    });
    return failure;
  }
}

function requestOf(
  question: TokenQuestion,
  encoding: QuestionEncoding,
  timeoutMs: number,
): KubeRequest {
  return {
    method: 'POST',
    path,
    ...encodeQuestion(question, encoding),
    // A TokenReview stores nothing.
    resendable: true,
    isQuoted: true,
    timeoutMs,
    maxBytes: answerBytes + 8 * lengthOf(question),
  };
}

function lengthOf({ token, audiences }: TokenQuestion): number {
  let length = token.length;
  for (const audience of audiences) length += audience.length + 1;
  return length;
}

// The reviewer: verifies a token with the keys of its cluster, then its claims, and in modes hybrid and
// tokenreview asks the API server whether it was revoked. Answers at once where nothing must be fetched.

import type { Clock } from '../../core/clock/clock.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ClusterKeys, KeySet } from '../keys/cluster-keys.ts';
import { mayForward } from '../keys/prove-keys.ts';
import { checkAudiences, withPeerPrefix } from '../peers/peer-users.ts';
import { noKeysFound } from '../review/denial.ts';
import { judgeByKeys, judgeClaims } from '../review/judge-claims.ts';
import { readToken } from '../review/read-token.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { Acceptance, TokenQuestion, Verdict } from '../review/verdict.ts';
import { Forwarder, type ForwarderParts } from './forwarder.ts';
import { type ClusterCounts, ReviewMetrics } from './review-metrics.ts';
import { UncheckedError, type UncheckedReason } from './unchecked-error.ts';
import type { ClaimedIdentity } from './upstream-answer.ts';
import { questionKey, VerdictCache } from './verdict-cache.ts';

/**
 * A token with an unknown `kid` is denied only by keys that are at most this old. Older keys could lack the
 * key of a valid token. Longer than the pauses between refreshes.
 */
const keysKnowAllForMs = 30_000;

/** What `allowUntilLag` is for. Not an API server that refuses this site, or whose answer is not accepted. */
const outages: ReadonlySet<UncheckedReason> = new Set(['unreachable', 'throttled', 'busy']);

export interface ReviewerParts extends Omit<ForwarderParts, 'metrics'> {
  readonly clock: Clock;
  readonly metrics: ConstructorParameters<typeof ReviewMetrics>[0];
  readonly directory: Pick<ClusterDirectory, 'find' | 'list' | 'onChange'>;
  readonly keys: ClusterKeys;
  readonly cacheBytes: number;
}

/** One question about one version of a cluster. */
interface Asked {
  readonly cluster: ReviewedCluster;
  readonly question: TokenQuestion;
  readonly key: string;
  readonly counts: ClusterCounts;
}

/** Why the keys of a cluster do not decide about a token. */
type Undecided = 'unknownKey' | 'unprovenKey';

/** The cache and all limits belong to this process. */
export class ClusterTokenReviewer implements TokenReviewer {
  readonly #clock: Clock;
  readonly #directory: ReviewerParts['directory'];
  readonly #keys: ClusterKeys;
  readonly #cache: VerdictCache;
  readonly #metrics: ReviewMetrics;
  readonly #forwarder: Forwarder;
  readonly #unsubscribe: () => void;

  constructor(parts: ReviewerParts) {
    const { clock, directory } = parts;
    this.#clock = clock;
    this.#directory = directory;
    this.#keys = parts.keys;
    this.#cache = new VerdictCache({ clock, maxBytes: parts.cacheBytes });
    this.#metrics = new ReviewMetrics(parts.metrics, this.#cache);
    this.#forwarder = new Forwarder({ ...parts, metrics: this.#metrics });
    const followClusters = (): void => {
      const clusters = directory.list();
      for (const part of [this.#cache, this.#metrics, this.#forwarder]) part.retain(clusters);
    };
    followClusters();
    this.#unsubscribe = directory.onChange(followClusters);
  }

  stop(): void {
    this.#unsubscribe();
  }

  review(cluster: ReviewedCluster, question: TokenQuestion): Verdict | Promise<Verdict> {
    const { peer } = cluster;
    if (peer === undefined) return this.#review(cluster, question);
    checkAudiences(cluster.name, question);
    const verdict = this.#review(cluster, question);
    return verdict instanceof Promise
      ? verdict.then((settled) => withPeerPrefix(peer, settled))
      : withPeerPrefix(peer, verdict);
  }

  #review(cluster: ReviewedCluster, question: TokenQuestion): Verdict | Promise<Verdict> {
    const counts = this.#metrics.of(cluster.name);
    const key = questionKey(question.token, question.audiences);
    const keys = this.#keys.current(cluster);
    const asked = { cluster, question, key, counts };
    const known = keys === undefined ? 'unknownKey' : this.#answer(asked, keys);
    const answer = typeof known === 'string' ? this.#answerWithNewKeys(asked, known) : known;
    if (answer instanceof Promise) return counted(answer, counts);
    counts.decided(answer);
    return answer;
  }

  /** Undecided where newer keys may decide. */
  #answer(asked: Asked, keys: KeySet): Verdict | Promise<Verdict> | Undecided {
    const { cluster, question, key, counts } = asked;
    const { mode } = cluster;
    const known = this.#cache.find(cluster, keys.version, key);
    const acceptance = mode === 'tokenreview' ? undefined : known?.acceptance;
    if (acceptance !== undefined) {
      counts.hits++;
      return inOrderOf(question, acceptance);
    }
    if (mode !== 'tokenreview') counts.misses++;
    if (known !== undefined) return this.#forward(asked, keys, known.claimed);
    const reading = readToken(question.token, keys, cluster.issuer);
    if (reading.type === 'unknownKey') return reading.type;
    if (reading.type === 'denied') return reading.verdict;
    const judge = mode === 'jwks' ? judgeByKeys : judgeClaims;
    const verdict = judge(reading.token, cluster, question.audiences, this.#clock.now());
    if (!verdict.authenticated) return verdict;
    const claimed = { acceptance: verdict, tokenAudiences: reading.token.audiences };
    if (mode !== 'jwks') {
      // The API server would see the token.
      if (!mayForward(cluster, reading.key)) return 'unprovenKey';
      this.#cache.add(cluster, keys.version, key, claimed);
      return this.#forward(asked, keys, claimed);
    }
    this.#cache.add(cluster, keys.version, key, claimed, verdict);
    return verdict;
  }

  /** One request for all who wait; the key cache limits how often. */
  async #answerWithNewKeys(asked: Asked, before: Undecided): Promise<Verdict> {
    const { cluster } = asked;
    let keys: KeySet;
    try {
      keys = await this.#keys.refresh(cluster);
    } catch (cause) {
      const why = this.#keys.current(cluster) === undefined ? withoutKeys : without[before];
      throw noKeys(cluster, why, cause);
    }
    this.#checkUnchanged(cluster);
    const answer = this.#answer(asked, keys);
    if (typeof answer !== 'string') return answer;
    const knowAll = keys.fetchedAtMs >= this.#clock.now() - keysKnowAllForMs;
    if (answer === 'unknownKey' && knowAll) return noKeysFound;
    throw noKeys(cluster, without[answer]);
  }

  async #forward(asked: Asked, keys: KeySet, claimed: ClaimedIdentity): Promise<Verdict> {
    const { cluster, question, key } = asked;
    const { mode, maxRevocationLagMs, onUnreachable } = cluster;
    const joinableMs = mode === 'hybrid' ? maxRevocationLagMs : 0;
    try {
      const { verdict, beganAt } = await this.#forwarder.ask(
        cluster,
        key,
        question,
        claimed,
        joinableMs,
      );
      this.#checkUnchanged(cluster);
      if (!verdict.authenticated) {
        this.#cache.remove(cluster, key);
        return verdict;
      }
      if (maxRevocationLagMs > 0 && (mode === 'hybrid' || onUnreachable === 'allowUntilLag')) {
        const acceptedUntil = beganAt + maxRevocationLagMs;
        this.#cache.add(cluster, keys.version, key, claimed, verdict, acceptedUntil);
      }
      return inOrderOf(question, verdict);
    } catch (caught) {
      const earlier =
        onUnreachable === 'allowUntilLag' &&
        caught instanceof UncheckedError &&
        outages.has(caught.reason)
          ? this.#cache.find(cluster, keys.version, key)?.acceptance
          : undefined;
      if (earlier === undefined) throw caught;
      return inOrderOf(question, earlier);
    }
  }

  /** A changed Cluster may have other keys, another mode or another API server. */
  #checkUnchanged({ name, uid, generation }: ReviewedCluster): void {
    const now = this.#directory.find(name);
    if (now?.uid === uid && now.generation === generation) return;
    throw new UncheckedError(
      'changed',
      name,
      'the Cluster was changed or deleted during the review. Try again.',
    );
  }
}

async function counted(answer: Promise<Verdict>, counts: ClusterCounts): Promise<Verdict> {
  try {
    const verdict = await answer;
    counts.decided(verdict);
    return verdict;
  } catch (caught) {
    counts.notDecided(caught);
    throw caught;
  }
}

/** kube-apiserver lists audiences in the order of the question, with its duplicates. */
function inOrderOf({ audiences: asked }: TokenQuestion, acceptance: Acceptance): Acceptance {
  if (asked.length < 2) return acceptance;
  const { user, expiresAtMs } = acceptance;
  const accepted = new Set(acceptance.audiences);
  const audiences = asked.filter((audience) => accepted.has(audience));
  return { authenticated: true, user, audiences, expiresAtMs };
}

const withoutKeys = 'this site does not have its keys.';
const without: Readonly<Record<Undecided, string>> = {
  unknownKey: 'this site does not know the key of the token, and cannot fetch new keys.',
  unprovenKey:
    'the cluster has not proved that it signs with the key of the token, so this site does not send it the token.',
};

function noKeys({ name }: ReviewedCluster, why: string, cause?: unknown): UncheckedError {
  return new UncheckedError(
    'keys',
    name,
    `${why} Run \`hansa cluster check ${name}\` to see what is wrong.`,
    { cause },
  );
}

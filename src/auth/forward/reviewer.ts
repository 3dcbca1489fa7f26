// The reviewer: verifies a token with the keys of its cluster, then its claims, and in modes hybrid and
// tokenreview asks the API server whether it was revoked. Answers at once where nothing must be fetched.

import type { Clock } from '../../core/clock/clock.ts';
import type { ClusterDirectory, ReviewedCluster } from '../clusters/reviewed-cluster.ts';
import type { ClusterKeys, KeySet } from '../keys/cluster-keys.ts';
import { mayForward } from '../keys/prove-keys.ts';
import { checkAudiences, withPeerPrefix } from '../peers/peer-users.ts';
import { noKeysFound } from '../review/denial.ts';
import { isList, judgeAudiences, judgeByKeys, judgeClaims } from '../review/judge-claims.ts';
import { readToken } from '../review/read-token.ts';
import { StoredAcceptance } from '../review/stored-acceptance.ts';
import type { TokenReviewer } from '../review/token-reviewer.ts';
import type { Acceptance, TokenQuestion, Verdict } from '../review/verdict.ts';
import { Forwarder, type ForwarderParts } from './forwarder.ts';
import { type ClusterCounts, ReviewMetrics } from './review-metrics.ts';
import { UncheckedError, type UncheckedReason } from './unchecked-error.ts';
import { type KnownToken, questionKey, tokenKey, VerdictCache } from './verdict-cache.ts';

/**
 * A token with an unknown `kid` is denied only by keys that are at most this old. Older keys could lack the
 * key of a valid token. Longer than the pauses between refreshes.
 */
const keysKnowAllForMs = 30_000;

/**
 * How long a denial of the API server counts in mode hybrid, so that a revoked token cannot make the site ask more
 * often. It is short, because an API server also denies a token when it fails to look its objects up.
 */
const longestDenialMs = 1_000;

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
  readonly counts: ClusterCounts;
}

/** A token of the cluster: its canonical text, and its key in the cache. */
interface Token {
  readonly text: string;
  readonly key: string;
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
    const keys = this.#keys.current(cluster);
    const asked = { cluster, question, counts };
    const known = keys === undefined ? 'unknownKey' : this.#answer(asked, keys);
    const answer = typeof known === 'string' ? this.#answerWithNewKeys(asked, known) : known;
    if (answer instanceof Promise) return counted(answer, counts);
    counts.decided(answer);
    return answer;
  }

  /** Undecided where newer keys may decide. */
  #answer(asked: Asked, keys: KeySet): Verdict | Promise<Verdict> | Undecided {
    const { cluster, question, counts } = asked;
    const { mode } = cluster;
    const sent = { text: question.token, key: tokenKey(question.token) };
    const known = this.#cache.find(cluster, keys.version, sent.key);
    if (known !== undefined) return this.#answerKnown(asked, keys, sent, known);
    const reading = readToken(question.token, keys, cluster.issuer);
    if (reading.type !== 'signed' && mode !== 'tokenreview') counts.misses++;
    if (reading.type === 'unknownKey') return reading.type;
    if (reading.type === 'denied') return reading.verdict;
    const { text, audiences } = reading.token;
    // The same token in other words, which must not make the site ask again.
    const token = text === question.token ? sent : { text, key: tokenKey(text) };
    const same = token === sent ? undefined : this.#cache.find(cluster, keys.version, token.key);
    if (same !== undefined) return this.#answerKnown(asked, keys, token, same);
    if (mode !== 'tokenreview') counts.misses++;
    const judge = mode === 'jwks' ? judgeByKeys : judgeClaims;
    const verdict = judge(reading.token, cluster, question.audiences, this.#clock.now());
    if (!verdict.authenticated) return verdict;
    const claims = StoredAcceptance.of({ ...verdict, audiences });
    if (mode === 'jwks') {
      this.#cache.add(cluster, keys.version, token.key, claims, claims);
      return verdict;
    }
    // The API server would see the token.
    if (!mayForward(cluster, reading.key)) return 'unprovenKey';
    this.#cache.add(cluster, keys.version, token.key, claims);
    return this.#forward(asked, keys, token, claims, verdict.audiences);
  }

  /** Without another verification. Which audiences a question gets follows from the claims. */
  #answerKnown(
    asked: Asked,
    keys: KeySet,
    token: Token,
    { claims, checked }: KnownToken,
  ): Verdict | Promise<Verdict> {
    const { cluster, question, counts } = asked;
    const isChecked = cluster.mode !== 'tokenreview' && checked !== undefined;
    if (isChecked) counts.hits++;
    else if (cluster.mode !== 'tokenreview') counts.misses++;
    const audiences = judgeAudiences(claims.audiences, cluster, question.audiences);
    if (!isList(audiences)) return audiences;
    if (!isChecked) return this.#forward(asked, keys, token, claims, audiences);
    if (!checked.authenticated) return checked;
    // The usual case.
    if (checked === claims) return claims.withAudiences(audiences);
    return forAudiences(checked, claims, asked);
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

  /**
   * In mode hybrid, one question says for the lag whether the token is alive, for all audiences: every caller that asks about
   * the same token joins it or uses its answer. Otherwise each question is asked as it is.
   */
  async #forward(
    asked: Asked,
    keys: KeySet,
    token: Token,
    claims: StoredAcceptance,
    audiences: readonly string[],
  ): Promise<Verdict> {
    const { cluster, question } = asked;
    const { mode, maxRevocationLagMs, onUnreachable } = cluster;
    const isShared = mode === 'hybrid' && maxRevocationLagMs > 0;
    const isBound = claims.audiences.length > 0;
    try {
      const { verdict, beganAt } = await this.#forwarder.ask(
        cluster,
        isShared ? token.key : questionKey(question.token, question.audiences),
        // Without a claim, the API server says for which audiences the token is.
        isShared ? { token: token.text, audiences: isBound ? audiences : [] } : question,
        claims,
        isShared ? maxRevocationLagMs : 0,
      );
      this.#checkUnchanged(cluster);
      const keep = (checked: Verdict, lagMs: number): void =>
        this.#cache.add(cluster, keys.version, token.key, claims, checked, beganAt + lagMs);
      if (!verdict.authenticated) {
        if (isShared) keep(verdict, Math.min(maxRevocationLagMs, longestDenialMs));
        else this.#cache.remove(cluster, token.key);
        return verdict;
      }
      const ofAll = isBound ? { ...verdict, audiences: claims.audiences } : verdict;
      const alive = StoredAcceptance.of(ofAll);
      if (isShared || (maxRevocationLagMs > 0 && onUnreachable === 'allowUntilLag')) {
        keep(alive, maxRevocationLagMs);
      }
      return isShared ? forAudiences(alive, claims, asked) : inOrderOf(question, verdict);
    } catch (caught) {
      const mayReuse =
        onUnreachable === 'allowUntilLag' &&
        caught instanceof UncheckedError &&
        outages.has(caught.reason);
      const earlier = mayReuse
        ? this.#cache.find(cluster, keys.version, token.key)?.checked
        : undefined;
      if (earlier?.authenticated !== true) throw caught;
      const verdict = forAudiences(earlier, claims, asked);
      if (!verdict.authenticated) throw caught;
      return verdict;
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

/** What is known of the token, for the audiences of this question. */
function forAudiences(
  known: StoredAcceptance,
  claims: StoredAcceptance,
  { cluster, question }: Asked,
): Verdict {
  const own = known.audiences;
  // The API server said which audiences are its own, for a token that claims none.
  const isOfServer = claims.audiences.length === 0 && own.length > 0;
  const wanted = question.audiences.length === 0 && isOfServer ? own : question.audiences;
  const audiences = judgeAudiences(own, cluster, wanted);
  return isList(audiences) ? known.withAudiences(audiences) : audiences;
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

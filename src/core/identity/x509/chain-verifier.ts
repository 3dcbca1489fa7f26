// Validates chains that strangers present again and again: over many connections, in calls of Envoy, in
// requests. It remembers signatures and refusals, so that the same chain costs its signatures once, and it
// verifies new ones off the main thread.

import type { BundleSource } from '../bundle/bundle.ts';
import type { Certificate } from './certificate.ts';
import {
  chainSteps,
  type ChainVerdict,
  isSignedHere,
  judgeChain,
  judgeChainWith,
  type SignatureCheck,
  signedPart,
} from './svid-validator.ts';
import { poolQueue, type Verify, type VerifyQueue } from './verify-queue.ts';

/** A result needs 0.3 KB. More than one for each agent of a large site. */
const maxSignatures = 16_384;
/** A refusal needs 2 KB. */
const maxRefusals = 4_096;

/** Of CPU time, for one signature with the slowest key that this site accepts: P-521, on a slow core. */
export const verificationMs = 2;

/**
 * Milliseconds of CPU time for the refused chains of one source: one twentieth of a core, after a second at
 * once. That is 500 wrong signatures, and 25 more each second. A valid chain costs its source nothing.
 */
export const strangerRate = { burst: 1_000, perSecond: 50 };

export interface ChainVerifierParts {
  readonly bundles: BundleSource;
  /** By source, at `strangerRate`. Default: no limit. */
  readonly budget?: {
    waitSeconds(source: string): number | undefined;
    charge(source: string, costMs: number): unknown;
  };
  /** Default: the queue for the thread pool. */
  readonly queue?: Pick<VerifyQueue, 'of'>;
}

export class ChainVerifier {
  readonly #bundles: BundleSource;
  readonly #budget: ChainVerifierParts['budget'];
  readonly #queue: Pick<VerifyQueue, 'of'>;
  /** Whether one certificate signed the other. That never changes. The least recently used is evicted. */
  readonly #signatures = new Map<string, boolean>();
  /** The same for verifications in progress. */
  readonly #pending = new Map<string, Promise<boolean>>();
  /** By the fingerprints of the chain, for the next connection with it. */
  readonly #refusals = new Map<string, ChainVerdict>();
  /** By chain. Entries disappear with their connections. */
  readonly #verdicts = new WeakMap<readonly Certificate[], ChainVerdict>();

  constructor({ bundles, budget, queue = poolQueue }: ChainVerifierParts) {
    this.#bundles = bundles;
    this.#budget = budget;
    this.#queue = queue;
  }

  /** Undefined where signatures must be verified first. Verifies none. */
  recall(chain: readonly Certificate[], nowMs: number): ChainVerdict | undefined {
    const known = this.#verdicts.get(chain);
    if (known !== undefined && this.#holds(known, nowMs)) return known;
    const key = keyOf(chain);
    const refused = this.#refusals.get(key);
    if (refused !== undefined && this.#holds(refused, nowMs)) {
      touch(this.#refusals, key, refused, maxRefusals);
      this.#verdicts.set(chain, refused);
      return refused;
    }
    const steps = chainSteps(chain, this.#bundles, nowMs);
    let step = steps.next();
    while (step.done !== true) {
      const isSigned = this.#recallSignature(step.value);
      if (isSigned === undefined) return undefined;
      step = steps.next(isSigned);
    }
    return this.#keep(chain, step.value);
  }

  /** Verifies missing signatures on this thread, at most one of them with the key of an authority. */
  judge(chain: readonly Certificate[], nowMs: number): ChainVerdict {
    const known = this.recall(chain, nowMs);
    if (known !== undefined) return known;
    const verdict = judgeChain(chainSteps(chain, this.#bundles, nowMs), (check) => {
      const isSigned = this.#recallSignature(check);
      return isSigned ?? this.#keepSignature(check, isSignedHere(check));
    });
    return this.#keep(chain, verdict);
  }

  /**
   * Like `judge`, but verifies missing signatures on the thread pool, in turns with other sources. The same
   * signature is never in progress twice. Undefined where refused chains have used up the budget of the source.
   */
  async judgeFor(
    source: string,
    chain: readonly Certificate[],
    nowMs: number,
  ): Promise<ChainVerdict | undefined> {
    const known = this.recall(chain, nowMs);
    if (known !== undefined) return known;
    if (this.#budget?.waitSeconds(source) !== undefined) return undefined;
    const queued = this.#queue.of(source, neverAborted);
    let costMs = 0;
    const verify: Verify = (...parts) => {
      costMs += verificationMs;
      return queued(...parts);
    };
    const verdict = await judgeChainWith(
      chainSteps(chain, this.#bundles, nowMs),
      async (check) => this.#recallSignature(check) ?? (await this.#verifyOnce(check, verify)),
    );
    if (verdict.svid === undefined && costMs > 0) this.#budget?.charge(source, costMs);
    // If the bundle has changed meanwhile, `recall` finds that.
    return this.#keep(chain, verdict);
  }

  #verifyOnce(check: SignatureCheck, verify: Verify): Promise<boolean> {
    const key = signatureKey(check);
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending;
    const verifying = (async () => {
      try {
        const { digest, data, key: publicKey, signature } = signedPart(check);
        return this.#keepSignature(check, await verify(digest, data, publicKey, signature));
      } finally {
        this.#pending.delete(key);
      }
    })();
    this.#pending.set(key, verifying);
    return verifying;
  }

  /** A verdict holds until the time that it names, while the bundle is the same. */
  #holds({ fromMs, untilMs, trustDomain, bundleVersion }: ChainVerdict, nowMs: number): boolean {
    if (nowMs < fromMs || nowMs > untilMs) return false;
    return (
      trustDomain === undefined || this.#bundles.bundleFor(trustDomain)?.version === bundleVersion
    );
  }

  #keep(chain: readonly Certificate[], verdict: ChainVerdict): ChainVerdict {
    this.#verdicts.set(chain, verdict);
    if (verdict.svid === undefined) touch(this.#refusals, keyOf(chain), verdict, maxRefusals);
    return verdict;
  }

  #recallSignature(check: SignatureCheck): boolean | undefined {
    const key = signatureKey(check);
    const known = this.#signatures.get(key);
    if (known !== undefined) touch(this.#signatures, key, known, maxSignatures);
    return known;
  }

  #keepSignature(check: SignatureCheck, isSigned: boolean): boolean {
    touch(this.#signatures, signatureKey(check), isSigned, maxSignatures);
    return isSigned;
  }
}

const { signal: neverAborted } = new AbortController();

function signatureKey({ certificate, issuer }: SignatureCheck): string {
  return `${certificate.fingerprint} ${issuer.fingerprint}`;
}

function keyOf(chain: readonly Certificate[]): string {
  return chain.map(({ fingerprint }) => fingerprint).join(' ');
}

/** Makes the entry the one that was used last. */
function touch<T>(entries: Map<string, T>, key: string, value: T, most: number): void {
  if (!entries.delete(key) && entries.size >= most) {
    const oldest = entries.keys().next();
    if (!oldest.done) entries.delete(oldest.value);
  }
  entries.set(key, value);
}

// Issues SVIDs on an agent: makes proofs of possession, asks the site in batches, and verifies what the
// site returns. Private keys never leave the process.

import type { KeyObject } from 'node:crypto';
import type { SignResponse } from '../../../proto/gen/agent_pb.ts';
import { messageBurst, messagesPerSecond } from '../../core/agent/limits.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { IssuedSvid } from '../../core/identity/authority/authority.ts';
import { brokenJwtRule } from '../../core/identity/jwt/rules.ts';
import { checkJwtRequest, type IssuedJwtSvid } from '../../core/identity/jwt/sign-svid.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
import { signingTranscript } from '../agents/sign-transcript.ts';
import { signTranscript } from '../join/proof.ts';
import type { UsableEntry } from '../workload/entries/matching-entries.ts';
import type { SvidIssuer } from '../workload/svids/issuer.ts';
import type { SignBinding } from '../../core/agent/sign-requests.ts';
import type { SignContent, SigningLink } from './signing-link.ts';
import type { SiteView } from './site-view.ts';
import { refusalError, verifyJwt, verifyX509 } from './verify-signed.ts';

export interface RemoteIssuerOptions {
  readonly trustDomain: string;
  /** The name of this agent. */
  readonly agent: string;
  readonly link: Pick<SigningLink, 'sign'>;
  readonly site: Pick<SiteView, 'bundle' | 'isTainted' | 'changed'>;
  readonly clock: Clock;
}

/** Requests in one message. A larger batch delays its first SVID, a smaller one costs more audit commits. */
const maxBatch = 50;
/** Unanswered messages. Requests that come meanwhile form the next batches. */
const maxInFlight = 4;
/**
 * Messages to the site, half of what it allows (`messagesPerSecond`). Workloads decide how often they ask
 * for tokens, and a workload must not be able to end the stream of the agent. Above this rate, batches grow.
 */
const messageRate = { burst: messageBurst / 2, perSecond: messagesPerSecond / 2 } as const;
/**
 * New JWT-SVIDs of one entry. Its workload chooses the audiences, and must leave something of the
 * agent's quota at the site to the others.
 */
const jwtRate = { burst: 500, perSecond: 20 } as const;
/** Above the number of entries of an agent. */
const maxEntries = 10_000;
/** Waiting requests while the site answers slowly: one certificate per entry, and 20 s of tokens. */
const mostX509 = maxEntries;
const mostJwt = 2_000;
/** The caller that requested a token has given up after this time. */
const jwtWaitsMs = 30_000;
/** An SVID of a new authority may arrive before the bundle that has the authority. */
const bundleWithinMs = 1_000;

interface Ask<T> {
  readonly entry: UsableEntry;
  readonly resolve: (svid: T) => void;
  readonly reject: (error: unknown) => void;
}

interface X509Ask extends Ask<IssuedSvid> {
  readonly key: KeyObject;
  readonly publicKey: PublicKey;
}

interface JwtAsk extends Ask<IssuedJwtSvid> {
  readonly audience: readonly string[];
  /** In monotonic time. */
  readonly askedMs: number;
}

export class RemoteIssuer implements SvidIssuer {
  readonly #options: RemoteIssuerOptions;
  readonly #x509: X509Ask[] = [];
  readonly #jwt: JwtAsk[] = [];
  readonly #messages: TokenBuckets;
  readonly #tokens: TokenBuckets;
  #inFlight = 0;
  #isFlushing = false;
  #revoked: HansaError | undefined;

  constructor(options: RemoteIssuerOptions) {
    this.#options = options;
    const { clock } = options;
    this.#messages = new TokenBuckets({ clock, ...messageRate, maxKeys: 1 });
    this.#tokens = new TokenBuckets({ clock, ...jwtRate, maxKeys: maxEntries });
  }

  issue(entry: UsableEntry, key: KeyObject): Promise<IssuedSvid> {
    const publicKey = PublicKey.of(key);
    return new Promise((resolve, reject) => {
      this.#add(this.#x509, mostX509, { entry, key, publicKey, resolve, reject });
    });
  }

  async issueJwt(entry: UsableEntry, audience: readonly string[]): Promise<IssuedJwtSvid> {
    // Before sending, because the workload chooses it, and a message that is too large ends the stream.
    checkJwtRequest(entry.id, audience, entry.jwtTtlSeconds);
    if (this.#tokens.take(entry.uid) !== undefined) {
      throw new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        `Cannot issue a JWT-SVID for ${entry.id.toString()}: more than ${jwtRate.perSecond} new ones per second. Request the same audience again, or fewer audiences.`,
      );
    }
    const askedMs = this.#options.clock.monotonic();
    return new Promise((resolve, reject) => {
      this.#add(this.#jwt, mostJwt, { entry, audience, askedMs, resolve, reject });
    });
  }

  isTainted(id: string): boolean {
    return this.#options.site.isTainted(id);
  }

  /** Rejects every request from now on, also those that are under way. */
  revoke(error: HansaError): void {
    this.#revoked = error;
    for (const ask of [...this.#x509.splice(0), ...this.#jwt.splice(0)]) ask.reject(error);
  }

  #add<A extends Pick<X509Ask, 'reject'>>(queue: A[], most: number, ask: A): void {
    if (this.#revoked !== undefined) {
      ask.reject(this.#revoked);
      return;
    }
    if (queue.length >= most) {
      ask.reject(tooSlow(`${most} requests wait already`));
      return;
    }
    queue.push(ask);
    // Deferred, so that requests of one turn form a batch.
    this.#flushAfter(0);
  }

  #flushAfter(delayMs: number): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    this.#options.clock.timer(delayMs, () => {
      this.#isFlushing = false;
      this.#flush();
    });
  }

  /** The oldest are first. */
  #dropOld(): void {
    const sinceMs = this.#options.clock.monotonic() - jwtWaitsMs;
    const kept = this.#jwt.findIndex(({ askedMs }) => askedMs > sinceMs);
    const old = this.#jwt.splice(0, kept === -1 ? this.#jwt.length : kept);
    for (const ask of old) ask.reject(tooSlow(`it waited for ${jwtWaitsMs / 1000} s`));
  }

  #flush(): void {
    this.#dropOld();
    while (this.#x509.length + this.#jwt.length > 0 && this.#inFlight < maxInFlight) {
      const waitSeconds = this.#messages.take('');
      if (waitSeconds !== undefined) {
        this.#flushAfter(waitSeconds * 1000);
        return;
      }
      // Certificates first: a workload that asks for many tokens delays no renewal.
      const x509 = this.#x509.splice(0, maxBatch);
      void this.#send(x509, this.#jwt.splice(0, maxBatch - x509.length));
    }
  }

  async #send(x509: readonly X509Ask[], jwt: readonly JwtAsk[]): Promise<void> {
    this.#inFlight++;
    try {
      const response = await this.#options.link.sign((binding) =>
        this.#content(x509, jwt, binding),
      );
      this.#receive(x509, jwt, response);
    } catch (error) {
      for (const ask of [...x509, ...jwt]) ask.reject(error);
    } finally {
      this.#inFlight--;
      this.#flush();
    }
  }

  #content(x509: readonly X509Ask[], jwt: readonly JwtAsk[], binding: SignBinding): SignContent {
    const { trustDomain, agent } = this.#options;
    return {
      x509: x509.map(({ entry: { uid: entry }, key, publicKey: { spki } }) => {
        const transcript = { ...binding, trustDomain, agent, entry, publicKey: spki };
        return {
          entry,
          publicKey: spki,
          proof: signTranscript(signingTranscript(transcript), key),
        };
      }),
      jwt: jwt.map(({ entry, audience }) => ({ entry: entry.uid, audience: [...audience] })),
    };
  }

  #receive(x509: readonly X509Ask[], jwt: readonly JwtAsk[], response: SignResponse): void {
    if (response.x509.length !== x509.length || response.jwt.length !== jwt.length) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot use the response of the site: it has ${response.x509.length} X.509-SVIDs and ${response.jwt.length} JWT-SVIDs for ${x509.length} and ${jwt.length} requests.`,
      );
    }
    const { site, clock } = this.#options;
    for (const [at, ask] of x509.entries()) {
      const { refusal, chain = [], authority = '' } = response.x509[at] ?? {};
      this.#settle(ask, refusal, () =>
        verifyX509({ chain, authority }, ask.entry, ask.publicKey, site, clock.now()),
      );
    }
    for (const [at, ask] of jwt.entries()) {
      const { refusal, token = '' } = response.jwt[at] ?? {};
      this.#settle(ask, refusal, () =>
        verifyJwt(token, ask.entry, ask.audience, site, clock.now()),
      );
    }
  }

  #settle<T>(
    ask: Ask<T>,
    refusal: { readonly code: string; readonly message: string } | undefined,
    verify: () => T,
  ): void {
    const error = this.#revoked ?? (refusal && refusalError(refusal));
    if (error === undefined) this.#verified(verify).then(ask.resolve, ask.reject);
    else ask.reject(error);
  }

  async #verified<T>(verify: () => T): Promise<T> {
    try {
      return verify();
    } catch (error) {
      const cause = (error as Error).cause;
      const isUnknown =
        brokenRule(cause) === 'unknown-authority' || brokenJwtRule(cause) === 'unknown-key';
      if (!isUnknown) throw error;
      await this.#options.site.changed(bundleWithinMs);
      return verify();
    }
  }
}

function tooSlow(why: string): HansaError {
  return new HansaError(
    'HANSA_UNAVAILABLE',
    `Cannot issue an SVID: the site answers too slowly, and ${why}. Try again later.`,
  );
}

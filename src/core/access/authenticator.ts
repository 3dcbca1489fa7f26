// Turns the credential of a connection into a caller. This runs on every request, because a
// certificate may have expired and a token may have been revoked since the connection began.

import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock } from '../clock/clock.ts';
import { HansaError } from '../errors/error.ts';
import type { ValidatedSvid } from '../identity/x509/svid-validator.ts';
import { unauthorized } from './denial.ts';
import { FailureLimit } from './failure-limit.ts';
import {
  type Caller,
  isPersonName,
  parseTokenSegment,
  personCaller,
  socketOwner,
  tokenCaller,
} from './identity.ts';
import type { TokenRecord, TokenRegister } from './token-register.ts';

/**
 * A client certificate that passed the path validator. A listener should pass the same value with
 * each request of a connection: the authorizer then finds the caller's rights in its cache.
 */
export type PeerSvid = Pick<ValidatedSvid, 'id' | 'serialHex' | 'notAfterMs'>;

export interface Presented {
  /** Undefined where there is no client certificate, or none that is valid. */
  readonly peer?: PeerSvid | undefined;
  /** The Authorization header as it came. */
  readonly authorization?: string | undefined;
  /** `admin` for the socket that only the owner of the data folder can open. */
  readonly listener: 'tls' | 'admin';
  readonly address: string;
  /** The connection: a token that it has shown before is not hashed again, only looked up. */
  readonly connection?: object;
}

const userPrefix = '/hansa/user/';
/** A token has 54 characters. Longer headers are not even hashed. */
const maxHeaderLength = 512;

export class Authenticator {
  readonly #trustDomain: TrustDomain;
  readonly #tokens: TokenRegister;
  readonly #clock: Clock;
  readonly #failures: FailureLimit;
  /** The same caller for the same credential, so that the authorizer finds what it compiled. */
  readonly #byPeer = new WeakMap<PeerSvid, Caller>();
  readonly #byToken = new WeakMap<TokenRecord, Caller>();
  readonly #shown = new WeakMap<
    object,
    { readonly header: string; readonly record: TokenRecord }
  >();

  constructor(options: { trustDomain: TrustDomain; tokens: TokenRegister; clock: Clock }) {
    this.#trustDomain = options.trustDomain;
    this.#tokens = options.tokens;
    this.#clock = options.clock;
    this.#failures = new FailureLimit(options.clock);
  }

  /**
   * Throws HANSA_UNAUTHENTICATED (always with the text `Unauthorized`), or HANSA_TOO_MANY_REQUESTS
   * where the address fails too often. Failures of other clients never reject a valid credential.
   *
   * It tries the certificate first, then the token, as kube-apiserver does: kubectl may send both.
   * On the admin socket a token takes precedence over the owner, so that operators can test its
   * rights there and a wrong token does not silently act as the owner.
   */
  authenticate(presented: Presented): Caller {
    const caller = this.find(presented);
    if (caller !== undefined) return caller;
    throw this.refusal(presented);
  }

  /** As `authenticate`, but undefined where the credential is not valid. Counts no failure. */
  find(presented: Presented): Caller | undefined {
    const token = presented.authorization;
    if (presented.listener === 'admin' && token === undefined) return socketOwner;
    return (
      (presented.peer === undefined ? undefined : this.#fromPeer(presented.peer)) ??
      (token === undefined ? undefined : this.#fromHeader(token, presented.connection))
    );
  }

  #fromPeer(peer: PeerSvid): Caller | undefined {
    if (!peer.id.memberOf(this.#trustDomain) || this.#clock.now() > peer.notAfterMs)
      return undefined;
    if (!peer.id.path.startsWith(userPrefix)) return undefined;
    const segment = peer.id.path.slice(userPrefix.length);
    const known = this.#byPeer.get(peer);
    if (isPersonName(segment)) {
      const caller = known ?? personCaller(segment, peer.serialHex);
      if (known === undefined) this.#byPeer.set(peer, caller);
      return caller;
    }
    const token = parseTokenSegment(segment);
    if (token === undefined || this.#tokens.findById(token.name, token.id) === undefined)
      return undefined;
    const caller = known ?? tokenCaller(token.name, 'certificate', peer.serialHex, token.id);
    if (known === undefined) this.#byPeer.set(peer, caller);
    return caller;
  }

  #fromHeader(header: string, connection: object | undefined): Caller | undefined {
    if (header.length > maxHeaderLength) return undefined;
    const record = this.#recordOf(header, connection);
    if (record === undefined) return undefined;
    let caller = this.#byToken.get(record);
    if (caller === undefined) {
      caller = tokenCaller(record.name, 'token', record.name, record.id);
      this.#byToken.set(record, caller);
    }
    return caller;
  }

  #recordOf(header: string, connection: object | undefined): TokenRecord | undefined {
    const shown = connection === undefined ? undefined : this.#shown.get(connection);
    // The same connection presented the same valid token, so the timing of this comparison leaks nothing.
    if (shown?.header === header && this.#tokens.confirm(shown.record)) return shown.record;
    // RFC 6750 §2.1; the scheme's name is case-insensitive (RFC 9110 §11.1).
    const match = /^bearer +(\S+) *$/i.exec(header);
    const record = match?.[1] === undefined ? undefined : this.#tokens.find(match[1]);
    if (connection !== undefined && record !== undefined)
      this.#shown.set(connection, { header, record });
    return record;
  }

  /** The error for a request without a valid credential. Counts a failure of its address. */
  refusal(presented: Presented): HansaError {
    const retryAfterSeconds = this.#failures.failed(presented.address);
    if (retryAfterSeconds !== undefined)
      return new HansaError(
        'HANSA_TOO_MANY_REQUESTS',
        'Too many requests without a valid credential came from this address. Please try again later.',
        { details: { retryAfterSeconds } },
      );
    return unauthorized(reasonOf(presented, this.#trustDomain.name));
  }
}

/** For the log only: says what was presented, never a token. */
function reasonOf({ peer, authorization }: Presented, trustDomain: string): string {
  const reasons: string[] = [];
  if (peer !== undefined)
    reasons.push(
      `the certificate of ${peer.id.toString()} has expired, was revoked with its token, or is not a user certificate of ${trustDomain}`,
    );
  if (authorization !== undefined)
    reasons.push('the token is unknown, revoked, expired or malformed');
  return reasons.length === 0 ? 'no credential was presented' : reasons.join('; ');
}

// Keeps connections to sites that this site calls often, so that not every call costs a TLS handshake. A connection belongs to one trust domain and to the hash of the bundle that verified it.
// It ends when that trust ends: the caller reports changes with `trustChanged`, and every call checks
// again. TLS sessions are never resumed: a new connection is always verified in full.

import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Clock, Timer } from '../../clock/clock.ts';
import { HansaError, hasCode } from '../../errors/error.ts';
import type { BundleSource } from '../bundle/bundle.ts';
import type { ValidatedSvid } from '../x509/svid-validator.ts';
import type { Connection, Transport, TransportRequest, TransportResponse } from './transport.ts';
import { verifySite } from './verify-site.ts';

export interface KeptLimits {
  /** Connections that wait for their next request. Beyond it, the one that waited longest is closed. */
  readonly maxIdle: number;
  /** Of one site. */
  readonly maxIdlePerSite: number;
  /** Shorter than the 120 s after which the listeners of a site close an idle connection. */
  readonly idleMs: number;
  /** Calls to one site at the same time. */
  readonly maxCallsPerSite: number;
}

/** Twice the number of peers that a site is measured with. */
export const defaultKeptLimits: KeptLimits = {
  maxIdle: 2_048,
  maxIdlePerSite: 1,
  idleMs: 90_000,
  maxCallsPerSite: 16,
};

export interface KeptConnectionsParts {
  readonly transport: Transport;
  readonly clock: Clock;
  readonly bundles: BundleSource;
  /** Whether this site still calls that trust domain. Quick, without I/O. */
  readonly mayCall: (trustDomain: string) => boolean;
  readonly limits?: KeptLimits;
}

export interface CalledSite {
  readonly trustDomain: TrustDomain;
  /** https only. */
  readonly url: URL;
}

export interface CallLimits {
  readonly maxBytes: number;
  /** For the call as a whole, connecting and the retry included. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** The site may handle the request twice. Only such a request is sent again when a kept connection proves dead. */
  readonly idempotent: boolean;
}

interface Held {
  readonly site: CalledSite;
  readonly connection: Connection;
  readonly svid: ValidatedSvid;
  /** Of the bundle that verified it. */
  readonly hash: string;
  /** Set when it must not serve another call. */
  retired: boolean;
  /** Set by the transport. */
  ended: boolean;
  idle: Timer | undefined;
}

export class KeptConnections {
  readonly #parts: KeptConnectionsParts;
  readonly #limits: KeptLimits;
  /** By trust domain, never empty. The site that waits longest comes first, and so does its oldest connection. */
  readonly #idle = new Map<string, readonly Held[]>();
  #idleSize = 0;
  /** While a call uses one, the next call to the same site opens another, so that none waits. */
  readonly #busy = new Map<string, Set<Held>>();
  readonly #calls = new Map<string, number>();
  #stopped = false;
  #opened = 0;
  /** How often this site got a new certificate. A connection that presented an earlier one is not kept. */
  #generation = 0;

  constructor(parts: KeptConnectionsParts) {
    this.#parts = parts;
    this.#limits = parts.limits ?? defaultKeptLimits;
  }

  /** Open connections, idle and busy. */
  get size(): number {
    let busy = 0;
    for (const held of this.#busy.values()) busy += held.size;
    return this.#idleSize + busy;
  }

  /** How many connections were opened since the start. */
  get opened(): number {
    return this.#opened;
  }

  /** Whether a connection to this trust domain is open. */
  has(trustDomain: string): boolean {
    return this.#idle.has(trustDomain) || this.#busy.has(trustDomain);
  }

  /**
   * Sends one request to the site of that trust domain. Rejects like `Transport.connect` and
   * `Connection.request`, with HANSA_PEER_UNTRUSTED where this site does not trust it, and with
   * HANSA_UNAVAILABLE where too many calls wait for it already. Sites do not wait for one another.
   */
  async call(
    site: CalledSite,
    request: TransportRequest,
    limits: CallLimits,
  ): Promise<TransportResponse> {
    const { name } = site.trustDomain;
    const calls = this.#calls.get(name) ?? 0;
    if (calls >= this.#limits.maxCallsPerSite) {
      throw new HansaError(
        'HANSA_UNAVAILABLE',
        `Cannot call ${name}: ${calls} calls already wait for its answer.`,
      );
    }
    this.#calls.set(name, calls + 1);
    try {
      return await this.#call(site, request, limits);
    } finally {
      const left = (this.#calls.get(name) ?? 1) - 1;
      if (left === 0) this.#calls.delete(name);
      else this.#calls.set(name, left);
    }
  }

  async #call(
    site: CalledSite,
    request: TransportRequest,
    limits: CallLimits,
  ): Promise<TransportResponse> {
    const { clock } = this.#parts;
    const endsMs = clock.monotonic() + limits.timeoutMs;
    limits.signal?.throwIfAborted();
    this.#checkMayCall(site.trustDomain.name);
    const kept = this.#takeIdle(site);
    if (kept !== undefined) {
      try {
        return await this.#use(kept, request, limits, endsMs);
      } catch (error) {
        // The server may have closed the connection while it was idle. A timeout leaves no time.
        const dead = hasCode(error, 'HANSA_UNREACHABLE') && clock.monotonic() < endsMs;
        if (!dead || !limits.idempotent || limits.signal?.aborted === true) throw error;
        this.#checkMayCall(site.trustDomain.name);
      }
    }
    return this.#use(await this.#open(site, limits, endsMs), request, limits, endsMs);
  }

  /**
   * The trust in this trust domain may have changed: closes what it no longer covers, also in the
   * middle of a request. A request on a connection that the new bundle still verifies finishes.
   */
  trustChanged(trustDomain: string): void {
    for (const held of this.#idleOf(trustDomain)) if (!this.#covers(held)) this.#close(held);
    for (const held of this.#busy.get(trustDomain) ?? []) {
      if (this.#covers(held)) continue;
      held.retired = true;
      if (!this.#stillVerifies(held)) this.#close(held);
    }
  }

  /** This site has a new certificate: idle connections close now, busy ones after their request. */
  retireAll(): void {
    this.#generation++;
    this.#closeIdle();
    for (const busy of this.#busy.values()) for (const held of busy) held.retired = true;
  }

  /** Closes all connections. Later calls reject. */
  stop(): void {
    this.#stopped = true;
    this.#closeIdle();
    for (const busy of this.#busy.values()) for (const held of busy) this.#close(held);
  }

  #checkMayCall(trustDomain: string): void {
    if (this.#stopped) {
      throw new HansaError('HANSA_UNAVAILABLE', `Cannot call ${trustDomain}: the site stops.`);
    }
    if (this.#parts.mayCall(trustDomain)) return;
    throw new HansaError(
      'HANSA_PEER_UNTRUSTED',
      `Cannot call ${trustDomain}: this site does not trust it now.`,
    );
  }

  async #open(site: CalledSite, limits: CallLimits, endsMs: number): Promise<Held> {
    const { transport, clock, bundles } = this.#parts;
    const { name } = site.trustDomain;
    let verified: { readonly svid: ValidatedSvid; readonly hash: string } | undefined;
    let held: Held | undefined;
    let ended = false;
    const generation = this.#generation;
    const connection = await transport.connect({
      url: site.url,
      verify: (chain) => {
        // The bundle of this moment, and not of when the call began.
        const hash = bundles.bundleFor(site.trustDomain)?.hash ?? '';
        verified = { svid: verifySite(site.trustDomain, chain, bundles, clock.now()), hash };
      },
      asSite: true,
      timeoutMs: endsMs - clock.monotonic(),
      ...(limits.signal && { signal: limits.signal }),
      kept: {
        closed: () => {
          ended = true;
          if (held !== undefined) this.#forget(held);
        },
      },
    });
    this.#opened++;
    const { svid, hash } = verified as NonNullable<typeof verified>;
    const retired = generation !== this.#generation;
    held = { site, connection, svid, hash, retired, ended, idle: undefined };
    const busy = this.#busy.get(name) ?? new Set<Held>();
    this.#busy.set(name, busy.add(held));
    // A change between the handshake and here found no connection to close.
    if (this.#stopped || !this.#stillVerifies(held)) {
      this.#close(held);
      this.#checkMayCall(name);
    }
    return held;
  }

  async #use(
    held: Held,
    request: TransportRequest,
    limits: CallLimits,
    endsMs: number,
  ): Promise<TransportResponse> {
    try {
      const timeoutMs = endsMs - this.#parts.clock.monotonic();
      const response = await held.connection.request(request, limits.maxBytes, {
        timeoutMs,
        signal: limits.signal,
      });
      this.#giveBack(held);
      return response;
    } catch (error) {
      this.#close(held);
      throw error;
    }
  }

  /** The idle connection to the site, if this site would verify it again now. */
  #takeIdle(site: CalledSite): Held | undefined {
    const { name } = site.trustDomain;
    // The newest first, so that those beyond the need become idle.
    for (const held of this.#idleOf(name).toReversed()) {
      if (held.site.url.href !== site.url.href || !this.#covers(held)) {
        this.#close(held);
        continue;
      }
      this.#leaveIdle(held);
      const busy = this.#busy.get(name) ?? new Set<Held>();
      this.#busy.set(name, busy.add(held));
      return held;
    }
    return undefined;
  }

  #giveBack(held: Held): void {
    if (held.ended) return;
    const { name } = held.site.trustDomain;
    const { maxIdle, maxIdlePerSite, idleMs } = this.#limits;
    const others = this.#idleOf(name);
    const isEnough = others.length >= maxIdlePerSite;
    if (this.#stopped || held.retired || isEnough || !this.#covers(held)) {
      this.#close(held);
      return;
    }
    this.#leaveBusy(held);
    const [longest] = this.#idleSize >= maxIdle ? (this.#idle.values().next().value ?? others) : [];
    if (longest !== undefined) this.#close(longest);
    const idle = [...this.#idleOf(name), held];
    this.#idle.delete(name);
    this.#idle.set(name, idle);
    this.#idleSize++;
    held.idle = this.#parts.clock.timer(idleMs, () => this.#close(held));
  }

  /** The same bundle verified it, and nothing has expired or been withdrawn since. */
  #covers({ site, svid, hash }: Held): boolean {
    const nowMs = this.#parts.clock.now();
    return (
      this.#parts.mayCall(site.trustDomain.name) &&
      this.#parts.bundles.bundleFor(site.trustDomain)?.hash === hash &&
      nowMs >= svid.notBeforeMs &&
      nowMs <= svid.notAfterMs
    );
  }

  #stillVerifies(held: Held): boolean {
    if (this.#covers(held)) return true;
    const { bundles, clock, mayCall } = this.#parts;
    const { trustDomain } = held.site;
    if (!mayCall(trustDomain.name)) return false;
    try {
      verifySite(trustDomain, held.connection.peerChain, bundles, clock.now());
      return true;
    } catch {
      return false;
    }
  }

  #close(held: Held): void {
    this.#forget(held);
    held.connection.close();
  }

  #forget(held: Held): void {
    held.ended = true;
    this.#leaveIdle(held);
    this.#leaveBusy(held);
  }

  /** A list that does not change while connections close. */
  #idleOf(trustDomain: string): readonly Held[] {
    return this.#idle.get(trustDomain) ?? [];
  }

  #closeIdle(): void {
    for (const held of [...this.#idle.values()].flat()) this.#close(held);
  }

  #leaveIdle(held: Held): void {
    held.idle?.cancel();
    held.idle = undefined;
    const { name } = held.site.trustDomain;
    const idle = this.#idle.get(name);
    if (idle?.includes(held) !== true) return;
    this.#idleSize--;
    const left = idle.filter((other) => other !== held);
    // A Map keeps the place of a key that is set again.
    if (left.length === 0) this.#idle.delete(name);
    else this.#idle.set(name, left);
  }

  #leaveBusy(held: Held): void {
    const { name } = held.site.trustDomain;
    const busy = this.#busy.get(name);
    busy?.delete(held);
    if (busy?.size === 0) this.#busy.delete(name);
  }
}

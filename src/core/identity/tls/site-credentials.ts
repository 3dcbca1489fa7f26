// The site's own SVID, always fresh: issued at start, renewed at half of its life with a new key,
// handed to the listeners. It lives in memory only. A new authority signs the next one when that is
// due: activating one drops nothing, and peers that come late can still fetch the bundle. Only where
// the authority that signed it is tainted or gone, it is renewed at once.

import type { KeyObject } from 'node:crypto';
import type { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { Clock, Random, Timer } from '../../clock/clock.ts';
import type { Log } from '../../log/log.ts';
import type { SiteAuthority } from '../authority/authority.ts';
import { exportPkcs8, generateP256, PublicKey } from '../x509/keys.ts';
import { certificatePem, privateKeyPem } from '../x509/pem.ts';
import type { TlsCredential } from './options.ts';

export interface SiteCredential extends TlsCredential {
  readonly id: SpiffeId;
  readonly key: KeyObject;
  /** DER, the leaf first. */
  readonly chain: readonly Buffer[];
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly serialHex: string;
  /** The id of the authority that signed it. */
  readonly authorityId: string;
}

export interface SiteCredentialsOptions {
  readonly authority: Pick<SiteAuthority, 'issueSite' | 'onChange' | 'isTainted'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** So that clients which know no SPIFFE can verify the listeners. */
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly ttlSeconds?: number;
}

/** Wall time can jump, timers do not follow: look at least this often. */
const lookEveryMs = 60_000;
const firstRetryMs = 1_000;
const lastRetryMs = 60_000;
/** Renewals of many sites that started together drift apart by this share of the half-life. */
const jitter = 0.1;

export class SiteCredentials {
  readonly #options: SiteCredentialsOptions;
  readonly #listeners = new Set<(credential: SiteCredential) => void>();
  #current: SiteCredential;
  #renewAtMs: number;
  #retryMs = firstRetryMs;
  #timer: Timer | undefined;
  #renewing: Promise<void> | undefined;
  #stopped = false;
  readonly #unhook: () => void;

  private constructor(options: SiteCredentialsOptions, first: SiteCredential) {
    this.#options = options;
    this.#current = first;
    this.#renewAtMs = this.#halfLife(first);
    this.#unhook = options.authority.onChange(() => this.#authorityChanged());
    this.#schedule();
  }

  /** Resolves when the first SVID is there, and keeps renewing it until `stop`. */
  static async start(options: SiteCredentialsOptions): Promise<SiteCredentials> {
    return new SiteCredentials(options, await issue(options));
  }

  get current(): SiteCredential {
    return this.#current;
  }

  /** Calls on every renewal from now on; returns how to stop that. Must not throw. */
  onRenewal(listener: (credential: SiteCredential) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Renews at once; rejects where that fails, and the schedule stands. Calls at the same time share one. */
  renew(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = undefined;
    });
    return this.#renewing;
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#unhook();
    this.#listeners.clear();
  }

  #authorityChanged(): void {
    const { authority, clock } = this.#options;
    if (this.#stopped || !authority.isTainted(this.#current.authorityId)) return;
    this.#renewAtMs = clock.now();
    this.#timer?.cancel();
    void this.#look();
  }

  async #renew(): Promise<void> {
    const { authority } = this.#options;
    let credential = await issue(this.#options);
    // One that was tainted meanwhile may have signed it.
    while (authority.isTainted(credential.authorityId)) credential = await issue(this.#options);
    if (this.#stopped) return;
    this.#current = credential;
    this.#renewAtMs = this.#halfLife(credential);
    this.#retryMs = firstRetryMs;
    this.#options.log.info('site SVID renewed', {
      serial: credential.serialHex,
      notAfter: new Date(credential.notAfterMs).toISOString(),
    });
    for (const listener of this.#listeners) listener(credential);
  }

  #halfLife(credential: SiteCredential): number {
    const { clock, random } = this.#options;
    const half = (credential.notAfterMs - clock.now()) / 2;
    return clock.now() + half * (1 - jitter * random.unit());
  }

  #schedule(delayMs = this.#renewAtMs - this.#options.clock.now()): void {
    if (this.#stopped) return;
    // A taint may have come while a renewal was under way.
    this.#timer?.cancel();
    const bounded = Math.min(Math.max(delayMs, 0), lookEveryMs);
    this.#timer = this.#options.clock.timer(bounded, () => void this.#look());
  }

  async #look(): Promise<void> {
    const { clock, log } = this.#options;
    // A clock that was set back can leave an SVID that is not valid yet.
    const setBack = clock.now() < this.#current.notBeforeMs;
    if (clock.now() < this.#renewAtMs && !setBack) {
      this.#schedule();
      return;
    }
    try {
      await this.renew();
      this.#schedule();
    } catch (error) {
      log.error('site SVID could not be renewed', { error, retryMs: this.#retryMs });
      this.#schedule(this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, lastRetryMs);
    }
  }
}

async function issue(options: SiteCredentialsOptions): Promise<SiteCredential> {
  const { authority, random, dnsNames, ipAddresses, ttlSeconds } = options;
  const key = await generateP256(random);
  const svid = await authority.issueSite({
    publicKey: PublicKey.of(key),
    dnsNames,
    ipAddresses,
    ...(ttlSeconds !== undefined && { ttlSeconds }),
  });
  const pkcs8 = exportPkcs8(key);
  const privateKey = privateKeyPem(pkcs8);
  pkcs8.fill(0);
  return {
    id: svid.id,
    key,
    chain: svid.chain,
    certificateChain: svid.chain.map(certificatePem).join(''),
    privateKey,
    notBeforeMs: svid.notBeforeMs,
    notAfterMs: svid.notAfterMs,
    serialHex: svid.serialHex,
    authorityId: svid.authorityId,
  };
}

// The site's own SVID: issued at start, renewed with a new key at half of its lifetime, and passed to
// the listeners. It is in memory only. Activating a new authority does not renew it early, so that
// peers that are late can still fetch the bundle. It is renewed at once only when its authority is
// tainted or revoked.

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
  /** DNS names and addresses for clients that do not speak SPIFFE. */
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly ttlSeconds?: number;
}

/** Longest time between checks, because wall time can jump and timers do not follow. */
const lookEveryMs = 60_000;
const firstRetryMs = 1_000;
const lastRetryMs = 60_000;
/** Jitter as a share of the half-life, so that sites that started together do not renew together. */
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
    return new SiteCredentials(options, await issueSiteCredential(options));
  }

  get current(): SiteCredential {
    return this.#current;
  }

  /** Calls `listener` on every renewal. Returns how to stop. The listener must not throw. */
  onRenewal(listener: (credential: SiteCredential) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Renews at once. If it rejects, the schedule stays. Concurrent calls share one renewal. */
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
    let credential = await issueSiteCredential(this.#options);
    // Its authority may have been tainted meanwhile.
    while (authority.isTainted(credential.authorityId))
      credential = await issueSiteCredential(this.#options);
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
    // An authority may have been tainted during the renewal.
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
      log.error('cannot renew the site SVID', { error, retryMs: this.#retryMs });
      this.#schedule(this.#retryMs);
      this.#retryMs = Math.min(this.#retryMs * 2, lastRetryMs);
    }
  }
}

/** A new key and an SVID of the site for it, with these names. */
export async function issueSiteCredential(
  options: Pick<SiteCredentialsOptions, 'random' | 'dnsNames' | 'ipAddresses' | 'ttlSeconds'> & {
    readonly authority: Pick<SiteAuthority, 'issueSite'>;
  },
): Promise<SiteCredential> {
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

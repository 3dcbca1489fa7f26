// Certificates of the site for further host names, one for each group of names: issued when a client first
// asks for one of them (SNI), renewed at half of their lifetime, and replaced when their authority is
// tainted. In memory only, without timers. Open connections keep the certificate that they began with.

import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock, Random } from '../../clock/clock.ts';
import type { Log } from '../../log/log.ts';
import type { SiteAuthority } from '../authority/authority.ts';
import { contextOptionsOf } from './options.ts';
import { issueSiteCredential, type SiteCredential } from './site-credentials.ts';

/** The host names that a site answers to, beyond its own. Methods are quick and without I/O. */
export interface HostedNames {
  /** All DNS names of the certificate that this server name gets; undefined where the site does not answer to it. */
  namesFor(serverName: string): readonly string[] | undefined;
  /** Calls `listener` after each change. Returns how to stop. */
  onChange(listener: () => void): () => void;
}

export interface HostCertificatesOptions {
  readonly authority: Pick<SiteAuthority, 'issueSite' | 'onChange' | 'isTainted'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly hosts: HostedNames;
}

/** Above the number of clusters of a site. The certificate that was used longest ago gives way. */
const maxCertificates = 1_000;

interface Issued {
  readonly names: readonly string[];
  readonly credential: SiteCredential;
  readonly context: SecureContext;
  readonly renewAtMs: number;
}

export class HostCertificates {
  readonly #options: HostCertificatesOptions;
  /** By first name, in the order of their last use. */
  readonly #issued = new Map<string, Issued>();
  readonly #issuing = new Map<string, Promise<Issued>>();
  readonly #unhook: readonly (() => void)[];

  constructor(options: HostCertificatesOptions) {
    this.#options = options;
    const { hosts, authority } = options;
    this.#unhook = [hosts.onChange(() => this.#prune()), authority.onChange(() => this.#prune())];
  }

  stop(): void {
    for (const unhook of this.#unhook) unhook();
    this.#issued.clear();
  }

  get size(): number {
    return this.#issued.size;
  }

  /** For `SNICallback` of node:tls: undefined means the certificate of the site. */
  readonly choose = (
    serverName: string,
    chosen: (error: Error | null, context?: SecureContext) => void,
  ): void => {
    const names = this.#options.hosts.namesFor(serverName);
    const key = names?.[0];
    if (names === undefined || key === undefined) {
      chosen(null);
      return;
    }
    const known = this.#issued.get(key);
    if (known !== undefined && this.#serves(known, names)) {
      this.#issued.delete(key);
      this.#issued.set(key, known);
      chosen(null, known.context);
      if (this.#options.clock.now() >= known.renewAtMs)
        this.#issue(key, names).catch(() => undefined);
      return;
    }
    this.#issue(key, names).then(
      ({ context }) => chosen(null, context),
      () => chosen(null),
    );
  };

  #serves({ names, credential }: Issued, wanted: readonly string[]): boolean {
    const { authority, clock } = this.#options;
    const nowMs = clock.now();
    return (
      nowMs >= credential.notBeforeMs &&
      nowMs < credential.notAfterMs &&
      !authority.isTainted(credential.authorityId) &&
      names.length === wanted.length &&
      names.every((name, at) => name === wanted[at])
    );
  }

  /** Concurrent handshakes share one certificate. */
  #issue(key: string, names: readonly string[]): Promise<Issued> {
    const waiting = this.#issuing.get(key);
    if (waiting !== undefined) return waiting;
    const issuing = this.#make(key, names).finally(() => this.#issuing.delete(key));
    this.#issuing.set(key, issuing);
    return issuing;
  }

  async #make(key: string, names: readonly string[]): Promise<Issued> {
    const { authority, clock, random, log, hosts } = this.#options;
    try {
      const credential = await issueSiteCredential({
        authority,
        random,
        dnsNames: names,
        ipAddresses: [],
      });
      const issued = {
        names,
        credential,
        context: createSecureContext(contextOptionsOf(credential)),
        renewAtMs: clock.now() + (credential.notAfterMs - clock.now()) / 2,
      };
      // It may be gone by now.
      if (hosts.namesFor(key) !== undefined) this.#keep(key, issued);
      return issued;
    } catch (error) {
      log.error('cannot issue a certificate for a host name', { host: key, error });
      throw error;
    }
  }

  #keep(key: string, issued: Issued): void {
    this.#issued.delete(key);
    if (this.#issued.size >= maxCertificates) {
      const oldest = this.#issued.keys().next();
      if (!oldest.done) this.#issued.delete(oldest.value);
    }
    this.#issued.set(key, issued);
  }

  /** Drops certificates of names that are gone, and of tainted authorities. */
  #prune(): void {
    for (const [key, issued] of this.#issued) {
      const names = this.#options.hosts.namesFor(key);
      if (names === undefined || !this.#serves(issued, names)) this.#issued.delete(key);
    }
  }
}

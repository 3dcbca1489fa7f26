// The trust bundle of one trust domain: the X.509 and JWT authorities that verify its SVIDs.

import { createHash, type KeyObject } from 'node:crypto';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { Certificate } from '../x509/certificate.ts';
import { spkiOf } from '../x509/keys.ts';
import { certificatePem } from '../x509/pem.ts';

/** More authorities than any rotation needs. The limit bounds the work of one validation. */
export const maxAuthorities = 64;

/** A key that verifies JWT-SVIDs of the trust domain (JWT-SVID §4). */
export interface JwtAuthority {
  /** The `kid` of tokens that it signed: unique in its bundle. */
  readonly keyId: string;
  readonly publicKey: KeyObject;
}

/** Immutable. Two bundles with the same authorities have the same hash, whatever their order. */
export class Bundle {
  readonly trustDomain: TrustDomain;
  readonly authorities: readonly Certificate[];
  readonly jwtAuthorities: ReadonlyMap<string, JwtAuthority>;
  /** SHA-256, in hex, over the trust domain and the authorities of both kinds. */
  readonly hash: string;
  /**
   * Fingerprints of the certificates that may sign leaves; undefined: any CA below an authority. Set
   * only for this site's own trust domain. Not published, and not part of the hash.
   */
  readonly issuers: ReadonlySet<string> | undefined;
  /** Of this object only: it says whether a bundle is still the same, and keeps nothing in memory. */
  readonly version = Symbol('bundle');
  readonly #bySubject = new Map<string, Certificate[]>();

  constructor(
    trustDomain: TrustDomain,
    authorities: Iterable<Certificate>,
    jwtAuthorities: Iterable<JwtAuthority> = [],
    issuers?: ReadonlySet<string>,
  ) {
    this.trustDomain = trustDomain;
    this.issuers = issuers;
    const distinct = new Map<string, Certificate>();
    for (const authority of authorities) distinct.set(authority.fingerprint, authority);
    if (distinct.size > maxAuthorities) {
      throw new RangeError(
        `Cannot hold a bundle of ${trustDomain.name}: it has ${distinct.size} authorities, and the limit is ${maxAuthorities}.`,
      );
    }
    this.authorities = Object.freeze([...distinct.values()]);
    const digest = createHash('sha256').update(`${trustDomain.name}\n`);
    for (const fingerprint of [...distinct.keys()].toSorted()) digest.update(`${fingerprint}\n`);
    const jwt = new Map<string, JwtAuthority>();
    for (const authority of jwtAuthorities) jwt.set(authority.keyId, authority);
    if (jwt.size > maxAuthorities) {
      throw new RangeError(
        `Cannot hold a bundle of ${trustDomain.name}: it has ${jwt.size} JWT authorities, and the limit is ${maxAuthorities}.`,
      );
    }
    this.jwtAuthorities = jwt;
    for (const keyId of [...jwt.keys()].toSorted()) {
      const { publicKey } = jwt.get(keyId) as JwtAuthority;
      digest.update(`jwt ${JSON.stringify(keyId)} ${spkiOf(publicKey).toString('base64')}\n`);
    }
    this.hash = digest.digest('hex');
    for (const authority of this.authorities) {
      const key = authority.subject.toString('latin1');
      const same = this.#bySubject.get(key);
      if (same === undefined) this.#bySubject.set(key, [authority]);
      else same.push(authority);
    }
  }

  /** The authorities of this subject; after a rotation there may be several. */
  withSubject(subject: Buffer): readonly Certificate[] {
    return this.#bySubject.get(subject.toString('latin1')) ?? none;
  }

  /** The authorities as a PEM file, for tools that do not know trust domains. */
  get pem(): string {
    return this.authorities.map((authority) => certificatePem(authority.der)).join('');
  }
}

const none: readonly Certificate[] = Object.freeze([]);

/** Looks up bundles in memory, as it runs on every request. */
export interface BundleSource {
  /** Undefined where this site does not trust the trust domain (any more). */
  bundleFor(trustDomain: TrustDomain): Bundle | undefined;
}

// Test fixture: certificates that are valid, or invalid in the one way that a test asks for. It does
// not use the linter.

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { TrustDomain } from '../../../api/values/trust-domain.ts';
import { encodeSignatureAlgorithm, type SignatureAlgorithm } from './algorithms.ts';
import { digestOf } from './algorithms.ts';
import { name } from './build-certificate.ts';
import { Bundle, type BundleSource } from '../bundle/bundle.ts';
import { Certificate } from './certificate.ts';
import { contextConstructed, contextPrimitive, DerWriter, tags } from './der.ts';
import { keyUsageBits } from './extensions.ts';
import { exportPkcs8, PublicKey } from './keys.ts';
import { certificatePem, privateKeyPem } from './pem.ts';
import type { TlsCredential } from '../tls/options.ts';

export interface ForgeOptions {
  /** Self-signed where undefined. */
  readonly issuer?: Forged;
  /** Overrides the issuer's name. */
  readonly issuerName?: Buffer;
  readonly subject?: Buffer;
  readonly key?: KeyObject;
  /** Overrides the algorithm of the key. */
  readonly spki?: Buffer;
  readonly serial?: Buffer;
  /** Defaults that are valid in every test. */
  readonly notBeforeMs?: number;
  readonly notAfterMs?: number;
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly sanCritical?: boolean;
  /** null leaves basic constraints out. */
  readonly ca?: boolean | null;
  readonly basicConstraintsCritical?: boolean;
  readonly pathLength?: number;
  /** null leaves key usage out. */
  readonly keyUsage?: number | null;
  readonly keyUsageCritical?: boolean;
  /** Dotted; undefined leaves it out. */
  readonly purposes?: readonly Buffer[];
  /** Whole extensions, made by `extension`. */
  readonly extra?: readonly Buffer[];
  readonly algorithm?: SignatureAlgorithm;
  /** Overrides the encoding of the algorithm. */
  readonly algorithmIdentifier?: Buffer;
  /** Signs with the issuer's name but another key. */
  readonly signingKey?: KeyObject;
}

export interface Forged {
  readonly der: Buffer;
  readonly certificate: Certificate;
  readonly key: KeyObject;
}

export const hourMs = 3_600_000;
export const purposes = {
  server: Buffer.from('2b06010505070301', 'hex'),
  client: Buffer.from('2b06010505070302', 'hex'),
} as const;
export const ecKey = (): KeyObject =>
  generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey;

export function extension(oidHex: string, critical: boolean, value: Uint8Array): Buffer {
  const writer = new DerWriter();
  const outer = writer.open(tags.sequence);
  writer.element(tags.oid, Buffer.from(oidHex, 'hex'));
  if (critical) writer.element(tags.boolean, Buffer.of(0xff));
  writer.element(tags.octetString, value);
  writer.close(outer);
  return writer.take();
}

function encoded(write: (writer: DerWriter) => void): Buffer {
  const writer = new DerWriter();
  write(writer);
  return writer.take();
}

function sequenceOf(write: (writer: DerWriter) => void): Buffer {
  return encoded((writer) => {
    const outer = writer.open(tags.sequence);
    write(writer);
    writer.close(outer);
  });
}

function extensionsOf(options: ForgeOptions, ca: boolean): readonly Buffer[] {
  const list: Buffer[] = [];
  const bits =
    options.keyUsage === undefined
      ? ca
        ? keyUsageBits.keyCertSign
        : keyUsageBits.digitalSignature
      : options.keyUsage;
  if (bits !== null) {
    let byte = 0;
    for (let i = 0; i < 8; i++) if ((bits & (1 << i)) !== 0) byte |= 0x80 >> i;
    const unused = 31 - Math.clz32(byte & -byte);
    const bitString = encoded((writer) => writer.bitString(Buffer.of(byte), unused));
    list.push(extension('551d0f', options.keyUsageCritical ?? true, bitString));
  }
  if (options.ca !== null) {
    const constraints = sequenceOf((writer) => {
      if (ca) writer.element(tags.boolean, Buffer.of(0xff));
      if (options.pathLength !== undefined) writer.unsigned(Buffer.of(options.pathLength));
    });
    list.push(extension('551d13', options.basicConstraintsCritical ?? true, constraints));
  }
  if (options.purposes !== undefined) {
    const oids = options.purposes;
    const oidList = sequenceOf((writer) => {
      for (const oid of oids) writer.element(tags.oid, oid);
    });
    list.push(extension('551d25', false, oidList));
  }
  const { uris = [], dnsNames = [] } = options;
  if (uris.length + dnsNames.length > 0) {
    const names = sequenceOf((writer) => {
      for (const uri of uris) writer.ascii(contextPrimitive(6), uri);
      for (const dns of dnsNames) writer.ascii(contextPrimitive(2), dns);
    });
    list.push(extension('551d11', options.sanCritical ?? false, names));
  }
  return [...list, ...(options.extra ?? [])];
}

export function forge(options: ForgeOptions): Forged {
  const key = options.key ?? ecKey();
  const spki = options.spki ?? PublicKey.of(key).spki;
  const subject = options.subject ?? name('test', `${forged++}`);
  const { issuer } = options;
  const signingKey = options.signingKey ?? issuer?.key ?? key;
  const algorithm = options.algorithm ?? defaultAlgorithm(signingKey);
  const identifier = options.algorithmIdentifier ?? encodeSignatureAlgorithm(algorithm);
  const ca = options.ca ?? issuer === undefined;
  const tbs = sequenceOf((writer) => {
    writer.raw(Buffer.from('a003020102', 'hex'));
    writer.unsigned(options.serial ?? Buffer.from('5a5a5a5a5a5a5a5a5a', 'hex'));
    writer.raw(identifier);
    writer.raw(options.issuerName ?? issuer?.certificate.subject ?? subject);
    const validity = writer.open(tags.sequence);
    writer.time(options.notBeforeMs ?? Date.UTC(2020, 0));
    writer.time(options.notAfterMs ?? Date.UTC(2049, 0));
    writer.close(validity);
    writer.raw(subject);
    writer.raw(spki);
    const explicit = writer.open(contextConstructed(3));
    const list = writer.open(tags.sequence);
    for (const one of extensionsOf(options, ca)) writer.raw(one);
    writer.close(list);
    writer.close(explicit);
  });
  const der = sequenceOf((writer) => {
    writer.raw(tbs);
    writer.raw(identifier);
    writer.bitString(sign(digestOf(algorithm), tbs, signingKey));
  });
  return {
    der,
    key,
    get certificate() {
      return Certificate.parse(der);
    },
  };
}

let forged = 0;

function defaultAlgorithm(key: KeyObject): SignatureAlgorithm {
  if (key.asymmetricKeyType === 'rsa') return 'rsa-sha256';
  return key.asymmetricKeyType === 'ed25519' ? 'ed25519' : 'ecdsa-sha256';
}

export function wholeSecond(ms: number): number {
  return Math.floor(ms / 1000) * 1000;
}

/** A self-signed authority of a trust domain. */
export function forgeRoot(trustDomain: string, options: ForgeOptions = {}): Forged {
  return forge({ uris: [`spiffe://${trustDomain}`], ca: true, ...options });
}

/** A leaf with both purposes. */
export function forgeLeaf(issuer: Forged, uri: string, options: ForgeOptions = {}): Forged {
  return forge({
    issuer,
    uris: [uri],
    ca: false,
    purposes: [purposes.server, purposes.client],
    ...options,
  });
}

/** The credential of a TLS peer. */
export function credentialOf(leaf: Forged, ...above: readonly Forged[]): TlsCredential {
  return {
    certificateChain: [leaf, ...above].map(({ der }) => certificatePem(der)).join(''),
    privateKey: privateKeyPem(exportPkcs8(leaf.key)),
  };
}

/** Bundles that a test can change: `set` and `remove` take effect at the next look-up. */
export class BundleTable implements BundleSource {
  readonly #bundles = new Map<string, Bundle>();

  set(trustDomain: string, ...authorities: readonly Forged[]): this {
    const bundle = new Bundle(
      TrustDomain.parse(trustDomain),
      authorities.map(({ certificate }) => certificate),
    );
    this.#bundles.set(trustDomain, bundle);
    return this;
  }

  remove(trustDomain: string): void {
    this.#bundles.delete(trustDomain);
  }

  bundleFor(trustDomain: TrustDomain): Bundle | undefined {
    return this.#bundles.get(trustDomain.name);
  }
}

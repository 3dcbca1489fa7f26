// Templates that speed up issuing. Leaves of one identity differ only in serial number, times and
// key. The rest is encoded and parsed once; for each leaf these fields are overwritten in place, and
// the linter reads them from the bytes that are then signed.

import type { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { unpooledCopy } from '../../memory/unpooled-copy.ts';
import type { KeyAlgorithm } from './algorithms.ts';
import { emptyName, encodeTbs } from './build-certificate.ts';
import {
  type Certificate,
  type CertificateFields,
  readTbs,
  readValidity,
  type Validity,
} from './certificate.ts';
import { DerReader } from './der-reader.ts';
import { timeElement } from './der.ts';
import { keyUsageBits } from './extensions.ts';
import type { PublicKey } from './keys.ts';
import { lintLeaf } from './lint.ts';
import type { Signer } from './signer.ts';

export interface Leaf {
  readonly id: SpiffeId;
  /** Big-endian, positive, without leading zeros. */
  readonly serial: Buffer;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly publicKey: PublicKey;
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** Most templates, about 2 KiB each. Identities beyond them cost as much as without templates. */
const maxTemplates = 1024;

/** The leaves that one authority signs. */
export class LeafTemplates {
  readonly #trustDomain: TrustDomain;
  readonly #issuer: Certificate;
  readonly #signer: Signer;
  /** By identity: the last that was signed for it. */
  readonly #templates = new Map<string, Template>();

  constructor(trustDomain: TrustDomain, issuer: Certificate, signer: Signer) {
    this.#trustDomain = trustDomain;
    this.#issuer = issuer;
    this.#signer = signer;
  }

  /** The bytes to be signed, linted. Throws HANSA_CERTIFICATE_INVALID naming the rule. */
  encode(leaf: Leaf): Buffer {
    const key = leaf.id.toString();
    const known = this.#templates.get(key);
    if (known?.fits(leaf) === true) {
      known.overwrite(leaf);
      lintLeaf(known.fields, this.#trustDomain, leaf);
      // A copy, because other leaves overwrite the template while this one is signed.
      return Buffer.from(known.tbs);
    }
    const made = new Template(leaf, this.#issuer, this.#signer);
    lintLeaf(made.fields, this.#trustDomain, leaf);
    if (this.#templates.size === maxTemplates) this.#templates.clear();
    this.#templates.set(key, made);
    return Buffer.from(made.tbs);
  }
}

class Template {
  readonly tbs: Buffer;
  /** What `tbs` says: views of it, but for the times. */
  readonly fields: CertificateFields & Validity;
  readonly #validity: Buffer;
  readonly #keyId: Buffer;
  readonly #keyAlgorithm: KeyAlgorithm;
  readonly #dnsNames: readonly string[];
  readonly #ipAddresses: readonly string[];

  constructor(leaf: Leaf, issuer: Certificate, signer: Signer) {
    const { id, publicKey, dnsNames, ipAddresses } = leaf;
    const encoded = encodeTbs(
      {
        ...leaf,
        issuer: issuer.subject,
        subject: emptyName,
        uris: [id.toString()],
        keyUsage: keyUsageBits.digitalSignature,
        authorityKeyId: signer.publicKey.keyId,
      },
      signer.algorithm,
    );
    this.tbs = unpooledCopy(encoded);
    this.fields = readTbs(this.tbs);
    const { issuer: before, subject: behind, extensions } = this.fields;
    const start = before.byteOffset + before.length;
    this.#validity = Buffer.from(this.tbs.buffer, start, behind.byteOffset - start);
    this.#keyId = extensions.subjectKeyId as Buffer;
    this.#keyAlgorithm = publicKey.algorithm;
    this.#dnsNames = dnsNames;
    this.#ipAddresses = ipAddresses;
  }

  /** Whether a leaf differs only in fields that can be overwritten with the same length. */
  fits(leaf: Leaf): boolean {
    const { serial, spki } = this.fields;
    const first = leaf.serial[0] as number;
    return (
      leaf.serial.length === serial.length &&
      first > 0 &&
      first < 0x80 &&
      leaf.publicKey.algorithm === this.#keyAlgorithm &&
      leaf.publicKey.spki.length === spki.length &&
      (this.#hasTimesOf(leaf) ||
        timeElement(leaf.notBeforeMs).length + timeElement(leaf.notAfterMs).length + 2 ===
          this.#validity.length) &&
      same(leaf.dnsNames, this.#dnsNames) &&
      same(leaf.ipAddresses, this.#ipAddresses)
    );
  }

  overwrite(leaf: Leaf): void {
    const { serial, spki } = this.fields;
    serial.set(leaf.serial);
    spki.set(leaf.publicKey.spki);
    this.#keyId.set(leaf.publicKey.keyId);
    // Leaves of the same second share their times.
    if (this.#hasTimesOf(leaf)) return;
    const notBefore = timeElement(leaf.notBeforeMs);
    this.#validity.set(notBefore, 2);
    this.#validity.set(timeElement(leaf.notAfterMs), 2 + notBefore.length);
    readValidity(new DerReader(this.#validity), this.fields);
  }

  #hasTimesOf({ notBeforeMs, notAfterMs }: Leaf): boolean {
    return this.fields.notBeforeMs === notBeforeMs && this.fields.notAfterMs === notAfterMs;
  }
}

function same(some: readonly string[], others: readonly string[]): boolean {
  return (
    some === others ||
    (some.length === others.length && some.every((text, i) => text === others[i]))
  );
}

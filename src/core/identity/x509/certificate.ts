// A certificate, parsed once into an immutable value (RFC 5280 §4.1). This file reads extensions;
// lint.ts and svid-validator.ts decide whether the certificate is valid.

import { createPublicKey, hash, type KeyObject } from 'node:crypto';
import { unpooledCopy } from '../../memory/unpooled-copy.ts';
import { readSignatureAlgorithm, readSubjectPublicKey } from './algorithms.ts';
import type { SignatureAlgorithm, SubjectPublicKey } from './algorithms.ts';
import { assertDer, DerReader } from './der-reader.ts';
import { contextConstructed, contextPrimitive, tags } from './der.ts';
import { type Extensions, readExtensions } from './extensions.ts';
import { refuse } from './rules.ts';

/** Far above any SVID, and small enough that parsing is cheap. */
export const maxCertificateBytes = 16 * 1024;

/** What is signed: the TBSCertificate, field by field. Buffers must not be written to. */
export interface CertificateFields {
  /** The whole AlgorithmIdentifier, allowed or not. */
  readonly signatureIdentifier: Buffer;
  /** Two's complement bytes in their shortest form. */
  readonly serial: Buffer;
  /** Names as whole DER elements: they are compared, never shown. */
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** The SubjectPublicKeyInfo as a whole element. */
  readonly spki: Buffer;
  readonly extensions: Extensions;
}

export class Certificate implements CertificateFields {
  /** The whole certificate. */
  readonly der: Buffer;
  /** The signed part. */
  readonly tbs: Buffer;
  readonly signature: Buffer;
  readonly signatureIdentifier: Buffer;
  readonly serial: Buffer;
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly spki: Buffer;
  readonly extensions: Extensions;
  #fingerprint: string | undefined;
  #subjectPublicKey: SubjectPublicKey | undefined;
  #publicKey: KeyObject | undefined;

  private constructor(der: Buffer, tbs: Buffer, signature: Buffer, fields: CertificateFields) {
    this.der = der;
    this.tbs = tbs;
    this.signature = signature;
    this.signatureIdentifier = fields.signatureIdentifier;
    this.serial = fields.serial;
    this.issuer = fields.issuer;
    this.subject = fields.subject;
    this.notBeforeMs = fields.notBeforeMs;
    this.notAfterMs = fields.notAfterMs;
    this.spki = fields.spki;
    this.extensions = fields.extensions;
  }

  /** Copies its input. Throws HANSA_CERTIFICATE_INVALID. Linear in the input, which is bounded. */
  static parse(input: Uint8Array): Certificate {
    if (input.byteLength > maxCertificateBytes) {
      throw refuse(
        'size-limit',
        `it has ${input.byteLength} bytes, and the limit is ${maxCertificateBytes}`,
      );
    }
    // An unpooled copy, because authorities stay in memory for months.
    const der = unpooledCopy(input);
    assertDer(der);
    const reader = new DerReader(der);
    const outer = reader.enter(tags.sequence);
    const tbs = reader.raw(tags.sequence);
    const signatureIdentifier = reader.raw(tags.sequence);
    const signature = reader.octetAlignedBitString();
    reader.leave(outer);
    reader.finish();
    const fields = readTbs(tbs);
    // RFC 5280 §4.1.1.2: the unsigned copy of the algorithm must be the signed one.
    if (!signatureIdentifier.equals(fields.signatureIdentifier)) {
      throw refuse('signature-algorithm', 'it names two different signature algorithms');
    }
    return new Certificate(der, tbs, signature, fields);
  }

  get serialHex(): string {
    return this.serial.toString('hex');
  }

  /** SHA-256 of the whole certificate, in hex. */
  get fingerprint(): string {
    this.#fingerprint ??= hash('sha256', this.der, 'hex');
    return this.#fingerprint;
  }

  /** Throws HANSA_CERTIFICATE_INVALID (signature-algorithm) where it is not an allowed one. */
  get signatureAlgorithm(): SignatureAlgorithm {
    return readSignatureAlgorithm(this.signatureIdentifier);
  }

  /** Throws HANSA_CERTIFICATE_INVALID (public-key) where it is not an allowed one. */
  get subjectPublicKey(): SubjectPublicKey {
    this.#subjectPublicKey ??= readSubjectPublicKey(this.spki);
    return this.#subjectPublicKey;
  }

  /** The key, ready to verify with. Importing costs more than a verification, so it is kept. */
  get publicKey(): KeyObject {
    if (this.#publicKey === undefined) {
      // Rejects keys that are not allowed before OpenSSL sees them.
      readSubjectPublicKey(this.spki);
      try {
        this.#publicKey = createPublicKey({ key: this.spki, format: 'der', type: 'spki' });
      } catch (cause) {
        throw refuse('public-key', 'its key is not a valid one', cause);
      }
    }
    return this.#publicKey;
  }
}

export interface Validity {
  notBeforeMs: number;
  notAfterMs: number;
}

/** RFC 5280 §4.1.2.5. */
export function readValidity(reader: DerReader, found: Validity): void {
  const outer = reader.enter(tags.sequence);
  found.notBeforeMs = reader.time();
  found.notAfterMs = reader.time();
  reader.leave(outer);
}

/** TBSCertificate, RFC 5280 §4.1. `tbs` is the whole element. */
export function readTbs(tbs: Uint8Array): CertificateFields {
  const reader = new DerReader(tbs);
  const outer = reader.enter(tags.sequence);
  if (reader.peek() !== contextConstructed(0)) {
    throw refuse('version-3', 'it is not version 3, so it has no extensions');
  }
  const version = reader.enter(contextConstructed(0));
  if (reader.smallInteger() !== 2) throw refuse('version-3', 'it is not version 3');
  reader.leave(version);
  const serial = reader.integer();
  const signatureIdentifier = reader.raw(tags.sequence);
  const issuer = reader.raw(tags.sequence);
  const validity = { notBeforeMs: 0, notAfterMs: 0 };
  readValidity(reader, validity);
  const subject = reader.raw(tags.sequence);
  const spki = reader.raw(tags.sequence);
  // Unique identifiers (§4.1.2.8) must not be generated but may be met; nothing depends on them.
  if (reader.peek() === contextPrimitive(1)) reader.raw(contextPrimitive(1));
  if (reader.peek() === contextPrimitive(2)) reader.raw(contextPrimitive(2));
  const explicit = reader.enter(contextConstructed(3));
  const extensions = readExtensions(reader);
  reader.leave(explicit);
  reader.leave(outer);
  reader.finish();
  return {
    signatureIdentifier,
    serial,
    issuer,
    subject,
    ...validity,
    spki,
    extensions,
  };
}

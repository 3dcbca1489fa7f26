// Builds certificates. The linter reads back the exact bytes before the signer signs them, so it
// catches bugs of the builder as well as invalid requests.

import type { CertificateFields } from './certificate.ts';
import { readTbs } from './certificate.ts';
import { encodeSignatureAlgorithm } from './algorithms.ts';
import type { SignatureAlgorithm } from './algorithms.ts';
import { contextConstructed, contextPrimitive, DerWriter, elementLength, tags } from './der.ts';
import { ipAddressBytes } from './ip-address.ts';
import { refuse } from './rules.ts';
import type { Signer } from './signer.ts';
import type { PublicKey } from './keys.ts';

export interface CertificateRequest {
  /** Big-endian magnitude. */
  readonly serial: Uint8Array;
  /** Names as whole DER elements: `emptyName`, or made by `name`. */
  readonly issuer: Uint8Array;
  readonly subject: Uint8Array;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly publicKey: PublicKey;
  readonly uris: readonly string[];
  readonly dnsNames?: readonly string[] | undefined;
  readonly ipAddresses?: readonly string[] | undefined;
  /** A signing certificate where set. */
  readonly ca?: { readonly pathLength?: number };
  /** Bits of `keyUsageBits`. */
  readonly keyUsage: number;
  /** Undefined for a certificate that signs itself. */
  readonly authorityKeyId?: Uint8Array;
}

/** The empty subject of a leaf, whose names are in the subject alternative name. */
export const emptyName: Buffer = Buffer.from([tags.sequence, 0]);

const oidOrganization = Buffer.from('55040a', 'hex');
const oidCommonName = Buffer.from('550403', 'hex');

export function name(organization: string, commonName: string): Buffer {
  const writer = new DerWriter(128);
  const outer = writer.open(tags.sequence);
  for (const [oid, value] of [
    [oidOrganization, organization],
    [oidCommonName, commonName],
  ] as const) {
    const set = writer.open(tags.set);
    const attribute = writer.open(tags.sequence);
    writer.element(tags.oid, oid);
    writer.element(tags.utf8String, Buffer.from(value));
    writer.close(attribute);
    writer.close(set);
  }
  writer.close(outer);
  return writer.take();
}

const version3 = Buffer.from('a003020102', 'hex');
const critical = Buffer.from('0101ff', 'hex');
const oids = {
  subjectKeyId: Buffer.from('0603551d0e', 'hex'),
  keyUsage: Buffer.from('0603551d0f', 'hex'),
  subjectAlternativeName: Buffer.from('0603551d11', 'hex'),
  basicConstraints: Buffer.from('0603551d13', 'hex'),
  authorityKeyId: Buffer.from('0603551d23', 'hex'),
} as const;
/** The whole extension: serverAuth and clientAuth (X.509-SVID §4.4). */
const extendedKeyUsage = Buffer.from(
  '301d0603551d250416301406082b0601050507030106082b06010505070302',
  'hex',
);
/** The whole extension: critical, cA false. */
const notCa = Buffer.from('300c0603551d130101ff04023000', 'hex');

const noNames: readonly string[] = Object.freeze([]);

/** Building is synchronous, so one writer serves all. */
const writer = new DerWriter(2048);

/** The bytes to be signed. Grows with the names; about 3 µs for an SVID. */
export function encodeTbs(request: CertificateRequest, algorithm: SignatureAlgorithm): Buffer {
  const { uris, dnsNames = noNames, ipAddresses = noNames } = request;
  const addresses = ipAddresses.map(addressOf);
  writer.reset();
  const tbs = writer.open(tags.sequence);
  writer.raw(version3);
  writer.unsigned(request.serial);
  writer.raw(encodeSignatureAlgorithm(algorithm));
  writer.raw(request.issuer);
  const validity = writer.open(tags.sequence);
  writer.time(request.notBeforeMs);
  writer.time(request.notAfterMs);
  writer.close(validity);
  writer.raw(request.subject);
  writer.raw(request.publicKey.spki);

  const explicit = writer.open(contextConstructed(3));
  const extensions = writer.open(tags.sequence);
  writeKeyUsage(request.keyUsage);
  if (request.ca === undefined) {
    writer.raw(extendedKeyUsage);
    writer.raw(notCa);
  } else {
    writeBasicConstraints(request.ca.pathLength);
  }
  openExtension(oids.subjectKeyId, false);
  writer.element(tags.octetString, request.publicKey.keyId);
  closeExtension();
  if (request.authorityKeyId !== undefined) {
    openExtension(oids.authorityKeyId, false);
    const sequence = writer.open(tags.sequence);
    writer.element(contextPrimitive(0), request.authorityKeyId);
    writer.close(sequence);
    closeExtension();
  }
  if (uris.length + dnsNames.length + addresses.length > 0) {
    // RFC 5280 §4.1.2.6: critical where the subject is empty.
    openExtension(oids.subjectAlternativeName, request.subject.length === emptyName.length);
    const sequence = writer.open(tags.sequence);
    for (const uri of uris) writer.ascii(contextPrimitive(6), asciiOnly(uri));
    for (const dns of dnsNames) writer.ascii(contextPrimitive(2), asciiOnly(dns));
    for (const address of addresses) writer.element(contextPrimitive(7), address);
    writer.close(sequence);
    closeExtension();
  }
  writer.close(extensions);
  writer.close(explicit);
  writer.close(tbs);
  return writer.take();
}

let extensionMark = 0;
let valueMark = 0;

function openExtension(oid: Buffer, isCritical: boolean): void {
  extensionMark = writer.open(tags.sequence);
  writer.raw(oid);
  if (isCritical) writer.raw(critical);
  valueMark = writer.open(tags.octetString);
}

function closeExtension(): void {
  writer.close(valueMark);
  writer.close(extensionMark);
}

/** Named bits from the lowest; DER has no trailing zeros. Bits above the eighth are never used. */
function writeKeyUsage(bits: number): void {
  openExtension(oids.keyUsage, true);
  let byte = 0;
  for (let i = 0; i < 8; i++) if ((bits & (1 << i)) !== 0) byte |= 0x80 >> i;
  const unused = byte === 0 ? 0 : 31 - Math.clz32(byte & -byte);
  writer.bitString(byte === 0 ? noBits : Buffer.of(byte), unused);
  closeExtension();
}

const noBits = Buffer.alloc(0);
const noUnusedBits = Buffer.alloc(1);

function writeBasicConstraints(pathLength: number | undefined): void {
  openExtension(oids.basicConstraints, true);
  const sequence = writer.open(tags.sequence);
  writer.raw(critical);
  if (pathLength !== undefined) writer.unsigned(Buffer.of(pathLength));
  writer.close(sequence);
  closeExtension();
}

function asciiOnly(text: string): string {
  if (/[^ -~]/.test(text)) {
    throw refuse(
      'subject-alternative-name',
      `the alternative name ${JSON.stringify(text)} is not printable ASCII`,
    );
  }
  return text;
}

function addressOf(text: string): Buffer {
  const bytes = ipAddressBytes(text);
  if (bytes === undefined) {
    throw refuse('subject-alternative-name', `${JSON.stringify(text)} is not an IP address`);
  }
  return bytes;
}

/** Throws where a rule of X.509-SVID is broken; see lint.ts. */
export type Linter = (fields: CertificateFields) => void;

/** Encodes, lints what was encoded, signs. Resolves to the whole certificate. */
export async function buildCertificate(
  request: CertificateRequest,
  signer: Signer,
  lint: Linter,
): Promise<Buffer> {
  const tbs = encodeTbs(request, signer.algorithm);
  lint(readTbs(tbs));
  return assemble(tbs, signer.algorithm, await signer.sign(tbs));
}

export function assemble(tbs: Buffer, algorithm: SignatureAlgorithm, signature: Buffer): Buffer {
  const identifier = encodeSignatureAlgorithm(algorithm);
  const bits = elementLength(1 + signature.length);
  const content = tbs.length + identifier.length + bits;
  // Allocates the exact size to avoid copies.
  const exact = new DerWriter(elementLength(content));
  exact.header(tags.sequence, content);
  exact.raw(tbs);
  exact.raw(identifier);
  exact.header(tags.bitString, 1 + signature.length);
  exact.raw(noUnusedBits);
  exact.raw(signature);
  return exact.whole();
}

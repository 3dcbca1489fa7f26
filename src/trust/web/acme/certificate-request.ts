// The request for a certificate (PKCS #10, RFC 2986), and the certificate that answers a TLS-ALPN-01
// challenge (RFC 8737). Both are for one DNS name and signed with the P-256 key that they carry.

import { createHash, type KeyObject, sign } from 'node:crypto';
import { encodeSignatureAlgorithm } from '../../../core/identity/x509/algorithms.ts';
import { name as distinguishedName } from '../../../core/identity/x509/build-certificate.ts';
import {
  contextConstructed,
  contextPrimitive,
  DerWriter,
  tags,
} from '../../../core/identity/x509/der.ts';
import { PublicKey } from '../../../core/identity/x509/keys.ts';

const version1 = Buffer.from('020100', 'hex');
const version3 = Buffer.from('a003020102', 'hex');
const emptyName = Buffer.from('3000', 'hex');
/** 1.2.840.113549.1.9.14 */
const oidExtensionRequest = Buffer.from('2a864886f70d01090e', 'hex');
/** 2.5.29.17 */
const oidSubjectAlternativeName = Buffer.from('551d11', 'hex');
/** 1.3.6.1.5.5.7.1.31 */
const oidAcmeIdentifier = Buffer.from('2b0601050507011f', 'hex');

/** RFC 8555 §7.4: the name in the order's identifiers, and in nothing else but the alternative name. */
export function certificateRequest(dnsName: string, key: KeyObject): Buffer {
  const writer = new DerWriter();
  const info = writer.open(tags.sequence);
  writer.raw(version1);
  writer.raw(emptyName);
  writer.raw(PublicKey.of(key).spki);
  const attributes = writer.open(contextConstructed(0));
  const attribute = writer.open(tags.sequence);
  writer.element(tags.oid, oidExtensionRequest);
  const values = writer.open(tags.set);
  const extensions = writer.open(tags.sequence);
  writeAlternativeName(writer, dnsName, true);
  for (const mark of [extensions, values, attribute, attributes, info]) writer.close(mark);
  return signed(writer.take(), key);
}

/** RFC 8737 §3: self-signed, for exactly this name, with the digest of the key authorization. */
export function challengeCertificate(
  dnsName: string,
  keyAuthorization: string,
  key: KeyObject,
  nowMs: number,
): Buffer {
  const writer = new DerWriter();
  const self = distinguishedName('ACME challenge', 'not to be trusted');
  const tbs = writer.open(tags.sequence);
  writer.raw(version3);
  writer.unsigned(Buffer.of(1));
  writer.raw(encodeSignatureAlgorithm('ecdsa-sha256'));
  writer.raw(self);
  const validity = writer.open(tags.sequence);
  const second = Math.floor(nowMs / 1000) * 1000;
  writer.time(second - 3_600_000);
  writer.time(second + 24 * 3_600_000);
  writer.close(validity);
  writer.raw(self);
  writer.raw(PublicKey.of(key).spki);
  const explicit = writer.open(contextConstructed(3));
  const extensions = writer.open(tags.sequence);
  writeAlternativeName(writer, dnsName, false);
  const digest = new DerWriter(64);
  digest.element(tags.octetString, createHash('sha256').update(keyAuthorization).digest());
  writeExtension(writer, oidAcmeIdentifier, true, digest.take());
  for (const mark of [extensions, explicit, tbs]) writer.close(mark);
  return signed(writer.take(), key);
}

function writeAlternativeName(writer: DerWriter, dnsName: string, critical: boolean): void {
  const names = new DerWriter(256);
  const sequence = names.open(tags.sequence);
  names.ascii(contextPrimitive(2), dnsName);
  names.close(sequence);
  writeExtension(writer, oidSubjectAlternativeName, critical, names.take());
}

function writeExtension(
  writer: DerWriter,
  oid: Buffer,
  critical: boolean,
  value: Uint8Array,
): void {
  const extension = writer.open(tags.sequence);
  writer.element(tags.oid, oid);
  if (critical) writer.element(tags.boolean, Buffer.of(0xff));
  writer.element(tags.octetString, value);
  writer.close(extension);
}

function signed(toBeSigned: Buffer, key: KeyObject): Buffer {
  const writer = new DerWriter();
  const outer = writer.open(tags.sequence);
  writer.raw(toBeSigned);
  writer.raw(encodeSignatureAlgorithm('ecdsa-sha256'));
  writer.bitString(sign('sha256', toBeSigned, key));
  writer.close(outer);
  return writer.take();
}

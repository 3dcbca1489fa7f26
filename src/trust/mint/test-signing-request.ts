// For tests only: valid and invalid signing requests.

import { createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import {
  contextConstructed,
  contextPrimitive,
  DerWriter,
  tags,
} from '../../core/identity/x509/der.ts';

export interface Forged {
  readonly uris?: readonly string[];
  readonly dnsNames?: readonly string[];
  readonly ipAddresses?: readonly Buffer[];
  readonly mails?: readonly string[];
  readonly ca?: boolean;
  /** As it stands in the BIT STRING, its unused bits first. */
  readonly keyUsage?: string;
  readonly version?: number;
  /** More extensions, as whole elements. */
  readonly extensions?: readonly Buffer[];
  /** How often the attribute with the extensions is there. */
  readonly times?: number;
  readonly key?: KeyObject;
  /** Another key than the one in the request. */
  readonly signedBy?: KeyObject;
  readonly digest?: string;
  /** The AlgorithmIdentifier in hex. */
  readonly algorithm?: string;
}

export const p256 = (): KeyObject =>
  generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey;

const defaultKey = p256();

export function forge(forged: Forged = {}): Buffer {
  const { key = defaultKey, signedBy = key, digest = 'sha256' } = forged;
  const info = requestInfo(forged, key);
  const writer = new DerWriter();
  const outer = writer.open(tags.sequence);
  writer.raw(info);
  writer.raw(Buffer.from(forged.algorithm ?? '300a06082a8648ce3d040302', 'hex'));
  writer.bitString(sign(digest, info, signedBy));
  writer.close(outer);
  return writer.take();
}

function requestInfo(forged: Forged, key: KeyObject): Buffer {
  const writer = new DerWriter();
  const outer = writer.open(tags.sequence);
  writer.unsigned(Buffer.of(forged.version ?? 0));
  writer.raw(Buffer.from('3000', 'hex'));
  writer.raw(createPublicKey(key).export({ format: 'der', type: 'spki' }));
  const attributes = writer.open(contextConstructed(0));
  for (let i = 0; i < (forged.times ?? 1); i++) writeExtensions(writer, forged);
  writer.close(attributes);
  writer.close(outer);
  return writer.take();
}

function writeExtensions(writer: DerWriter, forged: Forged): void {
  const { uris = ['spiffe://lubeck.example/db'], dnsNames = [], ipAddresses = [] } = forged;
  const attribute = writer.open(tags.sequence);
  writer.element(tags.oid, Buffer.from('2a864886f70d01090e', 'hex'));
  const values = writer.open(tags.set);
  const extensions = writer.open(tags.sequence);
  if (uris.length + dnsNames.length + ipAddresses.length + (forged.mails?.length ?? 0) > 0) {
    extension(writer, '551d11', (inner) => {
      const names = inner.open(tags.sequence);
      for (const uri of uris) inner.element(contextPrimitive(6), Buffer.from(uri));
      for (const dns of dnsNames) inner.element(contextPrimitive(2), Buffer.from(dns));
      for (const address of ipAddresses) inner.element(contextPrimitive(7), address);
      for (const mail of forged.mails ?? []) inner.element(contextPrimitive(1), Buffer.from(mail));
      inner.close(names);
    });
  }
  if (forged.ca !== undefined) {
    extension(writer, '551d13', (inner) =>
      inner.raw(Buffer.from(forged.ca === true ? '30030101ff' : '3000', 'hex')),
    );
  }
  if (forged.keyUsage !== undefined) {
    extension(writer, '551d0f', (inner) =>
      inner.element(tags.bitString, Buffer.from(forged.keyUsage ?? '', 'hex')),
    );
  }
  for (const more of forged.extensions ?? []) writer.raw(more);
  writer.close(extensions);
  writer.close(values);
  writer.close(attribute);
}

function extension(writer: DerWriter, oid: string, write: (inner: DerWriter) => void): void {
  const outer = writer.open(tags.sequence);
  writer.element(tags.oid, Buffer.from(oid, 'hex'));
  const value = writer.open(tags.octetString);
  write(writer);
  writer.close(value);
  writer.close(outer);
}

// Parses the certificate extensions that matter to SVIDs (RFC 5280 §4.2). Of other extensions it only
// records the critical ones, because a certificate with an unknown critical extension must be
// rejected.

import type { DerReader } from './der-reader.ts';
import { contextConstructed, contextPrimitive, tags } from './der.ts';
import { ipAddressText } from './ip-address.ts';
import { refuse } from './rules.ts';

export interface SubjectAlternativeName {
  readonly critical: boolean;
  /** As in the certificate; not yet checked to be URIs. */
  readonly uris: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  /** Names of other types: e-mail addresses, directory names and so on. */
  readonly others: number;
}

export interface BasicConstraints {
  readonly critical: boolean;
  readonly ca: boolean;
  readonly pathLength: number | undefined;
}

export interface KeyUsage {
  readonly critical: boolean;
  readonly bits: number;
}

/** RFC 5280 §4.2.1.3, bit 0 lowest. */
export const keyUsageBits = {
  digitalSignature: 1 << 0,
  keyEncipherment: 1 << 2,
  keyAgreement: 1 << 4,
  keyCertSign: 1 << 5,
  crlSign: 1 << 6,
} as const;

export const serverAuth = '1.3.6.1.5.5.7.3.1';
export const clientAuth = '1.3.6.1.5.5.7.3.2';

export interface Extensions {
  readonly subjectAlternativeName: SubjectAlternativeName | undefined;
  readonly basicConstraints: BasicConstraints | undefined;
  readonly keyUsage: KeyUsage | undefined;
  /** Dotted object identifiers. */
  readonly extendedKeyUsage: readonly string[] | undefined;
  readonly subjectKeyId: Buffer | undefined;
  readonly authorityKeyId: Buffer | undefined;
  readonly nameConstraints: boolean;
  /** Dotted object identifiers of unknown critical extensions. */
  readonly unknownCritical: readonly string[];
}

/** No real certificate needs more. The limit keeps the search for duplicates cheap. */
const maxExtensions = 32;

const none: readonly string[] = Object.freeze([]);

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Reads the SEQUENCE of extensions that comes next. */
export function readExtensions(reader: DerReader): Extensions {
  const found: Mutable<Extensions> = {
    subjectAlternativeName: undefined,
    basicConstraints: undefined,
    keyUsage: undefined,
    extendedKeyUsage: undefined,
    subjectKeyId: undefined,
    authorityKeyId: undefined,
    nameConstraints: false,
    unknownCritical: none,
  };
  const unknownCritical: string[] = [];
  const seen: string[] = [];
  const outer = reader.enter(tags.sequence);
  while (reader.peek() !== -1) {
    const extension = reader.enter(tags.sequence);
    const number = reader.extensionNumber();
    const oid = number === -1 ? reader.oid() : (idCe[number] as string);
    if (seen.includes(oid)) {
      throw refuse('duplicate-extension', `it has a duplicate extension ${oid}`);
    }
    if (seen.push(oid) > maxExtensions) {
      throw refuse('size-limit', `it has more than ${maxExtensions} extensions`);
    }
    let critical = false;
    if (reader.peek() === tags.boolean) {
      critical = reader.boolean();
      // X.690 §11.5: a default value is left out.
      if (!critical) throw reader.malformed('it spells out a default');
    }
    if (!known.has(number)) {
      reader.raw(tags.octetString);
      if (critical) unknownCritical.push(oid);
    } else {
      const value = reader.enter(tags.octetString);
      readKnown(found, number, critical, reader);
      reader.leave(value);
    }
    reader.leave(extension);
  }
  if (seen.length === 0) throw reader.malformed('it has an empty list of extensions');
  reader.leave(outer);
  if (unknownCritical.length > 0) found.unknownCritical = unknownCritical;
  return found;
}

/** 2.5.29.n as texts, made once. */
const idCe: readonly string[] = Array.from({ length: 128 }, (_, n) => `2.5.29.${n}`);

const known: ReadonlySet<number> = new Set([14, 15, 17, 19, 30, 35, 37]);

function readKnown(
  found: Mutable<Extensions>,
  number: number,
  critical: boolean,
  reader: DerReader,
): void {
  switch (number) {
    case 14:
      found.subjectKeyId = reader.content(tags.octetString);
      break;
    case 15:
      found.keyUsage = { critical, bits: reader.namedBits() };
      break;
    case 17:
      found.subjectAlternativeName = readSubjectAlternativeName(reader, critical);
      break;
    case 19:
      found.basicConstraints = readBasicConstraints(reader, critical);
      break;
    case 30:
      reader.raw(tags.sequence);
      found.nameConstraints = true;
      break;
    case 35:
      found.authorityKeyId = readAuthorityKeyId(reader);
      break;
    default:
      found.extendedKeyUsage = readExtendedKeyUsage(reader);
  }
}

const generalName = {
  dns: contextPrimitive(2),
  uri: contextPrimitive(6),
  ip: contextPrimitive(7),
} as const;

/** RFC 5280 §4.2.1.6. */
function readSubjectAlternativeName(reader: DerReader, critical: boolean): SubjectAlternativeName {
  const uris: string[] = [];
  const dnsNames: string[] = [];
  const ipAddresses: string[] = [];
  let others = 0;
  const outer = reader.enter(tags.sequence);
  for (let tag = reader.peek(); tag !== -1; tag = reader.peek()) {
    if (tag === generalName.uri) {
      uris.push(ia5(reader.latin1(tag)));
    } else if (tag === generalName.dns) {
      dnsNames.push(ia5(reader.latin1(tag)));
    } else if (tag === generalName.ip) {
      const address = reader.content(tag);
      if (address.length !== 4 && address.length !== 16) {
        throw refuse('subject-alternative-name', `it has an IP address of ${address.length} bytes`);
      }
      ipAddresses.push(ipAddressText(address));
    } else if ((tag & 0xc0) === 0x80 && (tag & 0x1f) <= 8) {
      reader.raw(tag);
      others++;
    } else {
      throw reader.malformed('it has an alternative name of no known type');
    }
  }
  reader.leave(outer);
  if (uris.length + dnsNames.length + ipAddresses.length + others === 0) {
    throw refuse('subject-alternative-name', 'it has an empty subject alternative name');
  }
  return { critical, uris, dnsNames, ipAddresses, others };
}

function ia5(text: string): string {
  if (/[^\0-\x7f]/.test(text)) {
    throw refuse('subject-alternative-name', 'it has an alternative name that is not ASCII');
  }
  return text;
}

/** RFC 5280 §4.2.1.9. */
function readBasicConstraints(reader: DerReader, critical: boolean): BasicConstraints {
  const outer = reader.enter(tags.sequence);
  let ca = false;
  let pathLength: number | undefined;
  if (reader.peek() === tags.boolean) {
    ca = reader.boolean();
    if (!ca) throw reader.malformed('it spells out a default');
  }
  if (reader.peek() === tags.integer) {
    pathLength = reader.smallInteger();
    if (!ca) throw refuse('leaf-not-ca', 'it has a path length but is not a CA');
  }
  reader.leave(outer);
  return { critical, ca, pathLength };
}

/** RFC 5280 §4.2.1.1; issuer and serial number in it name what the path already tells. */
function readAuthorityKeyId(reader: DerReader): Buffer | undefined {
  const outer = reader.enter(tags.sequence);
  const id =
    reader.peek() === contextPrimitive(0) ? reader.content(contextPrimitive(0)) : undefined;
  if (reader.peek() === contextConstructed(1)) reader.raw(contextConstructed(1));
  if (reader.peek() === contextPrimitive(2)) reader.raw(contextPrimitive(2));
  reader.leave(outer);
  return id;
}

/** RFC 5280 §4.2.1.12. */
function readExtendedKeyUsage(reader: DerReader): readonly string[] {
  const purposes: string[] = [];
  const outer = reader.enter(tags.sequence);
  while (reader.peek() !== -1) purposes.push(reader.oid());
  reader.leave(outer);
  if (purposes.length === 0) {
    throw refuse('extended-key-usage', 'it has an empty extended key usage');
  }
  return purposes;
}

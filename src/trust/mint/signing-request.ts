// A strict parser of certificate signing requests (PKCS #10, RFC 2986). It rejects requests for more than
// a leaf certificate. It ignores the subject, and all attributes except the requested extensions.

import { verify } from 'node:crypto';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { HansaError } from '../../core/errors/error.ts';
import {
  digestOf,
  matches,
  readSignatureAlgorithm,
  type SignatureAlgorithm,
} from '../../core/identity/x509/algorithms.ts';
import { assertDer, DerReader } from '../../core/identity/x509/der-reader.ts';
import { contextConstructed, tags } from '../../core/identity/x509/der.ts';
import {
  type Extensions,
  keyUsageBits,
  readExtensions,
} from '../../core/identity/x509/extensions.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import { refuse } from '../../core/identity/x509/rules.ts';

/** With an RSA key of 8,192 bits and a SPIFFE ID of full length there are 5 KiB. */
export const maxRequestBytes = 8 * 1024;
/** As many as a certificate for a service of many names has; each is written into the SVID. */
const maxDnsNames = 32;

export interface SigningRequest {
  readonly spiffeId: SpiffeId;
  readonly dnsNames: readonly string[];
  /** The request is signed with its private key, so the requester holds that key. */
  readonly publicKey: PublicKey;
}

/** Resolves only where the signature is good. Rejects with HANSA_CERTIFICATE_INVALID, naming the rule. */
export async function readSigningRequest(der: Uint8Array): Promise<SigningRequest> {
  try {
    const { request, signed, signature, algorithm } = parse(der);
    if (!(await isSigned(algorithm, signed, request.publicKey, signature))) {
      throw refuse('signature', 'it is not signed with the key that it names');
    }
    return request;
  } catch (caught) {
    throw ofRequest(caught);
  }
}

interface Parsed {
  readonly request: SigningRequest;
  readonly signed: Buffer;
  readonly signature: Buffer;
  readonly algorithm: SignatureAlgorithm;
}

function parse(input: Uint8Array): Parsed {
  if (input.byteLength > maxRequestBytes) {
    throw refuse(
      'size-limit',
      `it has ${input.byteLength} bytes, more than the limit of ${maxRequestBytes}`,
    );
  }
  const der = Buffer.from(input);
  assertDer(der);
  const reader = new DerReader(der);
  const outer = reader.enter(tags.sequence);
  const signed = reader.raw(tags.sequence);
  const algorithm = readSignatureAlgorithm(reader.raw(tags.sequence));
  const signature = reader.octetAlignedBitString();
  reader.leave(outer);
  reader.finish();
  const { spki, extensions } = readInfo(signed);
  const { spiffeId, dnsNames } = namesOf(extensions);
  const publicKey = PublicKey.parse(spki);
  if (!matches(algorithm, publicKey.algorithm)) {
    throw refuse(
      'signature-algorithm',
      `its signature algorithm ${algorithm} does not fit its ${publicKey.algorithm} key`,
    );
  }
  return { request: { spiffeId, dnsNames, publicKey }, signed, signature, algorithm };
}

/** CertificationRequestInfo, RFC 2986 §4.1. */
function readInfo(signed: Buffer): {
  readonly spki: Buffer;
  readonly extensions: Extensions | undefined;
} {
  const reader = new DerReader(signed);
  const outer = reader.enter(tags.sequence);
  if (reader.smallInteger() !== 0) throw refuse('request-version', 'it is not of version 1');
  reader.raw(tags.sequence);
  const spki = reader.raw(tags.sequence);
  const attributes = reader.enter(contextConstructed(0));
  let extensions: Extensions | undefined;
  while (reader.peek() !== -1) {
    const attribute = reader.enter(tags.sequence);
    const type = reader.oid();
    if (type !== extensionRequest) {
      reader.raw(tags.set);
    } else {
      if (extensions !== undefined) {
        throw refuse('duplicate-extension', 'it requests extensions twice');
      }
      const values = reader.enter(tags.set);
      extensions = readExtensions(reader);
      reader.leave(values);
    }
    reader.leave(attribute);
  }
  reader.leave(attributes);
  reader.leave(outer);
  reader.finish();
  return { spki, extensions };
}

/** RFC 2985 §5.4.2. */
const extensionRequest = '1.2.840.113549.1.9.14';

const signingBits = keyUsageBits.keyCertSign | keyUsageBits.crlSign;

function namesOf(extensions: Extensions | undefined): {
  readonly spiffeId: SpiffeId;
  readonly dnsNames: readonly string[];
} {
  if (extensions?.basicConstraints?.ca === true) {
    throw refuse('leaf-not-ca', 'it asks for a signing certificate (cA is true)');
  }
  if (((extensions?.keyUsage?.bits ?? 0) & signingBits) !== 0) {
    throw refuse('leaf-key-usage', 'it asks for keyCertSign or cRLSign');
  }
  if (extensions?.nameConstraints === true) {
    throw refuse('name-constraints', 'it asks for name constraints');
  }
  const [unknown] = extensions?.unknownCritical ?? [];
  if (unknown !== undefined) {
    throw refuse(
      'unknown-critical-extension',
      `it asks for the critical extension ${unknown}, which is unknown to this site`,
    );
  }
  const names = extensions?.subjectAlternativeName;
  const [uri, ...more] = names?.uris ?? [];
  if (names === undefined || uri === undefined || more.length > 0) {
    throw refuse('exactly-one-uri', `it has ${names?.uris.length ?? 0} URIs, not one`);
  }
  if (names.ipAddresses.length > 0 || names.others > 0) {
    throw refuse('subject-alternative-name', 'it has names other than URI and DNS');
  }
  if (names.dnsNames.length > maxDnsNames) {
    throw refuse('size-limit', `it has more than ${maxDnsNames} DNS names`);
  }
  return { spiffeId: parseId(uri), dnsNames: names.dnsNames };
}

function parseId(uri: string): SpiffeId {
  try {
    return SpiffeId.parse(uri);
  } catch (cause) {
    const why = cause instanceof Error ? `: ${cause.message}` : '';
    throw refuse('spiffe-id', `its URI is not a SPIFFE ID${why}`, cause);
  }
}

/** On a thread of libuv's pool: a verification takes as long as everything else together. */
function isSigned(
  algorithm: SignatureAlgorithm,
  signed: Buffer,
  { keyObject }: PublicKey,
  signature: Buffer,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    verify(digestOf(algorithm), signed, keyObject, signature, (error, good) => {
      if (error === null) resolve(good);
      else reject(error);
    });
  });
}

/** The reader of certificates speaks of certificates. */
function ofRequest(caught: unknown): unknown {
  if (!(caught instanceof HansaError) || caught.code !== 'HANSA_CERTIFICATE_INVALID') return caught;
  const { details } = caught;
  return new HansaError(
    'HANSA_CERTIFICATE_INVALID',
    caught.message.replace(/^The certificate/, 'The signing request'),
    { cause: caught.cause, ...(details === undefined ? {} : { details }) },
  );
}

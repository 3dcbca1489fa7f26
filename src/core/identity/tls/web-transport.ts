// Verifies Web PKI servers for the name in the URL, as browsers do (SPIFFE Federation §5.2.1.4, RFC
// 6125): with the public authorities or one that an operator configured, and with pinned keys if
// there are any. OpenSSL verifies the chain with the time of the machine; this file reports its
// result as one of our rules.

import { createHash, X509Certificate } from 'node:crypto';
import {
  checkServerIdentity,
  createSecureContext,
  type DetailedPeerCertificate,
  type PeerCertificate,
  rootCertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import { HansaError } from '../../errors/error.ts';
import { spkiOf } from '../x509/keys.ts';
import { refuse, type Rule } from '../x509/rules.ts';
import { contextOptions, type TlsCredential } from './options.ts';
import type { WebRules } from './transport.ts';

/** More than any chain of the Web PKI has. */
const maxChainLength = 10;

/** TLS 1.2 at least, no session to resume, and no certificate of ours unless one is passed. */
export function webContext(
  { caBundle }: Pick<WebRules, 'caBundle'>,
  credential?: TlsCredential,
): SecureContext {
  // Without `ca`, node takes the public authorities that it was built with.
  return createSecureContext({
    ...contextOptions,
    ...(caBundle !== undefined && { ca: readableBlocks(caBundle) }),
    ...(credential && { cert: credential.certificateChain, key: credential.privateKey }),
  });
}

/**
 * OpenSSL also reads blocks that begin with X509 CERTIFICATE or TRUSTED CERTIFICATE, or have headers. Nothing
 * else here does, so they must not count: a credential is bound to the certificates of a bundle.
 */
function readableBlocks(caBundle: string): string {
  const blocks = certificateBlocks(caBundle);
  // Not an empty text, which would mean the public authorities. OpenSSL finds nothing to trust in this one.
  return blocks.length === 0 ? 'no certificates' : blocks.join('\n');
}

/** Verifies one connection. node:tls calls `check` where the chain is valid. */
export class WebJudge {
  readonly #rules: WebRules;
  readonly #nowMs: () => number;
  #refusal: HansaError | undefined;

  constructor(rules: WebRules, nowMs: () => number) {
    this.#rules = rules;
    this.#nowMs = nowMs;
  }

  readonly check = (host: string, certificate: PeerCertificate): Error | undefined => {
    const misnamed = checkServerIdentity(host, certificate);
    this.#refusal =
      misnamed === undefined
        ? this.#checkPins(certificate as DetailedPeerCertificate)
        : refuse('server-name', `it is not for ${host}: ${namesOf(certificate)}`, misnamed);
    return this.#refusal;
  };

  /** Throws HANSA_CERTIFICATE_INVALID unless the server is valid. Call it after the handshake. */
  judge(socket: TLSSocket): void {
    if (this.#refusal !== undefined) throw this.#refusal;
    if (socket.authorized) return;
    const code = String(socket.authorizationError);
    throw refuse(ruleOf(code), wordsOf(code));
  }

  #checkPins(leaf: DetailedPeerCertificate): HansaError | undefined {
    const { pinnedKeys, caBundle } = this.#rules;
    if (pinnedKeys.length === 0) return undefined;
    let keys: string[];
    try {
      keys = vouchingKeys(leaf, caBundle, this.#nowMs());
    } catch (error) {
      // The server may send any type of key, and node:tls does not expect exceptions.
      return refuse('pinned-key', 'the key of one of its issuers cannot be read', error);
    }
    return keys.some((key) => pinnedKeys.includes(key))
      ? undefined
      : refuse('pinned-key', `none of its keys is pinned: ${keys.join(', ')}`);
  }
}

/**
 * The keys of the certificate and of its issuers. node builds the chain by names only, and a server may
 * send anything, so this function checks that each certificate is valid now and signed by the next.
 * The chain that OpenSSL accepted may differ from the one that was sent: it leaves out expired
 * cross-signatures.
 */
function vouchingKeys(
  leaf: DetailedPeerCertificate,
  caBundle: string | undefined,
  nowMs: number,
): string[] {
  let current = new X509Certificate(leaf.raw);
  const keys = [pinOf(current)];
  let above: DetailedPeerCertificate | undefined = leaf.issuerCertificate;
  while (above !== undefined && keys.length < maxChainLength) {
    const issuer = new X509Certificate(above.raw);
    if (issuer.raw.equals(current.raw)) break;
    if (!issuer.ca || !current.verify(issuer.publicKey)) break;
    if (!isValid(issuer, nowMs)) {
      // An authority with an expired cross-signature may itself be accepted, but not its issuer.
      if (isAccepted(issuer, caBundle, nowMs)) keys.push(pinOf(issuer));
      break;
    }
    keys.push(pinOf(issuer));
    current = issuer;
    above = above.issuerCertificate;
  }
  return keys;
}

function isValid({ validFromDate, validToDate }: X509Certificate, nowMs: number): boolean {
  return validFromDate.getTime() <= nowMs && nowMs <= validToDate.getTime();
}

/** Whether the authority is one of the accepted roots. Called rarely: it reads all roots. */
function isAccepted(
  { subject, publicKey }: X509Certificate,
  caBundle: string | undefined,
  nowMs: number,
): boolean {
  const accepted =
    caBundle === undefined
      ? rootCertificates.map((pem) => new X509Certificate(pem))
      : webAuthorities(caBundle);
  const spki = spkiOf(publicKey);
  return accepted.some(
    (one) => one.subject === subject && spkiOf(one.publicKey).equals(spki) && isValid(one, nowMs),
  );
}

/** In the format of `pinnedKeys`: `sha256/` and the base64 of the digest of its SubjectPublicKeyInfo. */
export function pinOf({ publicKey }: X509Certificate): string {
  const spki = publicKey.export({ format: 'der', type: 'spki' });
  return `sha256/${createHash('sha256').update(spki).digest('base64')}`;
}

function namesOf({ subjectaltname }: PeerCertificate): string {
  return subjectaltname === undefined
    ? 'it has no alternative name'
    : `its names are ${subjectaltname.slice(0, 256)}`;
}

function ruleOf(code: string): Rule {
  if (code === 'CERT_HAS_EXPIRED') return 'expired';
  if (code === 'CERT_NOT_YET_VALID') return 'not-yet-valid';
  return 'web-authority';
}

function wordsOf(code: string): string {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return 'a certificate of its chain has expired';
    case 'CERT_NOT_YET_VALID':
      return 'a certificate of its chain is not valid yet';
    default:
      return `no trusted CA signed it (${code}); set caBundle if the CA is private`;
  }
}

/** The certificates of a text in PEM (RFC 7468 §5), each with its two lines around it. */
export function certificateBlocks(pem: string): readonly string[] {
  return pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
}

/** Throws a TypeError that says why a text is not a valid `caBundle`. */
export function webAuthorities(pem: string): readonly X509Certificate[] {
  const certificates = pemCertificates(pem);
  for (const [index, { ca }] of certificates.entries()) {
    if (!ca) throw new TypeError(`certificate ${index + 1} in it is not a CA certificate`);
  }
  return certificates;
}

/**
 * Like `webAuthorities`, for files that also have other certificates: API servers that make their own
 * certificate write it beside its CA. Throws TypeError.
 */
export function pemCertificates(pem: string): readonly X509Certificate[] {
  const blocks = certificateBlocks(pem);
  if (blocks.length === 0) throw new TypeError('it contains no certificate in PEM');
  if (blocks.length > maxWebAuthorities) {
    throw new TypeError(
      `it contains ${blocks.length} certificates, and the limit is ${maxWebAuthorities}`,
    );
  }
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) {
    throw new TypeError('it contains a private key, which must stay secret');
  }
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block);
    } catch {
      throw new TypeError(`certificate ${index + 1} in it cannot be read`);
    }
  });
}

const maxWebAuthorities = 64;

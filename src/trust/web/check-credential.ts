// Checks whether the web listener can present a certificate chain with a key, and if not, why.

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { TlsCredential } from '../../core/identity/tls/options.ts';

export interface WebCredential extends TlsCredential {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  /** As they stand in the certificate, wildcards included. */
  readonly names: readonly string[];
}

/** What is wrong with a chain or a key, to be put behind the name of the place where it is from. */
export class CredentialProblem extends Error {
  override readonly name = 'CredentialProblem';
}

/** Chains of the Web PKI have two to four. */
const maxChainLength = 10;
/** Tolerance for the clock of the issuer. */
const skewMs = 3_600_000;
const block = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----/g;

/** Throws CredentialProblem; its words never show the key. */
export function checkCredential(chainPem: string, keyPem: string, nowMs: number): WebCredential {
  const chain = readChain(chainPem);
  const leaf = chain[0] as X509Certificate;
  const key = readKey(keyPem);
  if (!leaf.checkPrivateKey(key)) {
    throw new CredentialProblem('the private key does not match the first certificate');
  }
  const names = namesOf(leaf);
  if (names.length === 0) {
    throw new CredentialProblem(
      'the first certificate has no subject alternative name of a host, which clients require',
    );
  }
  const notBeforeMs = leaf.validFromDate.getTime();
  const notAfterMs = leaf.validToDate.getTime();
  if (notAfterMs <= nowMs) {
    throw new CredentialProblem(`the certificate expired at ${leaf.validToDate.toISOString()}`);
  }
  if (notBeforeMs > nowMs + skewMs) {
    throw new CredentialProblem(
      `the certificate is not valid before ${leaf.validFromDate.toISOString()}`,
    );
  }
  for (const [i, certificate] of chain.entries()) {
    const issuer = chain[i + 1];
    if (issuer !== undefined && !certificate.checkIssued(issuer)) {
      throw new CredentialProblem(
        `certificate ${i + 2} of the chain did not issue the one before it: the leaf comes first, then its issuers in order`,
      );
    }
  }
  const credential = {
    certificateChain: chain.map((each) => each.toString()).join(''),
    privateKey: keyPem,
    notBeforeMs,
    notAfterMs,
    names,
  };
  refuseUnusable(credential);
  return credential;
}

function readChain(pem: string): readonly X509Certificate[] {
  const blocks = pem.match(block) ?? [];
  if (blocks.length === 0) throw new CredentialProblem('it contains no certificate in PEM');
  if (blocks.length > maxChainLength) {
    throw new CredentialProblem(`it contains more than ${maxChainLength} certificates`);
  }
  return blocks.map((each, i) => {
    try {
      return new X509Certificate(each);
    } catch {
      throw new CredentialProblem(`certificate ${i + 1} cannot be read`);
    }
  });
}

function readKey(pem: string): KeyObject {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem)) {
    throw new CredentialProblem('the private key is encrypted; use a key without a passphrase');
  }
  try {
    return createPrivateKey(pem);
  } catch {
    // Without its cause, which may quote the key.
    throw new CredentialProblem('it contains no private key in PEM');
  }
}

function namesOf(leaf: X509Certificate): readonly string[] {
  const names = leaf.subjectAltName?.matchAll(/(?:^|, )(?:DNS|IP Address):([^,]+)/g) ?? [];
  return [...names].map(([, name = '']) => name);
}

/** OpenSSL has the last word: a key that is too weak for it is refused when the listener takes it. */
function refuseUnusable({ certificateChain, privateKey }: TlsCredential): void {
  try {
    createSecureContext({ cert: certificateChain, key: privateKey });
  } catch (error) {
    const reason = (error as { readonly reason?: string }).reason ?? 'no reason given';
    throw new CredentialProblem(`OpenSSL rejects it: ${reason}`);
  }
}

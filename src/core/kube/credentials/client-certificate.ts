// Checks a client certificate and its key before the site uses them.

import { createPrivateKey, X509Certificate } from 'node:crypto';

export interface ClientCertificate {
  /** PEM. */
  readonly certificate: string;
  readonly key: string;
  /** Undefined where it has none, as SVIDs do. */
  readonly subject: string | undefined;
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
}

/** A chain of a few certificates. */
const maxPemLength = 64 * 1024;

/** What is wrong, in words that never contain the key. */
export function readClientCertificate(
  certificate: string,
  key: string,
): ClientCertificate | string {
  if (certificate.length > maxPemLength || key.length > maxPemLength) {
    return `the certificate and the key may have at most ${maxPemLength} characters each`;
  }
  let leaf: X509Certificate;
  try {
    leaf = new X509Certificate(certificate);
  } catch {
    return 'the certificate is not a certificate in PEM';
  }
  try {
    if (!leaf.checkPrivateKey(createPrivateKey(key))) {
      return 'the key does not belong to the certificate';
    }
  } catch {
    return 'the key is not an unencrypted private key in PEM';
  }
  return {
    certificate,
    key,
    // An empty subject is undefined, although its type does not say so.
    subject: (leaf.subject as string | undefined)?.replaceAll('\n', ', '),
    issuedAtMs: Date.parse(leaf.validFrom),
    expiresAtMs: Date.parse(leaf.validTo),
  };
}

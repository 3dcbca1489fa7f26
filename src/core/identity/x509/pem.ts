// Reads and writes PEM (RFC 7468), for node:tls, kubectl and files.

import { Certificate, maxCertificateBytes } from './certificate.ts';
import { refuse } from './rules.ts';

export function certificatePem(der: Uint8Array): string {
  return pem('CERTIFICATE', der);
}

export function privateKeyPem(pkcs8: Uint8Array): string {
  return pem('PRIVATE KEY', pkcs8);
}

function pem(label: string, der: Uint8Array): string {
  const base64 = Buffer.from(der.buffer, der.byteOffset, der.byteLength).toString('base64');
  const lines = base64.match(/.{1,64}/g) ?? [];
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`;
}

const block = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----/g;

/** Every certificate in the text, in order; other text is ignored. */
export function parseCertificatesPem(text: string, maxCount: number): readonly Certificate[] {
  if (text.length > maxCount * maxCertificateBytes * 2) {
    throw refuse('size-limit', `a PEM file of ${text.length} characters is too large`);
  }
  const certificates: Certificate[] = [];
  for (const [, base64 = ''] of text.matchAll(block)) {
    if (certificates.length === maxCount) {
      throw refuse('size-limit', `a PEM file has more than ${maxCount} certificates`);
    }
    certificates.push(Certificate.parse(Buffer.from(base64, 'base64')));
  }
  return certificates;
}

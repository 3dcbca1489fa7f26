// Describes a certificate for the audit log: subject, alternative names, serial number and issuer.

import { X509Certificate } from 'node:crypto';
import type { Certificate } from '../../core/identity/x509/certificate.ts';

/** The maximum length of each of the four parts in an audit record. */
const longest = 160;

/** The issuer controls the content, so it is truncated and has no control characters. */
export function describeSvid(certificate: Certificate): string {
  const { uris = [], dnsNames = [] } = certificate.extensions.subjectAlternativeName ?? {};
  let names = { subject: '', issuer: '' };
  try {
    names = new X509Certificate(certificate.der);
  } catch {
    // Our parser accepted a certificate that OpenSSL rejects. Its names are left out.
  }
  return [
    `subject ${shown(names.subject)}`,
    `SANs ${shown([...uris, ...dnsNames].join(', '))}`,
    `serial ${certificate.serialHex}`,
    `issuer ${shown(names.issuer)}`,
  ].join('; ');
}

function shown(text: string | undefined): string {
  const flat = (text ?? '').replaceAll('\n', ', ').replace(/\p{C}/gu, '?');
  if (flat === '') return '(empty)';
  return flat.length <= longest ? flat : `${flat.slice(0, longest)}…`;
}

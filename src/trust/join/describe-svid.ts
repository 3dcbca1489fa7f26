// A certificate in words, for the audit log: subject, alternative names, serial number and issuer.

import { X509Certificate } from 'node:crypto';
import type { Certificate } from '../../core/identity/x509/certificate.ts';

/** Of each part: an audit row holds four of them. */
const longest = 160;

/** What stands in it is whatever its issuer wrote: cut, and without control characters. */
export function describeSvid(certificate: Certificate): string {
  const { uris = [], dnsNames = [] } = certificate.extensions.subjectAlternativeName ?? {};
  let names = { subject: '', issuer: '' };
  try {
    names = new X509Certificate(certificate.der);
  } catch {
    // Our reader took what OpenSSL does not: its names stay untold.
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

// Checks every certificate before the site signs it, because an issued certificate cannot be
// recalled. Stricter than the validator, which must accept certificates of other issuers.

import type { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { readSignatureAlgorithm, readSubjectPublicKey } from './algorithms.ts';
import type { CertificateFields } from './certificate.ts';
import type { PublicKey } from './keys.ts';
import { refuse } from './rules.ts';
import { checkLeaf, checkSigning } from './svid-rules.ts';

/** 64 bits of it must be random (CA/Browser Forum BR §7.1); ours have 126. */
const minSerialBytes = 8;

/** Labels of letters, digits and hyphens; a wildcard may stand for the first (RFC 5280 §4.2.1.6). */
const dnsName =
  /^(?=.{1,253}$)(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/;

/** The intended content of a leaf. */
export interface IntendedLeaf {
  readonly id: SpiffeId;
  readonly publicKey: PublicKey;
}

/**
 * A leaf of this trust domain. Throws HANSA_CERTIFICATE_INVALID naming the rule. If it matches
 * `intended`, its identity and key are not parsed again.
 */
export function lintLeaf(
  fields: CertificateFields,
  trustDomain: TrustDomain,
  intended?: IntendedLeaf,
): void {
  const id = checkLeaf(fields, intended?.id);
  if (!id.trustDomain.equals(trustDomain)) {
    throw refuse(
      'trust-domain',
      `its SPIFFE ID ${id.toString()} is not in the trust domain ${trustDomain.name}`,
    );
  }
  if (fields.extensions.basicConstraints === undefined) {
    throw refuse('leaf-not-ca', 'it does not state that it is not a CA');
  }
  if (fields.extensions.extendedKeyUsage === undefined) {
    throw refuse('extended-key-usage', 'it has no extended key usage');
  }
  if (fields.extensions.authorityKeyId === undefined) {
    throw refuse('key-identifier', 'it does not name the key that signs it');
  }
  for (const name of fields.extensions.subjectAlternativeName?.dnsNames ?? []) {
    if (!dnsName.test(name)) {
      throw refuse('subject-alternative-name', `${JSON.stringify(name)} is not a DNS name`);
    }
  }
  lintCommon(fields, intended?.publicKey);
}

/** A signing certificate of this trust domain: in ours, always an SVID itself. */
export function lintSigning(fields: CertificateFields, trustDomain: TrustDomain): void {
  const id = checkSigning(fields);
  if (id === undefined) throw refuse('exactly-one-uri', 'it has no URI');
  if (!id.trustDomain.equals(trustDomain)) {
    throw refuse(
      'trust-domain',
      `its SPIFFE ID ${id.toString()} is not in the trust domain ${trustDomain.name}`,
    );
  }
  if (fields.extensions.basicConstraints?.pathLength !== 0) {
    throw refuse('path-length', 'it could sign other signing certificates');
  }
  lintCommon(fields);
}

function lintCommon(fields: CertificateFields, intended?: PublicKey): void {
  if (fields.serial.length < minSerialBytes) {
    throw refuse('serial-number', `its serial number has fewer than ${minSerialBytes} bytes`);
  }
  if (fields.extensions.subjectKeyId === undefined) {
    throw refuse('key-identifier', 'it does not name its key');
  }
  if (fields.extensions.subjectAlternativeName?.others !== 0) {
    throw refuse('subject-alternative-name', 'it has names other than URI, DNS and IP');
  }
  readSignatureAlgorithm(fields.signatureIdentifier);
  // Skips the check for a PublicKey with the same bytes, which was checked before.
  if (intended?.spki.equals(fields.spki) !== true) readSubjectPublicKey(fields.spki);
}

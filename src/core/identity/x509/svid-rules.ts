// The rules of X.509-SVID for a single certificate, shared by the linter and the validator. Paths,
// signatures and times are checked elsewhere.

import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { CertificateFields } from './certificate.ts';
import { clientAuth, keyUsageBits, serverAuth } from './extensions.ts';
import { refuse } from './rules.ts';

const emptyNameBytes = 2;

/** Rules of every certificate in a path. */
function checkCommon(fields: CertificateFields): void {
  const { serial, extensions } = fields;
  // RFC 5280 §4.1.2.2: positive, 20 octets at most. A 21st byte is the sign.
  if (
    serial.length > 20 ||
    (serial[0] as number) >= 0x80 ||
    (serial.length === 1 && serial[0] === 0)
  ) {
    throw refuse('serial-number', 'its serial number is not a positive number of 20 bytes at most');
  }
  if (fields.notAfterMs < fields.notBeforeMs) {
    throw refuse('validity', 'its notAfter is before its notBefore');
  }
  if (fields.issuer.length === emptyNameBytes) throw refuse('issuer', 'its issuer has no name');
  if (extensions.unknownCritical.length > 0) {
    throw refuse(
      'unknown-critical-extension',
      `its critical extension ${extensions.unknownCritical[0]} is unknown to this site`,
    );
  }
  // Implementations of the URI rules differ, so honouring them is unsafe. Ignoring them would trust
  // more than the issuer allowed.
  if (extensions.nameConstraints) {
    throw refuse('name-constraints', 'it has name constraints, which this site does not evaluate');
  }
  const san = extensions.subjectAlternativeName;
  if (fields.subject.length === emptyNameBytes && san !== undefined && !san.critical) {
    throw refuse('critical-san', 'its subject is empty, but its alternative name is not critical');
  }
  if (extensions.keyUsage === undefined) throw refuse('key-usage', 'it has no key usage');
  if (!extensions.keyUsage.critical) throw refuse('key-usage', 'its key usage is not critical');
}

/** A leaf: the only certificate that may identify a workload. A `known` ID is not parsed again. */
export function checkLeaf(fields: CertificateFields, known?: SpiffeId): SpiffeId {
  checkCommon(fields);
  const { extensions } = fields;
  if (extensions.basicConstraints?.ca === true) {
    throw refuse('leaf-not-ca', 'it is a signing certificate (cA is true), not a leaf');
  }
  const bits = extensions.keyUsage?.bits ?? 0;
  if ((bits & keyUsageBits.digitalSignature) === 0) {
    throw refuse('leaf-key-usage', 'its key usage lacks digitalSignature');
  }
  if ((bits & (keyUsageBits.keyCertSign | keyUsageBits.crlSign)) !== 0) {
    throw refuse(
      'leaf-key-usage',
      'its key usage has keyCertSign or cRLSign, which a leaf must not have',
    );
  }
  const purposes = extensions.extendedKeyUsage;
  if (purposes !== undefined && !(purposes.includes(serverAuth) && purposes.includes(clientAuth))) {
    throw refuse('extended-key-usage', 'its extended key usage lacks serverAuth or clientAuth');
  }
  const uris = extensions.subjectAlternativeName?.uris ?? [];
  if (uris.length !== 1) throw refuse('exactly-one-uri', `it has ${uris.length} URIs, not one`);
  const uri = uris[0] as string;
  const id = known?.toString() === uri ? known : parseId(uri);
  if (id.path === '') throw refuse('leaf-path', `its SPIFFE ID ${id.toString()} has no path`);
  return id;
}

/** A signing certificate. It should have a SPIFFE ID but need not: then undefined is returned. */
export function checkSigning(fields: CertificateFields): SpiffeId | undefined {
  checkCommon(fields);
  const { extensions } = fields;
  if (extensions.basicConstraints?.ca !== true) {
    throw refuse('signing-is-ca', 'it signed another certificate, but is not a CA (cA is false)');
  }
  if (!extensions.basicConstraints.critical) {
    throw refuse('signing-is-ca', 'its basic constraints are not critical');
  }
  if (((extensions.keyUsage?.bits ?? 0) & keyUsageBits.keyCertSign) === 0) {
    throw refuse('signing-key-usage', 'its key usage lacks keyCertSign');
  }
  const uris = extensions.subjectAlternativeName?.uris ?? [];
  if (uris.length === 0) return undefined;
  if (uris.length > 1) throw refuse('exactly-one-uri', `it has ${uris.length} URIs, not one`);
  const id = parseId(uris[0] as string);
  if (id.path !== '') throw refuse('signing-path', `its SPIFFE ID ${id.toString()} has a path`);
  return id;
}

function parseId(uri: string): SpiffeId {
  try {
    return SpiffeId.parse(uri);
  } catch (cause) {
    const why = cause instanceof Error ? `: ${cause.message}` : '';
    throw refuse('spiffe-id', `its URI is not a SPIFFE ID${why}`, cause);
  }
}

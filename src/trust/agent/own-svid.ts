// The SVID of the agent itself, read from its folder.

import { HansaError } from '../../core/errors/error.ts';
import type { Certificate } from '../../core/identity/x509/certificate.ts';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';
import { maxChainLength } from '../../core/identity/x509/svid-validator.ts';
import type { JoinFolder } from '../client/join-folder.ts';

export function ownLeaf(folder: JoinFolder): Certificate {
  const [leaf] = parseCertificatesPem(folder.read('svid.pem'), maxChainLength);
  if (leaf !== undefined) return leaf;
  throw new HansaError(
    'HANSA_CONFIG_INVALID',
    `${folder.path}/svid.pem contains no certificate. Join again with another --data-dir.`,
  );
}

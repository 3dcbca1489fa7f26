// A private Web PKI: a root that clients trust, and a certificate for localhost.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import {
  credentialOf,
  type Forged,
  forge,
  forgeLeaf,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';

export interface WebPki {
  /** PEM. */
  readonly rootFile: string;
  readonly root: string;
  readonly certificateFile: string;
  readonly keyFile: string;
  /** Another certificate in the same files, under a new key. */
  renew(): void;
}

/** In files of this folder. */
export function makeWebPki(folder: string, name = 'localhost'): WebPki {
  const root = forge({ ca: true });
  const pki = {
    rootFile: join(folder, 'web-root.pem'),
    root: certificatePem(root.der),
    certificateFile: join(folder, 'web.pem'),
    keyFile: join(folder, 'web.key'),
    renew: () => write(pki, forgeWebLeaf(root, name)),
  };
  writeFileSync(pki.rootFile, pki.root);
  pki.renew();
  return pki;
}

function forgeWebLeaf(root: Forged, name: string): Forged {
  return forgeLeaf(root, '', { uris: [], dnsNames: [name], purposes: [purposes.server] });
}

function write({ certificateFile, keyFile }: WebPki, leaf: Forged): void {
  const { certificateChain, privateKey } = credentialOf(leaf);
  writeFileSync(certificateFile, certificateChain);
  writeFileSync(keyFile, privateKey, { mode: 0o600 });
}

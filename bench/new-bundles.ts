// Makes bundles of another trust domain, each with an authority that was never seen before.

import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { SiteAuthority } from '../src/core/identity/authority/authority.ts';
import { MemoryVault } from '../src/core/identity/authority/test-vault.ts';
import { encodeSpiffeBundle } from '../src/core/identity/bundle/spiffe-bundle.ts';

export interface NewBundle {
  /** As SPIFFE writes it. */
  readonly document: string;
  /** The certificate of its only authority. */
  readonly der: Buffer;
  /** Part of the document, and of no other. */
  readonly mark: string;
}

export async function newBundle(name: string, sequence: number): Promise<NewBundle> {
  const authority = await SiteAuthority.open({
    trustDomain: TrustDomain.parse(name),
    vault: new MemoryVault(),
    clock: systemClock,
    random: systemRandom,
  });
  const { der } = authority.certificate;
  const document = encodeSpiffeBundle(authority.bundle, { sequence, refreshHintSeconds: 300 });
  // The end of the certificate is its signature.
  return { document, der, mark: der.toString('base64').slice(-60, -10) };
}

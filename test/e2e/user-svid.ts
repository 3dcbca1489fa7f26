// Client certificates for the end-to-end tests: valid ones from the site, and forged ones.

import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import { SiteAuthority } from '../../src/core/identity/authority/authority.ts';
import { PublicKey } from '../../src/core/identity/x509/keys.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import { MemoryVault } from '../../src/core/identity/authority/test-vault.ts';
import { type ApiClient, Refusal } from './api-client.ts';

export interface ClientCertificate {
  readonly certificate: string;
  readonly key: string;
}

function keyPair(): { publicKey: KeyObject; key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { publicKey, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string };
}

/** From the site itself, as `hansa login` obtains it. */
export async function login(
  client: ApiClient,
  more: { readonly user?: string; readonly ttlSeconds?: number } = {},
): Promise<ClientCertificate> {
  const { publicKey, key } = keyPair();
  const pem = publicKey.export({ type: 'spki', format: 'pem' });
  const answer = await client.request('POST', '/hansa/v1/user-svids', {
    body: { publicKey: pem, ...more },
  });
  if (answer.status !== 201) throw new Refusal(answer);
  return { certificate: (JSON.parse(answer.text) as { certificate: string }).certificate, key };
}

/** From an authority of somebody's own that calls itself `trustDomain`. */
export async function forge(trustDomain: string, user: string): Promise<ClientCertificate> {
  const authority = await SiteAuthority.open({
    trustDomain: TrustDomain.parse(trustDomain),
    clock: systemClock,
    random: systemRandom,
    vault: new MemoryVault(),
  });
  const { publicKey, key } = keyPair();
  const { chain } = await authority
    .reservedIssuer('user')
    .issue(user, { publicKey: PublicKey.of(publicKey) });
  return { certificate: chain.map((der) => certificatePem(der)).join(''), key };
}

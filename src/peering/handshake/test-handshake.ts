// For tests: identities of sites, and a transport that connects to a fake site.

import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import type { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { Certificate } from '../../core/identity/x509/certificate.ts';
import { generateP256, PublicKey } from '../../core/identity/x509/keys.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { testSite } from '../../core/identity/authority/test-vault.ts';
import type { Transport, TransportRequest } from '../../core/identity/tls/transport.ts';

export interface TestIdentity {
  readonly trustDomain: TrustDomain;
  readonly authority: SiteAuthority;
  readonly chain: readonly Certificate[];
  /** The chain of a workload of the same site. */
  readonly workloadChain: readonly Certificate[];
}

/** `seed` distinguishes two sites of the same name. */
export async function testIdentity(name: string, seed = name): Promise<TestIdentity> {
  const trustDomain = TrustDomain.parse(name);
  const random = new SeededRandom(`identity/${seed}`);
  const { authority } = await testSite(name, { random });
  const publicKey = PublicKey.of(await generateP256(random));
  const site = await authority.issueSite({ publicKey });
  const spiffeId = SpiffeId.of(trustDomain, 'web');
  const workload = await authority.issue({ spiffeId, publicKey });
  return {
    trustDomain,
    authority,
    chain: site.chain.map((der) => Certificate.parse(der)),
    workloadChain: workload.chain.map((der) => Certificate.parse(der)),
  };
}

/** A bundle document with the authorities of all identities. The default trust domain is the first one's. */
export function documentOf(
  identities: readonly TestIdentity[],
  trustDomain = identities[0]?.trustDomain as TrustDomain,
): string {
  const authorities = identities.flatMap(({ authority }) => authority.bundle.authorities);
  return encodeSpiffeBundle(new Bundle(trustDomain, authorities), {
    sequence: 1,
    refreshHintSeconds: 300,
  });
}

export interface Answering {
  readonly chain: readonly Certificate[];
  readonly document: string;
  /** The response to a POST. */
  readonly answer?: object;
}

export interface Sent {
  readonly request: TransportRequest;
  readonly asSite: boolean;
}

/** A transport that connects every URL to this site. `sent` collects the requests. */
export function leadingTo(answering: Answering): { transport: Transport; sent: Sent[] } {
  const sent: Sent[] = [];
  return {
    sent,
    transport: {
      connect: async ({ verify, asSite }) => {
        verify(answering.chain);
        return {
          peerChain: answering.chain,
          request: async (request) => {
            sent.push({ request, asSite });
            const body =
              request.method === 'GET'
                ? answering.document
                : JSON.stringify(answering.answer ?? {});
            return { status: 200, headers: {}, body: Buffer.from(body) };
          },
          close: () => undefined,
        };
      },
    },
  };
}

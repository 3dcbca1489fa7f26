// An attacker with its own keys who claims any identity, as a client of the federation API and as a
// server at the address of a site.

import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { systemClock } from '../../src/core/clock/system.ts';
import { Bundle } from '../../src/core/identity/bundle/bundle.ts';
import {
  parseSpiffeBundle,
  encodeSpiffeBundle,
} from '../../src/core/identity/bundle/spiffe-bundle.ts';
import {
  credentialOf,
  type Forged,
  forgeLeaf,
  forgeRoot,
} from '../../src/core/identity/x509/test-forge.ts';
import type { TlsCredential } from '../../src/core/identity/tls/options.ts';
import { TlsTransport } from '../../src/core/identity/tls/tls-transport.ts';
import type { TransportRequest } from '../../src/core/identity/tls/transport.ts';
import { parseInvitation } from '../../src/peering/handshake/invitation.ts';
import { encodeMessage, paths } from '../../src/peering/messages.ts';
import type { WorkloadSite } from '../interop/workload-site.ts';

export interface Told {
  readonly status: number;
  readonly text: string;
}

export interface Disguise {
  /** In the place of his own bundle. */
  readonly bundle?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export class Attacker {
  readonly trustDomain: string;
  readonly root: Forged;
  readonly credential: TlsCredential;

  constructor(trustDomain: string, credential?: TlsCredential) {
    this.trustDomain = trustDomain;
    this.root = forgeRoot(trustDomain);
    this.credential =
      credential ?? credentialOf(forgeLeaf(this.root, `spiffe://${trustDomain}/hansa/site`));
  }

  /** His bundle, and authorities of others beside it where he wants them there. */
  bundle(...others: readonly string[]): string {
    const name = TrustDomain.parse(this.trustDomain);
    const borrowed = others.flatMap((each) => parseSpiffeBundle(each, name).bundle.authorities);
    const bundle = new Bundle(name, [this.root.certificate, ...borrowed]);
    return encodeSpiffeBundle(bundle, { sequence: 1, refreshHintSeconds: 300 });
  }

  post(
    site: Pick<WorkloadSite, 'url'>,
    path: string,
    body: string | Uint8Array,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Told> {
    const all = { 'content-type': 'application/json', ...headers };
    return this.#request(site, { method: 'POST', path, headers: all, body: Buffer.from(body) });
  }

  get(site: Pick<WorkloadSite, 'url'>, path: string, headers = {}): Promise<Told> {
    return this.#request(site, { method: 'GET', path, headers });
  }

  async #request(site: Pick<WorkloadSite, 'url'>, request: TransportRequest): Promise<Told> {
    const transport = new TlsTransport({ clock: systemClock, credential: () => this.credential });
    const connection = await transport.connect({
      url: new URL(site.url),
      asSite: true,
      timeoutMs: 20_000,
      verify: () => undefined,
    });
    try {
      const { status, body: text } = await connection.request(request, 1_000_000);
      return { status, text: text.toString('utf8') };
    } finally {
      connection.close();
    }
  }

  /** With a line that he has, however he got it. */
  redeem(site: Pick<WorkloadSite, 'url'>, line: string, disguise: Disguise = {}): Promise<Told> {
    const { secret } = parseInvitation(line, 0);
    const message = JSON.parse(
      encodeMessage({
        contractVersions: [1],
        secret,
        trustDomain: TrustDomain.parse(this.trustDomain),
        url: new URL('https://127.0.0.1:9/'),
        bundle: disguise.bundle ?? this.bundle(),
      }).toString('utf8'),
    ) as Readonly<Record<string, unknown>>;
    const url = disguise.url ?? message['url'];
    return this.post(site, paths.redeem, JSON.stringify({ ...message, url }), disguise.headers);
  }

  heartbeat(site: Pick<WorkloadSite, 'url'>, headers = {}, offers: readonly object[] = []) {
    const message = { contractVersion: 1, bundleSequence: 999, offers };
    return this.post(site, paths.heartbeat, JSON.stringify(message), headers);
  }
}

/** In the place of a site: answers every request with this bundle, and remembers what it was asked. */
export async function standIn(
  credential: TlsCredential,
  bundle: string,
): Promise<{ readonly url: string; readonly asked: readonly string[]; readonly server: Server }> {
  const asked: string[] = [];
  const { certificateChain: cert, privateKey: key } = credential;
  const server = createServer({ cert, key }, (request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.end(bundle);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`, asked, server };
}

/** An SVID that the site itself issued, with its key. */
export async function mintedBy(site: WorkloadSite, spiffeID: string): Promise<TlsCredential> {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const answer = await site.admin.request('POST', '/hansa/v1/svids', {
    body: { spiffeID, publicKey: publicKey.export({ format: 'pem', type: 'spki' }) },
  });
  const { certificate } = JSON.parse(answer.text) as { readonly certificate: string };
  return {
    certificateChain: certificate,
    privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }) as string,
  };
}

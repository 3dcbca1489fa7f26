// Bundle endpoints of other trust domains that fail, each in its own way, as real TLS servers. A SPIRE server that
// federates with them must say what is wrong with each.

import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { Bundle } from '../../src/core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../src/core/identity/bundle/spiffe-bundle.ts';
import { svidServerOptions } from '../../src/core/identity/tls/server.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import {
  credentialOf,
  type Forged,
  type ForgeOptions,
  forge,
  forgeLeaf,
  forgeRoot,
  hourMs,
  purposes,
} from '../../src/core/identity/x509/test-forge.ts';
import type { Relationship } from '../../src/kubernetes/spire-relationships/parse-relationship.ts';
import { type NameFault, nameFaults } from './failing-names.ts';

/** What is wrong with an endpoint. Each is the first label of its trust domain. */
export type Fault =
  | NameFault
  | 'sound'
  | 'sound-web'
  | 'unreachable'
  | 'not-json'
  | 'no-authority'
  | 'server-error'
  | 'expired'
  | 'wrong-id'
  | 'wrong-bootstrap'
  | 'no-bootstrap'
  | 'other-domain'
  | 'other-domain-web'
  | 'expired-web'
  | 'other-name-web'
  | 'unknown-ca-web';

const expired: ForgeOptions = {
  notBeforeMs: Date.now() - 48 * hourMs,
  notAfterMs: Date.now() - 24 * hourMs,
};

const documentOf = (trustDomain: string, ...authorities: readonly Forged[]): string =>
  encodeSpiffeBundle(
    new Bundle(
      TrustDomain.parse(trustDomain),
      authorities.map(({ certificate }) => certificate),
    ),
    { sequence: 1, refreshHintSeconds: 300 },
  );

export class FailingEndpoints {
  /** For the Web PKI of the clients, in PEM. */
  readonly webRoot: string;
  readonly #address: string;
  readonly #webAuthority = forge({ ca: true });
  readonly #servers: Server[] = [];

  /** They listen on this address of this machine. */
  constructor(address: string) {
    this.#address = address;
    this.webRoot = certificatePem(this.#webAuthority.der);
  }

  /** How a SpireServer federates with an endpoint that fails so. `webName` is a name of its address. */
  async relationship(fault: Fault, webName: string): Promise<Relationship> {
    const trustDomain = `${fault}.example`;
    const root = forgeRoot(trustDomain);
    const isWeb = fault.endsWith('-web');
    const { credential, body, status } = this.#behaviour(fault, trustDomain, root, webName);
    const resolves = !(nameFaults as readonly string[]).includes(fault);
    const isServed = resolves && fault !== 'unreachable';
    const port = isServed ? await this.#serve(credential, body, status) : 1;
    const address = isWeb ? webName : this.#address;
    const host = resolves ? address : trustDomain;
    return {
      trustDomain,
      bundleEndpointURL: `https://${host}:${port}/`,
      from: 'SpireServer',
      ...(isWeb
        ? { profile: 'https_web' }
        : {
            profile: 'https_spiffe',
            endpointSpiffeID: `spiffe://${trustDomain}/spire/server`,
            ...(fault !== 'no-bootstrap' && {
              bundle: documentOf(
                trustDomain,
                fault === 'wrong-bootstrap' ? forgeRoot(trustDomain) : root,
              ),
            }),
          }),
    };
  }

  stop(): void {
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
  }

  #behaviour(fault: Fault, trustDomain: string, root: Forged, webName: string) {
    const id = `spiffe://${trustDomain}/spire/server`;
    const web = (options: ForgeOptions = {}, authority = this.#webAuthority): Forged =>
      forgeLeaf(authority, '', {
        uris: [],
        dnsNames: [webName],
        purposes: [purposes.server],
        ...options,
      });
    const sound = {
      credential: fault.endsWith('-web') ? web() : forgeLeaf(root, id),
      body: documentOf(trustDomain, root),
      status: 200,
    };
    const other = documentOf(trustDomain, forgeRoot('elsewhere.example'));
    switch (fault) {
      case 'not-json':
        return { ...sound, body: '<html>Welcome</html>' };
      case 'no-authority':
        return { ...sound, body: '{"keys":[]}' };
      case 'server-error':
        return { ...sound, status: 503 };
      case 'expired':
        return { ...sound, credential: forgeLeaf(root, id, expired) };
      case 'wrong-id':
        return { ...sound, credential: forgeLeaf(root, `spiffe://${trustDomain}/web`) };
      case 'other-domain':
      case 'other-domain-web':
        return { ...sound, body: other };
      case 'expired-web':
        return { ...sound, credential: web(expired) };
      case 'other-name-web':
        return { ...sound, credential: web({ dnsNames: ['other.example'] }) };
      case 'unknown-ca-web':
        return { ...sound, credential: web({}, forge({ ca: true })) };
      default:
        return sound;
    }
  }

  async #serve(credential: Forged, body: string, status: number): Promise<number> {
    const server = createServer(
      svidServerOptions(credentialOf(credential)),
      (_request, response) => {
        response.writeHead(status, { 'content-type': 'application/json' }).end(body);
      },
    );
    this.#servers.push(server);
    server.listen(0, this.#address);
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }
}

// A workload's client of its site, for db.ts and web.ts. It receives the newest SVID and bundles from the
// workload socket, calls other workloads with them, and asks the site through ext_authz whether a caller
// may use an offer.

import { request } from 'node:http';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import {
  type CheckResponse,
  CheckRequestSchema,
  CheckResponseSchema,
} from '../../proto/gen/ext_authz_pb.ts';
import type { SpiffeId } from '../../src/api/values/spiffe-id.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { systemClock } from '../../src/core/clock/system.ts';
import { Bundle, type BundleSource } from '../../src/core/identity/bundle/bundle.ts';
import { certificatePem, privateKeyPem } from '../../src/core/identity/x509/pem.ts';
import type { ValidatedSvid } from '../../src/core/identity/x509/svid-validator.ts';
import { connectSvid } from '../../src/core/identity/tls/client.ts';
import type { TlsCredential } from '../../src/core/identity/tls/options.ts';
import { followSvids, type ReceivedState } from '../../src/trust/client/workload-client.ts';

export interface Identity {
  readonly id: string;
  readonly credential: TlsCredential;
  /** Bundles of our own trust domain, and of other trust domains that this workload may trust. */
  readonly bundles: ReadonlyMap<string, Bundle>;
}

/** The path in SPIFFE_ENDPOINT_SOCKET (SPIFFE Workload Endpoint section 4). */
export function workloadSocket(): string {
  const path = /^unix:(?:\/\/)?(\/.+)$/.exec(process.env['SPIFFE_ENDPOINT_SOCKET'] ?? '')?.[1];
  if (path === undefined) throw new Error('SPIFFE_ENDPOINT_SOCKET must be unix:///PATH');
  return path;
}

/**
 * Yields the current identity, and a new one after every change: a renewal, or an added or removed
 * bundle. Reconnects to the site after a failure. The last identity stays valid until it expires.
 */
export async function* identities(socket: string, signal: AbortSignal): AsyncGenerator<Identity> {
  const lost = (error: unknown): void => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  };
  for await (const state of followSvids({ socket, signal, clock: systemClock, lost })) {
    yield identityOf(state);
  }
}

function identityOf({ svids, federated }: ReceivedState): Identity {
  const svid = svids[0];
  if (svid === undefined) throw new Error('the site has no identity for this process');
  const own = svid.id.trustDomain;
  const bundles = new Map([[own.name, new Bundle(own, svid.authorities)]]);
  for (const [id, authorities] of federated) {
    const trustDomain = TrustDomain.parse(id.slice('spiffe://'.length));
    bundles.set(trustDomain.name, new Bundle(trustDomain, authorities));
  }
  return {
    id: svid.id.toString(),
    credential: {
      certificateChain: svid.chain.map(({ der }) => certificatePem(der)).join(''),
      privateKey: privateKeyPem(svid.key),
    },
    bundles,
  };
}

export function sourceOf(current: () => Pick<Identity, 'bundles'>): BundleSource {
  return { bundleFor: ({ name }) => current().bundles.get(name) };
}

/** Rejects before it sends anything if the server does not have the expected SPIFFE ID. */
export async function callAs(
  identity: Pick<Identity, 'bundles' | 'credential'>,
  url: URL,
  expected: SpiffeId,
): Promise<{ readonly status: number; readonly body: string }> {
  const { socket } = await connectSvid({
    host: url.hostname,
    port: Number(url.port === '' ? 443 : url.port),
    expected,
    bundles: sourceOf(() => identity),
    credential: identity.credential,
    clock: systemClock,
  });
  // connectSvid verified the server. The socket carries plain HTTP over TLS.
  const path = `${url.pathname}${url.search}`;
  return await new Promise((resolve, reject) => {
    const options = { path, headers: { host: url.host }, createConnection: () => socket };
    const outgoing = request(options, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => {
        socket.destroy();
        resolve({ status: response.statusCode ?? 0, body });
      });
      response.on('error', reject);
    });
    outgoing.on('error', reject).end();
  });
}

/** A client of ext_authz v3. The site answers only the workload that serves the offer. */
export class Gatekeeper {
  readonly #client: Client;
  readonly #offer: string;

  constructor(socket: string, offer: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure());
    this.#offer = offer;
  }

  /** Rejects if the site does not answer, so the service admits no caller. */
  async allows(caller: ValidatedSvid, address: string, method: string): Promise<boolean> {
    const question = create(CheckRequestSchema, {
      attributes: {
        source: {
          principal: caller.id.toString(),
          certificate: encodeURIComponent(certificatePem(caller.leaf.der)),
          address: { socketAddress: { address, portValue: 0 } },
        },
        // The site derives the required scope from the method.
        request: { http: { method } },
        contextExtensions: { offer: this.#offer },
      },
    });
    const answer = await new Promise<CheckResponse>((resolve, reject) => {
      this.#client.makeUnaryRequest(
        '/envoy.service.auth.v3.Authorization/Check',
        (value: typeof question) => Buffer.from(toBinary(CheckRequestSchema, value)),
        (bytes: Buffer) => fromBinary(CheckResponseSchema, bytes),
        question,
        { deadline: Date.now() + 2000 },
        (error: ServiceError | null, found?: CheckResponse) =>
          found === undefined ? reject(error ?? new Error('no answer')) : resolve(found),
      );
    });
    return answer.status?.code === 0;
  }

  close(): void {
    this.#client.close();
  }
}

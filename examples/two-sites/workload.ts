// What a workload has from its site, for db.ts and web.ts: the SVID and the bundles that the
// workload socket pushes, always the newest; calls with them; and the site's answer to "may this
// caller use that offer now?" by the same ext_authz that Envoys ask.

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
  /** Of our own trust domain and of those that the site lets us believe. */
  readonly bundles: ReadonlyMap<string, Bundle>;
}

/** The path in SPIFFE_ENDPOINT_SOCKET (SPIFFE Workload Endpoint section 4). */
export function workloadSocket(): string {
  const path = /^unix:(?:\/\/)?(\/.+)$/.exec(process.env['SPIFFE_ENDPOINT_SOCKET'] ?? '')?.[1];
  if (path === undefined) throw new Error('SPIFFE_ENDPOINT_SOCKET must be unix:///PATH');
  return path;
}

/**
 * One now, and another after every change: a renewal, a new bundle, one that was taken away. Goes on
 * when the site was away for a while; what was received last is good until it expires.
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
  if (svid === undefined) throw new Error('the site gives this process no identity');
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

/** Rejects where another answers than expected, before anything is sent. */
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
  // Whom the connection is with was settled above; what goes over it is plain HTTP.
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

/** Envoy's ext_authz v3. Only the workload that serves an offer is told about it. */
export class Gatekeeper {
  readonly #client: Client;
  readonly #offer: string;

  constructor(socket: string, offer: string) {
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure());
    this.#offer = offer;
  }

  /** Rejects where the site does not answer: then nobody comes in. */
  async allows(caller: ValidatedSvid, address: string, method: string): Promise<boolean> {
    const question = create(CheckRequestSchema, {
      attributes: {
        source: {
          principal: caller.id.toString(),
          certificate: encodeURIComponent(certificatePem(caller.leaf.der)),
          address: { socketAddress: { address, portValue: 0 } },
        },
        // Which scope of a grant the request needs.
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

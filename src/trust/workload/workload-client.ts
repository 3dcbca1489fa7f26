// A client of the Workload API, for `hansa svid watch`: every state of the X.509 profile, as it comes.

import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import {
  type X509SVIDResponse,
  X509SVIDRequestSchema,
  X509SVIDResponseSchema,
} from '../../../proto/gen/workload_pb.ts';
import { SpiffeId } from '../../api/spiffe-id.ts';
import { type Clock, sleep } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Certificate } from '../../core/identity/certificate.ts';
import { DerReader } from '../../core/identity/der-reader.ts';
import { tags } from '../../core/identity/der.ts';
import { errorOfStatus } from './grpc-status.ts';

export interface ReceivedSvid {
  readonly id: SpiffeId;
  readonly hint: string;
  /** The leaf first. */
  readonly chain: readonly Certificate[];
  /** PKCS #8 in DER. */
  readonly key: Uint8Array;
  readonly authorities: readonly Certificate[];
}

export interface ReceivedState {
  readonly svids: readonly ReceivedSvid[];
  /** By trust domain ID. */
  readonly federated: ReadonlyMap<string, readonly Certificate[]>;
}

/**
 * States until `signal` is aborted, which ends it without an error. Throws what the site answered
 * (HANSA_FORBIDDEN where no entry matches this process), HANSA_UNREACHABLE where nobody answers.
 */
export async function* watchSvids(
  socket: string,
  signal: AbortSignal,
): AsyncGenerator<ReceivedState, void> {
  const client = new Client(`unix:${socket}`, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set('workload.spiffe.io', 'true');
  const call = client.makeServerStreamRequest(
    '/SpiffeWorkloadAPI/FetchX509SVID',
    (request: Uint8Array) => Buffer.from(request),
    (bytes: Buffer) => fromBinary(X509SVIDResponseSchema, bytes),
    toBinary(X509SVIDRequestSchema, create(X509SVIDRequestSchema)),
    metadata,
  );
  const cancel = (): void => call.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for await (const message of call) yield read(message as X509SVIDResponse);
  } catch (error) {
    if (signal.aborted) return;
    const { code, details = '' } = error as Partial<ServiceError>;
    if (code === undefined) throw error;
    if (code !== status.UNAVAILABLE) throw errorOfStatus({ code, details });
    throw new HansaError(
      'HANSA_UNREACHABLE',
      `The workload socket ${socket} does not answer. Start the site with \`hansa server\`, or name its socket or --data-dir.`,
      { cause: error },
    );
  } finally {
    signal.removeEventListener('abort', cancel);
    call.cancel();
    client.close();
  }
}

export interface FollowOptions {
  readonly socket: string;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** The stream ended with this error; it is opened again after so long. */
  readonly lost: (error: unknown, retryMs: number) => void;
}

const firstRetryMs = 500;
const lastRetryMs = 30_000;

/**
 * Like `watchSvids`, and goes on after a site that was stopped or an entry that was gone for a
 * while. Only where the very first answer is a refusal it throws that: then something is set up wrong.
 */
export async function* followSvids(options: FollowOptions): AsyncGenerator<ReceivedState, void> {
  const { socket, signal, clock, lost } = options;
  let everAnswered = false;
  let retryMs = firstRetryMs;
  while (!signal.aborted) {
    try {
      for await (const state of watchSvids(socket, signal)) {
        everAnswered = true;
        retryMs = firstRetryMs;
        yield state;
      }
    } catch (error) {
      if (!everAnswered) throw error;
      lost(error, retryMs);
    }
    await sleep(clock, retryMs, signal).catch(() => undefined);
    retryMs = Math.min(retryMs * 2, lastRetryMs);
  }
}

function read(message: X509SVIDResponse): ReceivedState {
  return {
    svids: message.svids.map((svid) => ({
      id: SpiffeId.parse(svid.spiffeId),
      hint: svid.hint,
      chain: splitCertificates(svid.x509Svid),
      key: svid.x509SvidKey,
      authorities: splitCertificates(svid.bundle),
    })),
    federated: new Map(
      Object.entries(message.federatedBundles).map(([id, der]) => [id, splitCertificates(der)]),
    ),
  };
}

/** Certificates one after the other, as the Workload API has them. */
function splitCertificates(der: Uint8Array): readonly Certificate[] {
  const reader = new DerReader(der);
  const certificates: Certificate[] = [];
  while (reader.peek() !== -1) certificates.push(Certificate.parse(reader.raw(tags.sequence)));
  return certificates;
}

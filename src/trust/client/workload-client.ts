// A client of the Workload API, for `hansa svid watch` and `hansa svid fetch`.

import {
  create,
  type DescMessage,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import {
  JWTBundlesResponseSchema,
  JWTSVIDRequestSchema,
  type JWTSVIDResponse,
  JWTSVIDResponseSchema,
  type X509SVIDResponse,
  X509SVIDResponseSchema,
} from '../../../proto/gen/workload_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { type Clock, sleep } from '../../core/clock/clock.ts';
import { hasCode, HansaError } from '../../core/errors/error.ts';
import { Certificate } from '../../core/identity/x509/certificate.ts';
import { DerReader } from '../../core/identity/x509/der-reader.ts';
import { tags } from '../../core/identity/x509/der.ts';
import { errorOfStatus } from '../workload/socket/grpc-status.ts';

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
 * States until `signal` is aborted, which ends it without an error. Throws the error of the site
 * (HANSA_FORBIDDEN if no entry matches this process), or HANSA_UNREACHABLE if there is no
 * response.
 */
export async function* watchSvids(
  socket: string,
  signal: AbortSignal,
): AsyncGenerator<ReceivedState, void> {
  for await (const message of watch(socket, signal, 'FetchX509SVID', X509SVIDResponseSchema)) {
    yield read(message);
  }
}

export interface ReceivedIdentities extends ReceivedState {
  /** The key IDs of the JWT authorities that this process may trust, by trust domain ID. */
  readonly jwtKeys: ReadonlyMap<string, readonly string[]>;
}

/** As `watchSvids`, of both profiles: a state when both have answered, and whenever either tells something new. */
export async function* watchIdentities(
  socket: string,
  signal: AbortSignal,
): AsyncGenerator<ReceivedIdentities, void> {
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const states = watchSvids(socket, either);
  const keys = watchJwtKeys(socket, either);
  // A stream can fail while no call awaits it. The next call gets the error.
  const ask = <T>(of: AsyncGenerator<T, void>): Promise<IteratorResult<T, void>> => {
    const next = of.next();
    next.catch(() => undefined);
    return next;
  };
  let nextState = ask(states);
  let nextKeys = ask(keys);
  let state: ReceivedState | undefined;
  let jwtKeys: ReadonlyMap<string, readonly string[]> | undefined;
  try {
    for (;;) {
      const came = await Promise.race([
        nextState.then(({ value }) => ({ state: value ?? undefined })),
        nextKeys.then(({ value }) => ({ jwtKeys: value ?? undefined })),
      ]);
      if ('state' in came) {
        if (came.state === undefined) return;
        ({ state } = came);
        nextState = ask(states);
      } else {
        if (came.jwtKeys === undefined) return;
        ({ jwtKeys } = came);
        nextKeys = ask(keys);
      }
      if (state !== undefined && jwtKeys !== undefined) yield { ...state, jwtKeys };
    }
  } finally {
    over.abort();
    await Promise.allSettled([nextState, nextKeys]);
  }
}

async function* watchJwtKeys(
  socket: string,
  signal: AbortSignal,
): AsyncGenerator<ReadonlyMap<string, readonly string[]>, void> {
  const messages = watch(socket, signal, 'FetchJWTBundles', JWTBundlesResponseSchema);
  for await (const { bundles } of messages) {
    yield new Map(Object.entries(bundles).map(([id, jwks]) => [id, keyIdsOf(jwks)]));
  }
}

async function* watch<S extends DescMessage>(
  socket: string,
  signal: AbortSignal,
  method: string,
  response: S,
): AsyncGenerator<MessageShape<S>, void> {
  if (signal.aborted) return;
  const { client, metadata } = openSocket(socket);
  const call = client.makeServerStreamRequest(
    `/SpiffeWorkloadAPI/${method}`,
    (request: Uint8Array) => Buffer.from(request),
    (bytes: Buffer) => fromBinary(response, bytes),
    // The requests of streams have no fields.
    new Uint8Array(),
    metadata,
  );
  const cancel = (): void => call.cancel();
  signal.addEventListener('abort', cancel, { once: true });
  try {
    for await (const message of call) yield message as MessageShape<S>;
  } catch (error) {
    if (signal.aborted) return;
    throw readFailure(socket, error);
  } finally {
    signal.removeEventListener('abort', cancel);
    call.cancel();
    client.close();
  }
}

interface JwtRequest {
  readonly audience: readonly string[];
  readonly spiffeId: string;
}

/**
 * The JWT-SVIDs of this process for an audience: one for each identity, or that of `spiffeId` alone. Asks
 * again where the connection was cut.
 */
export async function fetchJwtSvids(
  { socket, signal, clock }: Asking,
  request: JwtRequest,
): Promise<readonly ReceivedJwtSvid[]> {
  for (let failures = 1; ; failures++) {
    try {
      return await askJwtSvids(socket, request, signal);
    } catch (error) {
      if (signal.aborted || !mayAskAgain(error, failures)) throw error;
      await sleep(clock, firstRetryMs * 2 ** (failures - 1), signal);
    }
  }
}

async function askJwtSvids(
  socket: string,
  request: JwtRequest,
  signal: AbortSignal,
): Promise<readonly ReceivedJwtSvid[]> {
  const { client, metadata } = openSocket(socket);
  const message = create(JWTSVIDRequestSchema, {
    audience: [...request.audience],
    spiffeId: request.spiffeId,
  });
  try {
    const { svids } = await new Promise<JWTSVIDResponse>((resolve, reject) => {
      const call = client.makeUnaryRequest(
        '/SpiffeWorkloadAPI/FetchJWTSVID',
        (bytes: Uint8Array) => Buffer.from(bytes),
        (bytes: Buffer) => fromBinary(JWTSVIDResponseSchema, bytes),
        toBinary(JWTSVIDRequestSchema, message),
        metadata,
        (error, response) => {
          if (response === undefined) reject(readFailure(socket, error));
          else resolve(response);
        },
      );
      signal.addEventListener('abort', () => call.cancel(), { once: true });
    });
    return svids.map(({ spiffeId, svid, hint }) => ({
      id: SpiffeId.parse(spiffeId),
      token: svid,
      hint,
    }));
  } finally {
    client.close();
  }
}

export interface ReceivedJwtSvid {
  readonly id: SpiffeId;
  readonly token: string;
  readonly hint: string;
}

function openSocket(socket: string): { readonly client: Client; readonly metadata: Metadata } {
  const metadata = new Metadata();
  // SPIFFE Workload Endpoint section 6.
  metadata.set('workload.spiffe.io', 'true');
  return { client: new Client(`unix:${socket}`, credentials.createInsecure()), metadata };
}

function readFailure(socket: string, error: unknown): unknown {
  const { code, details = '' } = error as Partial<ServiceError>;
  if (code === undefined) return error;
  if (code !== status.UNAVAILABLE) return errorOfStatus({ code, details });
  return new HansaError(
    'HANSA_UNREACHABLE',
    `The workload socket ${socket} does not answer. Start the site (hansa server) or the agent (hansa agent run), or name its socket or --data-dir.`,
    { cause: error },
  );
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
/** For a first answer: with the waits between them, four seconds. */
const firstAttempts = 4;

/** Who asks again, and for how long. */
export type Asking = Pick<FollowOptions, 'socket' | 'signal' | 'clock'>;

/** The first state; undefined if `signal` is aborted. Asks again where the connection was cut. */
export async function fetchSvids(options: Asking): Promise<ReceivedState | undefined> {
  for await (const state of followSvids({ ...options, lost: () => undefined })) return state;
  return undefined;
}

/**
 * Like `watchSvids`, and goes on after a site that was stopped or an entry that was gone for a
 * while. Only where the very first answer is a refusal it throws that: then something is set up wrong. A
 * connection that was cut before the first answer is opened again a few times.
 */
export function followSvids(options: FollowOptions): AsyncGenerator<ReceivedState, void> {
  return follow(options, watchSvids);
}

/** As `followSvids`, of both profiles. */
export function followIdentities(options: FollowOptions): AsyncGenerator<ReceivedIdentities, void> {
  return follow(options, watchIdentities);
}

async function* follow<State>(
  options: FollowOptions,
  watchStates: (socket: string, signal: AbortSignal) => AsyncGenerator<State, void>,
): AsyncGenerator<State, void> {
  const { socket, signal, clock, lost } = options;
  let everAnswered = false;
  let failures = 0;
  let retryMs = firstRetryMs;
  while (!signal.aborted) {
    try {
      for await (const state of watchStates(socket, signal)) {
        everAnswered = true;
        retryMs = firstRetryMs;
        yield state;
      }
    } catch (error) {
      if (!everAnswered && !mayAskAgain(error, ++failures)) throw error;
      lost(error, retryMs);
    }
    await sleep(clock, retryMs, signal).catch(() => undefined);
    retryMs = Math.min(retryMs * 2, lastRetryMs);
  }
}

/**
 * A server cuts connections beyond its limits, and a busy one may do so at any time. A socket without a
 * server is another matter: to wait for it would only delay the message.
 */
function mayAskAgain(error: unknown, failures: number): boolean {
  if (failures >= firstAttempts) return false;
  if (hasCode(error, 'HANSA_TOO_MANY_REQUESTS')) return true;
  if (!hasCode(error, 'HANSA_UNREACHABLE')) return false;
  const { details = '' } = error.cause as Partial<ServiceError>;
  return !/ENOENT|ECONNREFUSED|EACCES|ENOTSOCK/.test(details);
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

function keyIdsOf(jwks: Uint8Array): readonly string[] {
  const { keys } = JSON.parse(Buffer.from(jwks).toString('utf8')) as {
    readonly keys: readonly { readonly kid?: string }[];
  };
  return keys.map(({ kid = '' }) => kid);
}

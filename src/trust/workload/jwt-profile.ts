// The JWT profile of the Workload API (SPIFFE Workload API section 6).

import { create, type JsonObject, toBinary } from '@bufbuild/protobuf';
import type {
  handleServerStreamingCall,
  handleUnaryCall,
  ServerUnaryCall,
  ServiceError,
} from '@grpc/grpc-js';
import {
  type JWTSVIDRequest,
  JWTSVIDResponseSchema,
  type ValidateJWTSVIDRequest,
  ValidateJWTSVIDResponseSchema,
} from '../../../proto/gen/workload_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { brokenJwtRule, type JwtRule } from '../../core/identity/jwt/rules.ts';
import { validateJwtSvid } from '../../core/identity/jwt/svid-validator.ts';
import { grpcStatus } from './socket/grpc-status.ts';
import type { JwtSupply } from './svids/jwt-supply.ts';
import { hintsOf, type UsableEntry } from './entries/matching-entries.ts';
import { anotherProcess, connectionGone, noIdentity } from './socket/stream-refusals.ts';
import { serveStates, type StateView, type WorkloadApiOptions } from './workload-api.ts';
import type { WorkloadConnection } from './socket/workload-connections.ts';
import { jwtOf } from './workload-state.ts';

export interface JwtProfileOptions extends WorkloadApiOptions {
  readonly jwtSupply: JwtSupply;
  readonly clock: Clock;
  /** Called if a token could not be signed. */
  readonly jwtFailed: (error: unknown) => void;
  /** Called with the violated rule, or undefined for a valid token. */
  readonly validated: (rule: JwtRule | undefined) => void;
}

export interface JwtProfile {
  readonly FetchJWTSVID: handleUnaryCall<JWTSVIDRequest, Uint8Array>;
  readonly FetchJWTBundles: handleServerStreamingCall<unknown, Uint8Array>;
  readonly ValidateJWTSVID: handleUnaryCall<ValidateJWTSVIDRequest, Uint8Array>;
}

const signedInARow = 100;

const jwtBundles: StateView = {
  what: 'jwt-bundles',
  needsSvids: false,
  prepare: jwtOf,
  versionOf: (state) => state.jwtBundlesVersion,
  messageOf: (state) => state.jwtBundlesResponse,
};

export function jwtProfile(options: JwtProfileOptions): JwtProfile {
  return {
    FetchJWTSVID: unary(options, fetchSvids),
    FetchJWTBundles: (call) => serveStates(options, call, jwtBundles),
    ValidateJWTSVID: unary(options, validate),
  };
}

type Answer<Request> = (
  options: JwtProfileOptions,
  connection: WorkloadConnection,
  request: Request,
) => Uint8Array | Promise<Uint8Array>;

function unary<Request>(
  options: JwtProfileOptions,
  answerOf: Answer<Request>,
): handleUnaryCall<Request, Uint8Array> {
  const answered = async (call: ServerUnaryCall<Request, Uint8Array>): Promise<Uint8Array> => {
    const connection = options.connections.get(call.getPeer());
    if (connection === undefined) throw connectionGone();
    const message = await answerOf(options, connection, call.request);
    if (!connection.isSame()) throw anotherProcess();
    return message;
  };
  return (call, answer) => {
    answered(call).then(
      (message) => answer(null, message),
      (error: unknown) => answer(grpcStatus(error) as Partial<ServiceError>),
    );
  };
}

/** Section 6.2.1. */
async function fetchSvids(
  options: JwtProfileOptions,
  connection: WorkloadConnection,
  { audience, spiffeId }: JWTSVIDRequest,
): Promise<Uint8Array> {
  // Section 4.5: this check comes first, so that its error reveals nothing about entries.
  if (audience.length === 0) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      'A JWT-SVID needs an audience: name the service that should accept it.',
    );
  }
  const wanted = spiffeId === '' ? undefined : SpiffeId.parse(spiffeId);
  for (;;) {
    const entries = entriesOf(options, connection);
    const isCurrent = (): boolean => {
      const now = new Set(options.delivery.entriesOf(connection.process));
      return entries.every((entry) => now.has(entry));
    };
    const svids = await signedFor(options, connection, entries, wanted, audience).catch(
      (error: unknown) => {
        if (isCurrent()) throw error;
        // The site of an agent refuses to sign for an entry that is gone.
        return [];
      },
    );
    // Where one of them is gone, or another, since: those that there are then.
    if (!isCurrent()) continue;
    return toBinary(JWTSVIDResponseSchema, create(JWTSVIDResponseSchema, { svids }));
  }
}

async function signedFor(
  options: JwtProfileOptions,
  connection: WorkloadConnection,
  entries: readonly UsableEntry[],
  wanted: SpiffeId | undefined,
  audience: readonly string[],
): Promise<{ spiffeId: string; svid: string; hint: string }[]> {
  const hints = hintsOf(entries);
  const chosen = entries
    .map((entry, at) => ({ entry, hint: hints[at] ?? '' }))
    .filter(({ entry }) => wanted === undefined || entry.id.equals(wanted));
  if (chosen.length === 0) {
    options.denied(connection, 'jwt-svid');
    throw new HansaError(
      'HANSA_FORBIDDEN',
      `The identity ${wanted?.toString()} is not registered for this process (${connection.process.description}).`,
    );
  }
  const svids = [];
  for (const [at, { entry, hint }] of chosen.entries()) {
    // Others of the site get their turn: a signature takes some 30 µs.
    if (at % signedInARow === signedInARow - 1) await yieldToEventLoop();
    const { token } = await options.jwtSupply.svidOf(entry, audience).catch((error: unknown) => {
      if (!hasCode(error, 'HANSA_BAD_REQUEST')) options.jwtFailed(error);
      throw error;
    });
    svids.push({ spiffeId: entry.id.toString(), svid: token, hint });
  }
  return svids;
}

/** Section 6.2.3: by the bundles that the caller may trust, as if it did so itself. */
function validate(
  options: JwtProfileOptions,
  connection: WorkloadConnection,
  { audience, svid }: ValidateJWTSVIDRequest,
): Uint8Array {
  for (const [name, value] of Object.entries({ audience, svid })) {
    if (value === '') {
      throw new HansaError('HANSA_BAD_REQUEST', `The request has no ${name}, which is mandatory.`);
    }
  }
  entriesOf(options, connection);
  const bundles = options.delivery.bundlesOf(connection.process);
  const { id, claims } = judged(options, () =>
    validateJwtSvid(svid, audience, bundles, options.clock.now()),
  );
  return toBinary(
    ValidateJWTSVIDResponseSchema,
    create(ValidateJWTSVIDResponseSchema, {
      spiffeId: id.toString(),
      claims: claims as JsonObject,
    }),
  );
}

function judged<T>({ validated }: JwtProfileOptions, judge: () => T): T {
  try {
    const result = judge();
    validated(undefined);
    return result;
  } catch (error) {
    const rule = brokenJwtRule(error);
    if (rule !== undefined) validated(rule);
    throw error;
  }
}

function entriesOf(
  { delivery, denied }: JwtProfileOptions,
  connection: WorkloadConnection,
): readonly UsableEntry[] {
  const entries = delivery.entriesOf(connection.process);
  if (entries.length > 0) return entries;
  denied(connection, 'jwt-svid');
  throw noIdentity(connection.process);
}

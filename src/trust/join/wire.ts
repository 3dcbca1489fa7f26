// Parses the messages of proto/join.proto. Malformed messages are rejected with HANSA_BAD_REQUEST, which
// reveals nothing, because it depends only on the bytes that the client sent.

import {
  create,
  type DescMessage,
  fromBinary,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import {
  CertsSchema,
  type RegisterUsingTokenRequest,
  RegisterUsingSecretMethodRequestSchema,
  RegisterUsingSPIFFEMethodRequestSchema,
  RegisterUsingSPIFFEMethodResponseSchema,
  RenewSVIDRequestSchema,
} from '../../../proto/gen/join_pb.ts';
import { HansaError } from '../../core/errors/error.ts';
import { type JoinWish, nonceBytes, type RenewWish } from './transcript.ts';

const service = '/hansa.join.v1.JoinService';
export const paths = {
  spiffe: `${service}/RegisterUsingSPIFFEMethod`,
  secret: `${service}/RegisterUsingSecretMethod`,
  renew: `${service}/RenewSVID`,
} as const;

/** A chain of eight certificates of common size, with a key: far above any SVID. */
export const maxMessageBytes = 64 * 1024;

/** The requests of all methods: a payload starts the conversation, or answers the challenge. */
export type RequestSchema =
  | typeof RegisterUsingSPIFFEMethodRequestSchema
  | typeof RegisterUsingSecretMethodRequestSchema
  | typeof RenewSVIDRequestSchema;

/** The first message of all methods. */
interface Opening {
  readonly publicKey: Uint8Array;
  readonly clientNonce: Uint8Array;
}

export interface SpiffeOpening extends Opening {
  readonly wish: JoinWish;
  /** The leaf first. */
  readonly chain: readonly Uint8Array[];
}

export interface SecretOpening extends Opening {
  readonly wish: JoinWish;
  readonly secretKey: Uint8Array;
}

export interface RenewOpening extends Opening {
  readonly wish: RenewWish;
  readonly chain: readonly Uint8Array[];
}

export interface GivenCerts {
  readonly spiffeId: string;
  readonly chain: readonly Uint8Array[];
  readonly bundle: readonly Uint8Array[];
  readonly instance: string;
  readonly generation: bigint;
  /** How long after its expiry the SVID can be renewed with its key. */
  readonly reattestSeconds: number;
}

/** Parses the messages of one method. */
export interface Wire<O extends Opening> {
  readonly path: string;
  opening(bytes: Uint8Array): O;
  /** The signature. */
  solution(bytes: Uint8Array): Uint8Array;
}

export const spiffeWire: Wire<SpiffeOpening> = {
  path: paths.spiffe,
  opening: (bytes) => {
    const { payload } = read(RegisterUsingSPIFFEMethodRequestSchema, bytes);
    if (payload.case !== 'init') throw outOfTurn();
    const { joinRequest, x509Svid, intermediates } = payload.value;
    return { ...joinOpening(joinRequest), chain: [x509Svid, ...intermediates] };
  },
  solution: (bytes) => signatureIn(read(RegisterUsingSPIFFEMethodRequestSchema, bytes)),
};

export const secretWire: Wire<SecretOpening> = {
  path: paths.secret,
  opening: (bytes) => {
    const { payload } = read(RegisterUsingSecretMethodRequestSchema, bytes);
    if (payload.case !== 'init') throw outOfTurn();
    return { ...joinOpening(payload.value.joinRequest), secretKey: payload.value.secretKey };
  },
  solution: (bytes) => signatureIn(read(RegisterUsingSecretMethodRequestSchema, bytes)),
};

export const renewWire: Wire<RenewOpening> = {
  path: paths.renew,
  opening: (bytes) => {
    const { payload } = read(RenewSVIDRequestSchema, bytes);
    if (payload.case !== 'init') throw outOfTurn();
    const { instance, generation, x509Svid, intermediates, publicKey, clientNonce } = payload.value;
    return {
      wish: { instance, generation },
      chain: [x509Svid, ...intermediates],
      publicKey,
      clientNonce: nonce(clientNonce),
    };
  },
  solution: (bytes) => signatureIn(read(RenewSVIDRequestSchema, bytes)),
};

function signatureIn({ payload }: MessageShape<RequestSchema>): Uint8Array {
  if (payload.case !== 'challengeSolution') throw outOfTurn();
  return payload.value.signedNonce;
}

/** The responses of all methods have the same encoding: the same fields and numbers. */
export function encodeChallenge(serverNonce: Uint8Array): Uint8Array {
  return toBinary(
    RegisterUsingSPIFFEMethodResponseSchema,
    create(RegisterUsingSPIFFEMethodResponseSchema, {
      payload: { case: 'challenge', value: { nonce: serverNonce } },
    }),
  );
}

export function encodeCerts(certs: GivenCerts): Uint8Array {
  const { spiffeId, chain, bundle, instance, generation, reattestSeconds } = certs;
  const value = create(CertsSchema, {
    spiffeId,
    x509Svid: [...chain],
    bundle: [...bundle],
    instance,
    generation,
    reattestSeconds,
  });
  return toBinary(
    RegisterUsingSPIFFEMethodResponseSchema,
    create(RegisterUsingSPIFFEMethodResponseSchema, { payload: { case: 'certs', value } }),
  );
}

/** For the client: parses a response of the server. */
export function readAnswer(
  bytes: Uint8Array,
): { readonly nonce: Uint8Array } | { readonly certs: GivenCerts } {
  const { payload } = read(RegisterUsingSPIFFEMethodResponseSchema, bytes);
  if (payload.case === 'challenge') return { nonce: nonce(payload.value.nonce) };
  if (payload.case !== 'certs') throw outOfTurn();
  const { x509Svid: chain, ...given } = payload.value;
  const { spiffeId, bundle, instance, generation, reattestSeconds } = given;
  return { certs: { spiffeId, chain, bundle, instance, generation, reattestSeconds } };
}

function joinOpening(request: RegisterUsingTokenRequest | undefined): Opening & {
  readonly wish: JoinWish;
} {
  if (request === undefined)
    throw new HansaError('HANSA_BAD_REQUEST', 'The join request is missing.');
  const { token, role, name, publicKey, clientNonce } = request;
  return { wish: { token, role, name }, publicKey, clientNonce: nonce(clientNonce) };
}

function nonce(bytes: Uint8Array): Uint8Array {
  if (bytes.byteLength !== nonceBytes) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `A nonce must have ${nonceBytes} bytes, but this one has ${bytes.byteLength}.`,
    );
  }
  return bytes;
}

function read<S extends DescMessage>(schema: S, bytes: Uint8Array): MessageShape<S> {
  try {
    return fromBinary(schema, bytes);
  } catch (cause) {
    throw new HansaError('HANSA_BAD_REQUEST', 'The message does not belong to this method.', {
      cause,
    });
  }
}

function outOfTurn(): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', 'Another message was expected at this point.');
}

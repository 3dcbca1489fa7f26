// The client of the join service: verifies the server, proves its SVID or secret, and checks the issued
// SVID.

import { create, type MessageInitShape, type MessageShape, toBinary } from '@bufbuild/protobuf';
import { createPublicKey, type KeyObject } from 'node:crypto';
import {
  RegisterUsingSecretMethodRequestSchema,
  RegisterUsingSPIFFEMethodRequestSchema,
  RenewSVIDRequestSchema,
} from '../../../proto/gen/join_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { Certificate } from '../../core/identity/x509/certificate.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import { parseChain, validateChain } from '../../core/identity/x509/svid-validator.ts';
import { connectSvid, type SvidConnection } from '../../core/identity/tls/client.ts';
import type { TlsCredential } from '../../core/identity/tls/options.ts';
import { signTranscript } from '../join/proof.ts';
import { RpcClientCall } from './rpc-client.ts';
import { secretPrivateKey } from '../join/secret.ts';
import {
  type Conversation,
  credentialDigest,
  exporterBytes,
  exporterLabel,
  joinTranscript,
  type JoinWish,
  nonceBytes,
  renewTranscript,
  type RenewWish,
} from '../join/transcript.ts';
import { type GivenCerts, paths, readAnswer, type RequestSchema } from '../join/wire.ts';

export interface JoinServer {
  readonly url: URL;
  /** Its SVID must be of this trust domain, and verify against this bundle. */
  readonly bundle: Bundle;
}

/** An SVID of another trust domain, or of this one. */
export interface SvidCredential {
  /** The leaf first. */
  readonly chain: readonly Certificate[];
  readonly key: KeyObject;
}

export interface JoinClientParts {
  readonly server: JoinServer;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal?: AbortSignal;
  /** The private key that is to be certified. It does not leave this process. */
  readonly key: KeyObject;
}

export interface Joined {
  readonly id: SpiffeId;
  readonly chain: readonly Certificate[];
  readonly bundle: Bundle;
  readonly instance: string;
  readonly generation: bigint;
  readonly notAfterMs: number;
  /** How long after its expiry the SVID can be renewed with its key. */
  readonly reattestSeconds: number;
}

/** Three times the timeout of the site for a join. After that, the site is gone. */
export const answerMs = 30_000;

/** What differs between the methods. */
interface Method {
  readonly path: string;
  readonly credential: Uint8Array;
  readonly signWith: KeyObject;
  readonly transcript: (conversation: Conversation) => Buffer;
  readonly init: (request: {
    readonly publicKey: Uint8Array;
    readonly clientNonce: Uint8Array;
  }) => Uint8Array;
  readonly solution: (signedNonce: Uint8Array) => Uint8Array;
}

export function joinBySvid(
  parts: JoinClientParts,
  wish: JoinWish,
  credential: SvidCredential,
): Promise<Joined> {
  const [leaf, ...above] = chainOf(credential);
  const schema = RegisterUsingSPIFFEMethodRequestSchema;
  return converse(parts, {
    path: paths.spiffe,
    credential: credentialDigest(leaf),
    signWith: credential.key,
    transcript: (conversation) => joinTranscript(wish, conversation),
    init: (keys) =>
      encode(schema, {
        case: 'init',
        value: { joinRequest: { ...wish, ...keys }, x509Svid: leaf, intermediates: above },
      }),
    solution: (signedNonce) =>
      encode(schema, { case: 'challengeSolution', value: { signedNonce } }),
  });
}

export function joinBySecret(
  parts: JoinClientParts,
  wish: JoinWish,
  seed: Uint8Array,
): Promise<Joined> {
  const signWith = secretPrivateKey(seed);
  const spki = createPublicKey(signWith).export({ format: 'der', type: 'spki' });
  const secretKey = spki.subarray(-32);
  const schema = RegisterUsingSecretMethodRequestSchema;
  return converse(parts, {
    path: paths.secret,
    credential: credentialDigest(secretKey),
    signWith,
    transcript: (conversation) => joinTranscript(wish, conversation),
    init: (keys) =>
      encode(schema, {
        case: 'init',
        value: { joinRequest: { ...wish, ...keys }, secretKey },
      }),
    solution: (signedNonce) =>
      encode(schema, { case: 'challengeSolution', value: { signedNonce } }),
  });
}

/** `credential` is the newest SVID; `parts.key` is kept before this is called, so that it can be asked again. */
export function renewSvid(
  parts: JoinClientParts,
  wish: RenewWish,
  credential: SvidCredential,
): Promise<Joined> {
  const [leaf, ...above] = chainOf(credential);
  const schema = RenewSVIDRequestSchema;
  return converse(parts, {
    path: paths.renew,
    credential: credentialDigest(leaf),
    signWith: credential.key,
    transcript: (conversation) => renewTranscript(wish, conversation),
    init: (keys) =>
      encode(schema, {
        case: 'init',
        value: { ...wish, ...keys, x509Svid: leaf, intermediates: above },
      }),
    solution: (signedNonce) =>
      encode(schema, { case: 'challengeSolution', value: { signedNonce } }),
  });
}

function encode<S extends RequestSchema>(
  schema: S,
  payload: NonNullable<Exclude<MessageInitShape<S>, MessageShape<S>>['payload']>,
): Uint8Array {
  return toBinary(schema, create(schema, { payload } as MessageInitShape<S>));
}

function chainOf({ chain }: SvidCredential): readonly [Buffer, ...Buffer[]] {
  const [leaf, ...above] = chain.map(({ der }) => der);
  if (leaf === undefined) throw new HansaError('HANSA_USAGE', 'The SVID contains no certificate.');
  return [leaf, ...above];
}

async function converse(parts: JoinClientParts, method: Method): Promise<Joined> {
  const { server, clock, random, signal } = parts;
  const { trustDomain } = server.bundle;
  const { socket } = await connectSite({ server, clock, signal, purpose: 'join at' });
  const exporter = socket.exportKeyingMaterial(exporterBytes, exporterLabel, Buffer.alloc(0));
  const call = new RpcClientCall(socket, server.url.host, method.path);
  const cancel = (): void => call.close();
  signal?.addEventListener('abort', cancel, { once: true });
  // A connection can break silently, and the call would then wait for ever.
  let late = false;
  const timer = clock.timer(answerMs, () => {
    late = true;
    call.close();
  });
  try {
    const publicKey = PublicKey.of(parts.key).spki;
    const clientNonce = await random.bytes(nonceBytes);
    call.write(method.init({ publicKey, clientNonce }));
    const challenge = readAnswer(await call.read());
    if (!('nonce' in challenge)) throw unexpected();
    const transcript = method.transcript({
      method: method.path,
      trustDomain: trustDomain.name,
      publicKey,
      credential: method.credential,
      clientNonce,
      serverNonce: challenge.nonce,
      exporter,
    });
    call.write(method.solution(signTranscript(transcript, method.signWith)));
    const answer = readAnswer(await call.read());
    if (!('certs' in answer)) throw unexpected();
    return believe(answer.certs, trustDomain, publicKey, clock.now());
  } catch (cause) {
    if (!late) throw cause;
    throw new HansaError(
      'HANSA_TIMEOUT',
      `Cannot join at ${server.url.origin}: it did not answer within ${answerMs / 1000} s. Try again.`,
      { cause },
    );
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', cancel);
    call.close();
  }
}

export interface SiteConnectOptions {
  readonly server: JoinServer;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** The own SVID, for calls of members. */
  readonly credential?: TlsCredential;
  /** For messages, such as `join at`. */
  readonly purpose: string;
}

/** Connects with HTTP/2 over TLS 1.3 and verifies the site. Sends nothing to another server. */
export async function connectSite({
  server: { url, bundle },
  clock,
  signal,
  credential,
  purpose,
}: SiteConnectOptions): Promise<SvidConnection> {
  const { trustDomain } = bundle;
  const expected = SpiffeId.of(trustDomain, 'hansa', 'site');
  let connection: SvidConnection;
  try {
    connection = await connectSvid({
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? 443 : Number(url.port),
      expected,
      bundles: { bundleFor: (asked) => (asked.equals(trustDomain) ? bundle : undefined) },
      clock,
      alpnProtocols: ['h2'],
      ...(credential === undefined ? {} : { credential }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (cause) {
    const rule = brokenRule(cause);
    if (rule === undefined) throw cause;
    const found = (cause as HansaError).details?.causes?.[0]?.message ?? '';
    throw new HansaError(
      'HANSA_PEER_UNTRUSTED',
      `Cannot ${purpose} ${url.origin}: the server is not ${expected.toString()}, verified against the given bundle (${found}). Nothing was sent.${rule === 'expired' ? ' Check the clocks of this machine and of the site.' : ''}`,
      { cause },
    );
  }
  const { socket } = connection;
  // The exporter of older versions does not bind to one connection (RFC 7627 §1).
  if (socket.getProtocol() === 'TLSv1.3' && socket.alpnProtocol === 'h2') return connection;
  socket.destroy();
  throw new HansaError(
    'HANSA_UNREACHABLE',
    `Cannot ${purpose} ${url.origin}: it does not speak HTTP/2 over TLS 1.3.`,
  );
}

/** The server was verified; that it gave what was asked for is still looked at. */
function believe(
  certs: GivenCerts,
  trustDomain: TrustDomain,
  publicKey: Buffer,
  nowMs: number,
): Joined {
  const chain = parseChain(certs.chain);
  const bundle = new Bundle(
    trustDomain,
    certs.bundle.map((der) => Certificate.parse(der)),
  );
  const svid = validateChain(
    chain,
    { bundleFor: (asked) => (asked.equals(trustDomain) ? bundle : undefined) },
    nowMs,
  );
  if (!svid.leaf.spki.equals(publicKey) || svid.id.toString() !== certs.spiffeId) {
    throw unexpected();
  }
  const { instance, generation, reattestSeconds } = certs;
  const { notAfterMs } = svid.leaf;
  return { id: svid.id, chain, bundle, instance, generation, notAfterMs, reattestSeconds };
}

function unexpected(): HansaError {
  return new HansaError(
    'HANSA_UNREACHABLE',
    'Cannot join: the SVID in the response does not match the request.',
  );
}

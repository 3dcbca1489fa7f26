// For tests only: a site behind a signing link. It verifies proofs and signs, or misbehaves as a test asks.

import { verify } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type JwtResult,
  JwtResultSchema,
  type SignResponse,
  SignResponseSchema,
  type X509Result,
  X509ResultSchema,
} from '../../../proto/gen/agent_pb.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { signJwtSvid } from '../../core/identity/jwt/sign-svid.ts';
import { PublicKey } from '../../core/identity/x509/keys.ts';
import { signingTranscript } from '../agents/sign-transcript.ts';
import type { SignBinding } from '../../core/agent/sign-requests.ts';
import type { SignContent, SigningLink } from './signing-link.ts';

export const testAgent = 'crane-1';
const exporter = Buffer.alloc(32, 7);

/** The part of an entry that the site signs from. */
export interface SignedEntry {
  readonly uid: string;
  readonly spiffeId: string;
  readonly ttlSeconds: number;
  readonly dnsNames: readonly string[];
}

type X509Init = MessageInitShape<typeof X509ResultSchema>;
type JwtInit = MessageInitShape<typeof JwtResultSchema>;

export class TestSigningLink implements SigningLink {
  readonly #authority: SiteAuthority;
  readonly #clock: Clock;
  readonly #entryOf: (uid: string) => SignedEntry | undefined;
  #request = 0n;
  /** The number of requests in each message, in order. */
  readonly batches: number[] = [];
  /** Those for X.509-SVIDs alone. */
  readonly certificates: number[] = [];
  inFlight = 0;
  mostInFlight = 0;
  /** Wall time; undefined: the site answers. */
  darkSinceMs: number | undefined;
  /** Every message waits for it. */
  gate: Promise<void> = Promise.resolve();
  /** Changes what the site returns. */
  x509 = (result: X509Result, _uid: string): X509Init | Promise<X509Init> => result;
  jwt = (result: JwtResult, _uid: string): JwtInit | Promise<JwtInit> => result;
  response = (response: SignResponse): SignResponse => response;

  constructor(
    authority: SiteAuthority,
    clock: Clock,
    entryOf: (uid: string) => SignedEntry | undefined,
  ) {
    this.#authority = authority;
    this.#clock = clock;
    this.#entryOf = entryOf;
  }

  offlineMs(): number | undefined {
    return this.darkSinceMs === undefined ? undefined : this.#clock.now() - this.darkSinceMs;
  }

  async sign(build: (binding: SignBinding) => SignContent): Promise<SignResponse> {
    if (this.darkSinceMs !== undefined) throw unreachable();
    const request = ++this.#request;
    const { x509, jwt } = build({ exporter, request });
    this.batches.push(x509.length + jwt.length);
    this.certificates.push(x509.length);
    this.inFlight++;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    try {
      await this.gate;
      if (this.darkSinceMs !== undefined) throw unreachable();
      const signed = await Promise.all(x509.map((one) => this.#x509(one, request)));
      const tokens = await Promise.all(jwt.map((one) => this.#jwt(one)));
      return this.response(create(SignResponseSchema, { id: request, x509: signed, jwt: tokens }));
    } finally {
      this.inFlight--;
    }
  }

  async #x509(
    {
      entry: uid = '',
      publicKey = new Uint8Array(),
      proof = new Uint8Array(),
    }: SignContent['x509'][number],
    request: bigint,
  ): Promise<X509Init> {
    const entry = this.#entryOf(uid);
    if (entry === undefined) return { refusal: refusal(uid) };
    const key = PublicKey.parse(publicKey);
    const transcript = signingTranscript({
      trustDomain: this.#authority.trustDomain.name,
      agent: testAgent,
      exporter,
      request,
      entry: uid,
      publicKey,
    });
    if (!verify('sha256', transcript, key.keyObject, proof)) throw new Error('a wrong proof');
    const { chain, authorityId } = await this.#authority.issue({
      spiffeId: SpiffeId.parse(entry.spiffeId),
      publicKey: key,
      ttlSeconds: entry.ttlSeconds,
      dnsNames: entry.dnsNames,
    });
    const result = create(X509ResultSchema, { chain: [...chain], authority: authorityId });
    return this.x509(result, uid);
  }

  async #jwt({ entry: uid = '', audience = [] }: SignContent['jwt'][number]): Promise<JwtInit> {
    const entry = this.#entryOf(uid);
    if (entry === undefined) return { refusal: refusal(uid) };
    const { token, keyId, issuedAtMs, expiresAtMs } = await signJwtSvid({
      key: this.#authority.jwtSigner,
      trustDomain: this.#authority.trustDomain,
      subject: SpiffeId.parse(entry.spiffeId),
      audience,
      nowMs: this.#clock.now(),
    });
    const times = { issuedAtMs: BigInt(issuedAtMs), expiresAtMs: BigInt(expiresAtMs) };
    return this.jwt(create(JwtResultSchema, { token, keyId, ...times }), uid);
  }
}

function unreachable(): HansaError {
  return new HansaError('HANSA_UNAVAILABLE', 'Cannot reach the site.');
}

const refusal = (uid: string) => ({
  code: 'HANSA_FORBIDDEN',
  message: `The entry ${uid} is not assigned to this agent.`,
});

// Creates authorities: the key, and for X.509 the certificate, which is self-signed or signed by an
// upstream authority.

import { createPublicKey, type KeyObject } from 'node:crypto';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import type { Clock, Random } from '../../clock/clock.ts';
import { clockSkewMs } from './phases.ts';
import type { JwtEntry, X509Entry } from './record.ts';
import { buildCertificate, name } from '../x509/build-certificate.ts';
import { Certificate } from '../x509/certificate.ts';
import { keyUsageBits } from '../x509/extensions.ts';
import { generateKeyOf, type KeyType } from '../x509/keys.ts';
import { lintSigning } from '../x509/lint.ts';
import { SerialNumbers } from '../x509/serial-numbers.ts';
import { LocalSigner } from '../x509/signer.ts';
import {
  type SignedByUpstream,
  signWithUpstream,
  type UpstreamFiles,
  type UpstreamRequest,
} from './upstream.ts';

export interface MakeOptions {
  readonly trustDomain: TrustDomain;
  readonly clock: Clock;
  readonly random: Random;
  readonly keyType?: KeyType;
  readonly jwtKeyType?: KeyType;
  readonly rootTtlSeconds?: number;
  /** Undefined: the site is its own root. */
  readonly upstream?: UpstreamFiles | undefined;
  /** Replaces `keyType`. Simulation uses Ed25519, whose signatures are deterministic. */
  readonly generateKey?: (random: Random) => Promise<KeyObject>;
}

/** During half of this time, the next authority is prepared and reaches the peers automatically. */
const defaultRootTtlSeconds = 90 * 24 * 3600;
/** Shorter, because relying parties that verify tokens fetch the keys often. */
const jwtTtlSeconds = 30 * 24 * 3600;

export async function makeX509(options: MakeOptions): Promise<X509Entry> {
  const { trustDomain, clock, random, upstream, rootTtlSeconds = defaultRootTtlSeconds } = options;
  const privateKey = await (options.generateKey?.(random) ??
    generateKeyOf(options.keyType ?? 'ec-p256', random));
  const signer = new LocalSigner(privateKey);
  const nowMs = Math.floor(clock.now() / 1000) * 1000;
  const request = {
    trustDomain,
    signer,
    // Each authority has its own name, so that a chain shows which one issued it.
    subject: name('Hansa', `authority ${signer.publicKey.keyId.toString('hex', 0, 8)}`),
    serial: await new SerialNumbers(random).draw(),
    notBeforeMs: nowMs - clockSkewMs,
    notAfterMs: nowMs + rootTtlSeconds * 1000,
  };
  const signed =
    upstream === undefined ? await signItself(request) : await signWithUpstream(upstream, request);
  const { certificate } = signed;
  return {
    id: certificate.fingerprint,
    ...made(nowMs),
    notBeforeMs: certificate.notBeforeMs,
    notAfterMs: certificate.notAfterMs,
    ...signed,
    privateKey,
  };
}

async function signItself(request: UpstreamRequest): Promise<SignedByUpstream> {
  const { trustDomain, signer, subject } = request;
  const der = await buildCertificate(
    {
      serial: request.serial,
      issuer: subject,
      subject,
      notBeforeMs: request.notBeforeMs,
      notAfterMs: request.notAfterMs,
      publicKey: signer.publicKey,
      uris: [trustDomain.id],
      // It signs leaves only, so no CA may be below it.
      ca: { pathLength: 0 },
      keyUsage: keyUsageBits.keyCertSign | keyUsageBits.crlSign,
    },
    signer,
    (fields) => lintSigning(fields, trustDomain),
  );
  const certificate = Certificate.parse(der);
  return { certificate, chain: [], roots: [certificate] };
}

export async function makeJwt(options: MakeOptions): Promise<JwtEntry> {
  const { clock, random, rootTtlSeconds = defaultRootTtlSeconds } = options;
  const privateKey = await generateKeyOf(options.jwtKeyType ?? 'ec-p256', random);
  const nowMs = Math.floor(clock.now() / 1000) * 1000;
  return {
    id: new LocalSigner(privateKey).publicKey.keyId.toString('hex'),
    ...made(nowMs),
    notBeforeMs: nowMs - clockSkewMs,
    notAfterMs: nowMs + Math.min(jwtTtlSeconds, rootTtlSeconds) * 1000,
    publicKey: createPublicKey(privateKey),
    privateKey,
  };
}

/** The first authority of its kind is active from the start. */
function made(
  nowMs: number,
): Pick<X509Entry, 'state' | 'preparedAtMs' | 'activatedAtMs' | 'retiredAtMs' | 'taintedAtMs'> {
  return {
    state: 'active',
    preparedAtMs: nowMs,
    activatedAtMs: nowMs,
    retiredAtMs: undefined,
    taintedAtMs: undefined,
  };
}

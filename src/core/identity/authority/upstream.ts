// Creates the site's signing certificate under an upstream authority. The operator provides its
// certificate and key as files; the site reads them when it needs a new signing certificate and
// never stores them. The result is an intermediate that signs leaves only. Verifiers use the
// upstream roots.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { open } from 'node:fs/promises';
import { SpiffeId } from '../../../api/values/spiffe-id.ts';
import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { HansaError } from '../../errors/error.ts';
import { clockSkewMs, maxTtlSeconds } from './phases.ts';
import { buildCertificate, type CertificateRequest, emptyName } from '../x509/build-certificate.ts';
import { Bundle } from '../bundle/bundle.ts';
import { Certificate } from '../x509/certificate.ts';
import { keyUsageBits } from '../x509/extensions.ts';
import { lintLeaf, lintSigning } from '../x509/lint.ts';
import { parseCertificatesPem } from '../x509/pem.ts';
import { LocalSigner, type Signer } from '../x509/signer.ts';
import { maxChainLength, validateChain } from '../x509/svid-validator.ts';

/** PEM; absolute paths. */
export interface UpstreamFiles {
  /** The upstream authority first, then its intermediates. */
  readonly certFile: string;
  readonly keyFile: string;
  /** The roots. Undefined: `certFile` holds a root itself. */
  readonly bundleFile: string | undefined;
}

export interface SignedByUpstream {
  readonly certificate: Certificate;
  /** The certificate, then the intermediates up to a root. */
  readonly chain: readonly Certificate[];
  readonly roots: readonly Certificate[];
}

/** Room for a chain or a bundle of roots with RSA keys. */
const maxFileBytes = 256 * 1024;
const maxRoots = 16;
/** Shortest useful lifetime of an authority. */
const leastLifeMs = 2 * maxTtlSeconds * 1000;

export interface UpstreamRequest {
  readonly trustDomain: TrustDomain;
  /** The signer of the new authority. A trial leaf checks it before the site uses the certificate. */
  readonly signer: Signer;
  readonly subject: Buffer;
  readonly serial: Uint8Array;
  readonly notBeforeMs: number;
  /** Upper limit: no certificate outlives its issuer. */
  readonly notAfterMs: number;
}

/**
 * A signing certificate under the upstream authority. Throws HANSA_CONFIG_INVALID, which names the
 * file and the rule, where the files do not match or a verifier would reject the chain.
 */
export async function signWithUpstream(
  files: UpstreamFiles,
  request: UpstreamRequest,
): Promise<SignedByUpstream> {
  const given = await readCertificates(files.certFile, maxChainLength);
  const [issuer] = given;
  if (issuer === undefined) throw refuse(files.certFile, 'it contains no certificate in PEM');
  const roots = await rootsOf(files, given);
  if (roots.length === 0) {
    throw refuse(
      files.bundleFile ?? files.certFile,
      files.bundleFile === undefined
        ? 'it contains no root (a self-signed certificate). Set ca.upstreamBundleFile to a file with its roots'
        : 'it contains no certificate in PEM',
    );
  }
  const below = given.filter((certificate) => !isSelfSigned(certificate));
  const endMs = Math.min(
    request.notAfterMs,
    ...given.map(({ notAfterMs }) => notAfterMs),
    rootEndMs(below, issuer, roots),
  );
  const wantedMs = Math.min(leastLifeMs, request.notAfterMs - request.notBeforeMs);
  if (endMs - request.notBeforeMs < wantedMs) {
    throw refuse(
      files.certFile,
      `its chain is valid only until ${new Date(endMs).toISOString()}, too short for an authority below it. Renew it`,
    );
  }

  const signer = await readSigner(files.keyFile);
  if (!signer.publicKey.spki.equals(issuer.spki)) {
    throw refuse(
      files.certFile,
      `the key in ${files.keyFile} does not match its first certificate`,
    );
  }
  try {
    const certificate = Certificate.parse(
      await buildCertificate(intermediate(request, issuer, signer, endMs), signer, (fields) =>
        lintSigning(fields, request.trustDomain),
      ),
    );
    const chain = [certificate, ...below];
    await tryOut(request, chain, roots);
    return { certificate, chain, roots };
  } catch (error) {
    throw refuse(
      files.certFile,
      error instanceof Error ? error.message.replace(/\.$/, '') : 'it cannot sign',
      error,
    );
  }
}

/** Fingerprints of the roots that would verify a certificate signed now; none where they are unknown. */
export async function upstreamRootIds(
  files: UpstreamFiles | undefined,
): Promise<readonly string[]> {
  if (files === undefined) return [];
  try {
    const roots = await rootsOf(files, await readCertificates(files.certFile, maxChainLength));
    return roots.map(({ fingerprint }) => fingerprint);
  } catch {
    // The caller that signs gets the error.
    return [];
  }
}

async function rootsOf(
  { bundleFile }: UpstreamFiles,
  given: readonly Certificate[],
): Promise<readonly Certificate[]> {
  return bundleFile === undefined
    ? given.filter(isSelfSigned)
    : readCertificates(bundleFile, maxRoots);
}

function intermediate(
  request: UpstreamRequest,
  issuer: Certificate,
  signer: Signer,
  notAfterMs: number,
): CertificateRequest {
  return {
    serial: request.serial,
    issuer: issuer.subject,
    subject: request.subject,
    notBeforeMs: Math.max(request.notBeforeMs, issuer.notBeforeMs),
    notAfterMs,
    publicKey: request.signer.publicKey,
    uris: [request.trustDomain.id],
    ca: { pathLength: 0 },
    keyUsage: keyUsageBits.keyCertSign | keyUsageBits.crlSign,
    // RFC 5280 §4.2.1.1: the subject key identifier of the issuer.
    authorityKeyId: issuer.extensions.subjectKeyId ?? signer.publicKey.keyId,
  };
}

/** Validates a trial leaf with the same rules that peers apply. */
async function tryOut(
  { trustDomain, signer, notBeforeMs }: UpstreamRequest,
  chain: readonly Certificate[],
  roots: readonly Certificate[],
): Promise<void> {
  const [issuer] = chain as [Certificate];
  const leaf = await buildCertificate(
    {
      serial: issuer.serial,
      issuer: issuer.subject,
      subject: emptyName,
      notBeforeMs: issuer.notBeforeMs,
      notAfterMs: issuer.notAfterMs,
      publicKey: signer.publicKey,
      uris: [SpiffeId.of(trustDomain, 'hansa', 'site').toString()],
      keyUsage: keyUsageBits.digitalSignature,
      authorityKeyId: signer.publicKey.keyId,
    },
    signer,
    (fields) => lintLeaf(fields, trustDomain),
  );
  const bundle = new Bundle(trustDomain, roots);
  const nowMs = notBeforeMs + clockSkewMs;
  validateChain([Certificate.parse(leaf), ...chain], { bundleFor: () => bundle }, nowMs);
}

/** Of several roots with the name at the end of the chain, uses the one that expires last. */
function rootEndMs(
  below: readonly Certificate[],
  issuer: Certificate,
  roots: readonly Certificate[],
): number {
  const name = below.at(-1)?.issuer ?? issuer.subject;
  const ends = roots
    .filter(({ subject }) => subject.equals(name))
    .map(({ notAfterMs }) => notAfterMs);
  // If there is none, the trial reports it.
  return ends.length === 0 ? Infinity : Math.max(...ends);
}

function refuse(file: string, why: string, cause?: unknown): HansaError {
  return new HansaError(
    'HANSA_CONFIG_INVALID',
    `Cannot create an authority under ${file}: ${why}.`,
    cause === undefined ? {} : { cause },
  );
}

async function readCertificates(file: string, most: number): Promise<readonly Certificate[]> {
  const text = (await readBounded(file)).toString('latin1');
  try {
    return parseCertificatesPem(text, most);
  } catch (error) {
    throw refuse(file, error instanceof Error ? error.message : 'it is not readable', error);
  }
}

async function readSigner(file: string): Promise<LocalSigner> {
  const pem = await readBounded(file);
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    // Without its cause, which may quote the key.
    throw refuse(file, 'it contains no private key in PEM, or one that needs a passphrase');
  } finally {
    pem.fill(0);
  }
  try {
    return new LocalSigner(key);
  } catch (error) {
    throw refuse(
      file,
      error instanceof Error ? error.message.replace(/\.$/, '') : 'it cannot sign',
    );
  }
}

async function readBounded(file: string): Promise<Buffer> {
  try {
    await using handle = await open(file, 'r');
    const { size } = await handle.stat();
    if (size > maxFileBytes) {
      throw refuse(file, `it has ${size} bytes, and the limit is ${maxFileBytes}`);
    }
    const buffer = Buffer.alloc(maxFileBytes);
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, 0);
    return buffer.subarray(0, bytesRead);
  } catch (error) {
    if (error instanceof HansaError) throw error;
    throw refuse(file, `it cannot be read: ${error instanceof Error ? error.message : ''}`, error);
  }
}

function isSelfSigned({ subject, issuer }: Certificate): boolean {
  return subject.equals(issuer);
}

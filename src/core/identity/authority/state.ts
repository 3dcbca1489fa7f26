// Derives the state of the site's authorities from their record: the active signers, the published
// bundle, and the public view.

import type { TrustDomain } from '../../../api/values/trust-domain.ts';
import { HansaError } from '../../errors/error.ts';
import type { AuthorityKind, AuthorityPhase } from './phases.ts';
import type { AuthorityRecord, JwtEntry, X509Entry } from './record.ts';
import { Bundle } from '../bundle/bundle.ts';
import type { Certificate } from '../x509/certificate.ts';
import { LeafTemplates } from '../x509/leaf-templates.ts';
import { LocalSigner, type Signer } from '../x509/signer.ts';

export type AnyEntry = X509Entry | JwtEntry;

/** The public view of one authority. */
export interface AuthorityView extends AuthorityPhase {
  readonly kind: AuthorityKind;
  /** The certificate that signs; undefined for JWT keys. */
  readonly certificate: Certificate | undefined;
  /** Fingerprints of the certificates that verify it: its own, or those of its roots. None for JWT keys. */
  readonly rootIds: readonly string[];
}

/** The active JWT key. */
export interface JwtSigner {
  /** The `kid` of its tokens. */
  readonly keyId: string;
  readonly signer: Signer;
  /** No token may be valid after this time. */
  readonly notAfterMs: number;
}

/** The two that sign now. */
export interface Signing {
  readonly x509: {
    readonly id: string;
    readonly certificate: Certificate;
    readonly signer: Signer;
    readonly leaves: LeafTemplates;
    /** DER of the certificates between a leaf and a root. */
    readonly chain: readonly Buffer[];
  };
  readonly jwt: JwtSigner;
}

/** Throws HANSA_STORE_CORRUPT where a key is not that of its authority. */
export function signingOf(trustDomain: TrustDomain, { x509, jwt }: AuthorityRecord): Signing {
  const issuer = x509.find(({ state }) => state === 'active');
  const tokens = jwt.find(({ state }) => state === 'active');
  if (issuer?.privateKey === undefined || tokens?.privateKey === undefined) throw corrupt();
  const signer = new LocalSigner(issuer.privateKey);
  const jwtSigner = new LocalSigner(tokens.privateKey);
  if (
    !signer.publicKey.spki.equals(issuer.certificate.spki) ||
    jwtSigner.publicKey.keyId.toString('hex') !== tokens.id
  ) {
    throw corrupt();
  }
  return {
    x509: {
      id: issuer.id,
      certificate: issuer.certificate,
      signer,
      leaves: new LeafTemplates(trustDomain, issuer.certificate, signer),
      chain: issuer.chain.map(({ der }) => der),
    },
    jwt: { keyId: tokens.id, signer: jwtSigner, notAfterMs: tokens.notAfterMs },
  };
}

function corrupt(): HansaError {
  return new HansaError(
    'HANSA_STORE_CORRUPT',
    "Cannot load the site's authority: its key does not match its certificate. Restore the data folder from a backup.",
  );
}

export function bundleOf(trustDomain: TrustDomain, { x509, jwt }: AuthorityRecord): Bundle {
  return new Bundle(
    trustDomain,
    x509.flatMap(({ roots }) => roots),
    jwt.map(({ id, publicKey }) => ({ keyId: id, publicKey })),
    // Other CAs below the organisation's root, and revoked authorities of this site, must not pass as this site.
    new Set(x509.map(({ id }) => id)),
  );
}

export function viewsOf({ x509, jwt }: AuthorityRecord): readonly AuthorityView[] {
  return Object.freeze([
    ...x509.map((entry) => view('x509', entry, entry.certificate, entry.roots)),
    ...jwt.map((entry) => view('jwt', entry, undefined, [])),
  ]);
}

function view(
  kind: AuthorityKind,
  { id, state, notBeforeMs, notAfterMs, ...times }: AuthorityPhase,
  certificate: Certificate | undefined,
  roots: readonly Certificate[],
): AuthorityView {
  const { preparedAtMs, activatedAtMs, retiredAtMs, taintedAtMs } = times;
  return Object.freeze({
    kind,
    id,
    state,
    notBeforeMs,
    notAfterMs,
    preparedAtMs,
    activatedAtMs,
    retiredAtMs,
    taintedAtMs,
    certificate,
    rootIds: roots.map(({ fingerprint }) => fingerprint),
  });
}

/** Deletes the keys of authorities that no longer sign. */
export function withoutSpentKey<E extends AnyEntry>(entry: E): E {
  const spent = entry.state === 'old' || entry.state === 'tainted';
  return spent ? { ...entry, privateKey: undefined } : entry;
}

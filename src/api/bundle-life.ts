// Decides how long workloads get a federated bundle. If the site cannot refresh a bundle, it still
// delivers it for some time after the refresh hint and then withholds it, because its keys may have
// been revoked. It never delivers a bundle whose authorities have expired. Pure.

import { refreshAfterSeconds } from './values/refresh-hint.ts';

/** What is read of a SPIFFEFederation here. */
export interface FederationLike {
  readonly metadata?: {
    readonly uid?: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec?: {
    readonly quarantined?: boolean;
    readonly staleAfterSeconds?: number;
    readonly bundleSource?: {
      readonly httpsSpiffe?: { readonly bundleBootstrap?: string };
      readonly httpsWeb?: object;
      readonly static?: { readonly bundle?: string };
    };
  };
  readonly status?: {
    readonly bundle?: string;
    readonly source?: string;
    readonly refreshHintSeconds?: number;
    readonly syncedAt?: string;
    readonly bootstrappedAt?: string;
    readonly authorities?: readonly { readonly notAfter: string }[];
  };
}

export type FederationSource = 'https_spiffe' | 'https_web' | 'static';

export function sourceOf({ spec }: Pick<FederationLike, 'spec'>): FederationSource {
  const { static: fixed, httpsWeb } = spec?.bundleSource ?? {};
  if (fixed !== undefined) return 'static';
  return httpsWeb === undefined ? 'https_spiffe' : 'https_web';
}

export interface BundleLife {
  /** When the next fetch is due. Undefined if never. */
  readonly dueAtMs: number | undefined;
  /** From then on the bundle is stale and withheld. Undefined if never. */
  readonly staleAtMs: number | undefined;
  /** From then on all X.509 authorities of the bundle are expired. Undefined if it has none. */
  readonly expiredAtMs: number | undefined;
}

/**
 * When the endpoint last confirmed the bundle. Until its first answer: when an operator vouched for the
 * bundle. `syncedAt` is that of the facts, where there are any: see src/api/live-status.ts.
 */
export function confirmedAtOf(
  { status, metadata }: FederationLike,
  syncedAt: string | undefined = status?.syncedAt,
): string | undefined {
  return syncedAt ?? status?.bootstrappedAt ?? metadata?.creationTimestamp;
}

/** As the kind has it where nothing is written. */
export function staleAfterSecondsOf({ spec }: Pick<FederationLike, 'spec'>): number {
  return spec?.staleAfterSeconds ?? 3600;
}

/** `syncedAt` as in `confirmedAtOf`. */
export function bundleLife(federation: FederationLike, syncedAt?: string): BundleLife {
  const { status } = federation;
  const last = Math.max(...(status?.authorities ?? []).map(({ notAfter }) => Date.parse(notAfter)));
  // A validity includes its last second.
  const expiredAtMs = Number.isFinite(last) ? last + 1000 : undefined;
  const confirmedAtMs = Date.parse(confirmedAtOf(federation, syncedAt) ?? '');
  if (sourceOf(federation) === 'static' || Number.isNaN(confirmedAtMs)) {
    return { dueAtMs: undefined, staleAtMs: undefined, expiredAtMs };
  }
  const dueAtMs = confirmedAtMs + refreshAfterSeconds(status?.refreshHintSeconds) * 1000;
  return { dueAtMs, staleAtMs: dueAtMs + staleAfterSecondsOf(federation) * 1000, expiredAtMs };
}

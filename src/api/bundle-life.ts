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

/** As the kind has it where nothing is written. */
const defaultStaleAfterSeconds = 3600;

export interface BundleLife {
  /** When the next fetch is due. Undefined if never. */
  readonly dueAtMs: number | undefined;
  /** From then on the bundle is stale and withheld. Undefined if never. */
  readonly staleAtMs: number | undefined;
  /** From then on all X.509 authorities of the bundle are expired. Undefined if it has none. */
  readonly expiredAtMs: number | undefined;
}

/** `syncedAt` is that of the facts, where there are any: see src/api/live-status.ts. */
export function bundleLife(
  federation: FederationLike,
  syncedAt: string | undefined = federation.status?.syncedAt,
): BundleLife {
  const { status, spec, metadata } = federation;
  const last = Math.max(...(status?.authorities ?? []).map(({ notAfter }) => Date.parse(notAfter)));
  // A validity includes its last second.
  const expiredAtMs = Number.isFinite(last) ? last + 1000 : undefined;
  // Until the first answer it counts from when an operator said that the bundle is good.
  const confirmedAt = syncedAt ?? status?.bootstrappedAt ?? metadata?.creationTimestamp;
  const confirmedAtMs = Date.parse(confirmedAt ?? '');
  if (sourceOf(federation) === 'static' || Number.isNaN(confirmedAtMs)) {
    return { dueAtMs: undefined, staleAtMs: undefined, expiredAtMs };
  }
  const dueAtMs = confirmedAtMs + refreshAfterSeconds(status?.refreshHintSeconds) * 1000;
  const staleAfterSeconds = spec?.staleAfterSeconds ?? defaultStaleAfterSeconds;
  return { dueAtMs, staleAtMs: dueAtMs + staleAfterSeconds * 1000, expiredAtMs };
}

// The settings of the auth plane.

import type { TrustDomain } from '../api/values/trust-domain.ts';
import { definePlaneSettings } from '../core/config/plane-settings.ts';
import { authKeys } from './config-keys.ts';

export interface AuthSettings {
  readonly baseDomain: string;
  /** Absolute; undefined: Clusters cannot name files. */
  readonly credentialsDir: string | undefined;
  readonly inClusterDir: string;
  /** Undefined: `hansa://TRUST-DOMAIN`. */
  readonly audience: string | undefined;
  readonly anonymous: boolean;
  /** 0: no limit. */
  readonly callerReviewsPerSecond: number;
  readonly clusterReviewsPerSecond: number;
  readonly validateV1: boolean;
  readonly verdictCacheBytes: number;
}

/** The audience of ServiceAccount tokens with which Pods call this site. */
export function siteAudience(
  { audience }: Pick<AuthSettings, 'audience'>,
  { name }: Pick<TrustDomain, 'name'>,
): string {
  return audience ?? `hansa://${name}`;
}

export const authSettings = definePlaneSettings({
  keys: authKeys,
  read: (values): AuthSettings => ({
    baseDomain: values['auth.baseDomain'],
    credentialsDir: values['auth.credentialsDir'],
    inClusterDir: values['auth.inClusterDir'],
    audience: values['auth.audience'],
    anonymous: values['auth.anonymous'] === 'true',
    callerReviewsPerSecond: values['auth.callerReviewsPerSecond'],
    clusterReviewsPerSecond: values['auth.clusterReviewsPerSecond'],
    validateV1: values['auth.validateV1'] === 'true',
    verdictCacheBytes: values['auth.verdictCacheBytes'],
  }),
});

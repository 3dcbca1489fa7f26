// The settings of the kubernetes plane.

import { definePlaneSettings } from '../core/config/plane-settings.ts';
import { kubernetesKeys } from './config-keys.ts';
import type { NameSettings } from './dns/asked-names.ts';
import type { PolicyKind } from './policies/policy-kinds.ts';

export interface SpireSettings {
  readonly isEnabled: boolean;
  readonly serverImage: string;
  readonly sidecarImage: string | undefined;
}

/** For cluster sets. */
export interface LeagueSettings {
  /** The system namespace in all clusters. */
  readonly namespace: string;
  readonly leaseSeconds: number;
  readonly unreachableSeconds: number;
  /** Whether the site serves the Multi-Cluster Services API in clusters that have its CRDs. */
  readonly multiClusterServices: boolean;
  readonly dns: NameSettings;
  readonly policies: PolicySettings;
}

export interface PolicySettings {
  readonly kinds: readonly PolicyKind[];
  /** How long deletions are remembered after all members know of them. */
  readonly retentionMs: number;
}

export interface KubernetesSettings extends LeagueSettings {
  readonly spire: SpireSettings;
}

export const kubernetesSettings = definePlaneSettings({
  keys: kubernetesKeys,
  read: (values): KubernetesSettings => ({
    namespace: values['kubernetes.namespace'],
    leaseSeconds: values['kubernetes.leaseSeconds'],
    unreachableSeconds: values['kubernetes.unreachableSeconds'],
    multiClusterServices: values['kubernetes.multiClusterServices'] === 'on',
    dns: {
      template: values['kubernetes.dns.hostname'],
      prefix: values['kubernetes.dns.annotationPrefix'],
      whenUnhealthy: values['kubernetes.dns.whenUnhealthy'],
    },
    policies: {
      kinds: values['kubernetes.policyKinds'],
      retentionMs: values['kubernetes.policyRetentionHours'] * 3_600_000,
    },
    spire: {
      isEnabled: values['kubernetes.spire.enabled'] === 'true',
      serverImage: values['kubernetes.spire.serverImage'],
      sidecarImage: values['kubernetes.spire.sidecarImage'],
    },
  }),
});

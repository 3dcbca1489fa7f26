// The settings of the kubernetes plane.

import { definePlaneSettings } from '../core/config/plane-settings.ts';
import { kubernetesKeys } from './config-keys.ts';
import type { NameSettings } from './dns/asked-names.ts';

export interface KubernetesSettings {
  /** The system namespace in all clusters. */
  readonly namespace: string;
  readonly leaseSeconds: number;
  readonly unreachableSeconds: number;
  readonly dns: NameSettings;
}

export const kubernetesSettings = definePlaneSettings({
  keys: kubernetesKeys,
  read: (values): KubernetesSettings => ({
    namespace: values['kubernetes.namespace'],
    leaseSeconds: values['kubernetes.leaseSeconds'],
    unreachableSeconds: values['kubernetes.unreachableSeconds'],
    dns: {
      template: values['kubernetes.dns.hostname'],
      prefix: values['kubernetes.dns.annotationPrefix'],
      whenUnhealthy: values['kubernetes.dns.whenUnhealthy'],
    },
  }),
});

// The settings of the kubernetes plane.

import { definePlaneSettings } from '../core/config/plane-settings.ts';
import { kubernetesKeys } from './config-keys.ts';

export interface KubernetesSettings {
  /** The system namespace in all clusters. */
  readonly namespace: string;
  readonly leaseSeconds: number;
  readonly unreachableSeconds: number;
}

export const kubernetesSettings = definePlaneSettings({
  keys: kubernetesKeys,
  read: (values): KubernetesSettings => ({
    namespace: values['kubernetes.namespace'],
    leaseSeconds: values['kubernetes.leaseSeconds'],
    unreachableSeconds: values['kubernetes.unreachableSeconds'],
  }),
});

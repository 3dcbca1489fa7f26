// The configuration keys of the kubernetes plane. settings.ts turns their values into settings.

import { configKey } from '../core/config/config-key.ts';
import { parseCount, parseDnsLabel } from '../core/config/config-values.ts';
import { defaultNamespace } from './names.ts';

export const kubernetesKeys = {
  'kubernetes.namespace': configKey({
    placeholder: 'NAME',
    meaning:
      'The namespace of Hansa in all clusters of a cluster set: for Leases, Secrets and global copies of Services. It is the same for all sites of the set.',
    default: defaultNamespace,
    parse: parseDnsLabel,
  }),
  'kubernetes.leaseSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How long a supervisor leads a member without renewing its Lease. Another one takes over after this time.',
    default: '15',
    parse: parseCount(5, 300),
  }),
  'kubernetes.unreachableSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How long the objects of a member may be out of reach before the member counts as unreachable. The policy in Federation applies from then on.',
    default: '10',
    parse: parseCount(1, 3600),
  }),
};

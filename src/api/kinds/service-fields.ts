// Fields that the kinds of services outside Kubernetes share: addresses of network interfaces, and ports.

import { optional, required, s } from '../schema/dsl.ts';

const address = (description: string) =>
  s.string({ description, minLength: 2, maxLength: 45, pattern: '^[0-9a-fA-F.:]+$' });

export const networkInterface = s.object({
  description: 'One interface. The external address is used where there is one.',
  fields: {
    externalIP: optional(address('Its address for other networks.')),
    internalIP: optional(address('Its address in its own network.')),
  },
  rules: [
    {
      cel: 'has(self.externalIP) || has(self.internalIP)',
      message: 'set externalIP or internalIP',
      holds: (value: { readonly externalIP?: unknown; readonly internalIP?: unknown }) =>
        value.externalIP !== undefined || value.internalIP !== undefined,
    },
  ],
});

export const servicePort = s.object({
  description: 'One port.',
  fields: {
    name: optional(
      s.string({
        description: 'Its name, as in a Service.',
        minLength: 1,
        maxLength: 63,
        pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
      }),
    ),
    port: required(
      s.integer({
        description: 'The port.',
        minimum: 1,
        maximum: 65535,
        format: 'int32',
      }),
    ),
    protocol: optional(
      s.string({
        description: 'Its protocol.',
        enum: ['TCP', 'UDP', 'SCTP'],
        default: 'TCP',
      }),
    ),
  },
});

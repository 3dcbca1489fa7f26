// The kind NativeService, in clusters: a service of a cloud provider that is not a Kubernetes Service.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { clustersGroup } from './federation.ts';

export type NativeService = ResourceOf<typeof nativeServiceKind>;

const address = (description: string) =>
  s.string({ description, minLength: 2, maxLength: 45, pattern: '^[0-9a-fA-F.:]+$' });

export const nativeServiceKind = defineKind({
  kind: 'NativeService',
  cluster: { group: clustersGroup, scope: 'Namespaced' },
  plural: 'nativeservices',
  singular: 'nativeservice',
  shortNames: ['nsvc'],
  description:
    'A service of a cloud provider. With the annotation of a federated Service it is a member of it, as a Service is.',
  names: 'dns-label',
  specRequired: true,
  spec: s.object({
    description: 'Where the service is.',
    fields: {
      networkInterfaces: required(
        s.list({
          description: 'Its network interfaces.',
          listType: 'atomic',
          minItems: 1,
          maxItems: 100,
          items: s.object({
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
          }),
        }),
      ),
      ports: required(
        s.list({
          description: 'The ports on which it serves.',
          listType: 'map',
          keys: ['port', 'protocol'],
          minItems: 1,
          maxItems: 100,
          items: s.object({
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
          }),
        }),
      ),
    },
  }),
  columns: [
    {
      name: 'Ports',
      type: 'string',
      jsonPath: '.spec.ports[*].port',
      description: 'The ports on which it serves.',
    },
  ],
});

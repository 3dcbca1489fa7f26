// The kind NativeService, in clusters: a service of a cloud provider that is not a Kubernetes Service.

import { defineKind, type ResourceOf } from '../kind.ts';
import { required, s } from '../schema/dsl.ts';
import { clustersGroup } from './federation.ts';
import { networkInterface, servicePort } from './service-fields.ts';

export type NativeService = ResourceOf<typeof nativeServiceKind>;

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
          items: networkInterface,
        }),
      ),
      ports: required(
        s.list({
          description: 'The ports on which it serves.',
          listType: 'map',
          keys: ['port', 'protocol'],
          minItems: 1,
          maxItems: 100,
          items: servicePort,
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

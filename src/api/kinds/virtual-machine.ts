// The kind VirtualMachine, in clusters: a machine outside Kubernetes that can be a backend of a Service.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';
import { clustersGroup } from './federation.ts';
import { networkInterface, servicePort } from './service-fields.ts';

export type VirtualMachine = ResourceOf<typeof virtualMachineKind>;

export const virtualMachineKind = defineKind({
  kind: 'VirtualMachine',
  cluster: { group: clustersGroup, scope: 'Namespaced' },
  plural: 'virtualmachines',
  singular: 'virtualmachine',
  // Not `vm`, which KubeVirt and VM Operator use.
  shortNames: ['hvm'],
  description:
    'A virtual machine outside Kubernetes. With the tag svc.hansa.dev it is a backend of a Service in its namespace, which Hansa creates.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'Where the machine is, and what it serves.',
    fields: {
      id: optional(
        s.string({
          description:
            'The ID of the machine at its provider. The name of its Service is derived from it where the tag is empty. Default: the name of this object.',
          minLength: 1,
          maxLength: 1024,
        }),
      ),
      tags: optional(
        s.map({
          description:
            'The tags of the machine at its provider. svc.hansa.dev names its Service; svc.federated.hansa.dev and svc.global.federated.hansa.dev name the federated Service that the Service belongs to. Other tags mean nothing here.',
          maxProperties: 256,
          values: s.string({ description: 'The value of the tag.', maxLength: 1024 }),
        }),
      ),
      networkInterfaces: optional(
        s.list({
          description: 'Its network interfaces. Each is an endpoint of its Service.',
          listType: 'atomic',
          maxItems: 100,
          items: networkInterface,
        }),
      ),
      ports: optional(
        s.list({
          description: 'The ports on which it serves.',
          listType: 'map',
          keys: ['port', 'protocol'],
          maxItems: 100,
          items: servicePort,
        }),
      ),
    },
  }),
  status: s.object({
    description: 'What became of it.',
    fields: {
      service: optional(
        s.string({ description: 'The Service that it is a backend of.', maxLength: 63 }),
      ),
      conditions: optional(conditions),
    },
  }),
  columns: [
    {
      name: 'Service',
      type: 'string',
      jsonPath: '.status.service',
      description: 'The Service that it is a backend of.',
    },
    {
      name: 'Published',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Published")].status',
      description: 'Whether it is a backend of its Service.',
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Published")].message',
      description: 'Why it is in this state, and what to do.',
      priority: 1,
    },
  ],
});

// ServiceOffer: a service of this site that peers can be granted.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';

export type ServiceOffer = ResourceOf<typeof serviceOfferKind>;

export const serviceOfferKind = defineKind({
  kind: 'ServiceOffer',
  plural: 'serviceoffers',
  singular: 'serviceoffer',
  shortNames: ['offer', 'offers'],
  description:
    'A service of this site that peers can be granted. An offer alone gives nobody anything: a FederationGrant that names it does.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'What is offered.',
    fields: {
      spiffeID: required(
        s.string({
          description: 'The SPIFFE ID of the local workload that serves it.',
          maxLength: 2048,
          pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
        }),
      ),
      description: optional(
        s.string({ description: 'What it is, for people at both sites.', maxLength: 1024 }),
      ),
      protocol: optional(
        s.string({
          description: 'What is spoken there.',
          enum: ['tcp', 'udp', 'http', 'grpc'],
        }),
      ),
      port: optional(
        s.integer({ description: 'The port on which it answers.', minimum: 1, maximum: 65535 }),
      ),
    },
  }),
  columns: [
    {
      name: 'SPIFFE-ID',
      type: 'string',
      jsonPath: '.spec.spiffeID',
      description: 'Who serves it.',
    },
    {
      name: 'Description',
      type: 'string',
      jsonPath: '.spec.description',
      description: 'What it is.',
    },
    {
      name: 'Protocol',
      type: 'string',
      jsonPath: '.spec.protocol',
      description: 'What is spoken there.',
      priority: 1,
    },
    {
      name: 'Port',
      type: 'integer',
      jsonPath: '.spec.port',
      description: 'Where it answers.',
      priority: 1,
    },
  ],
});

// The kind ServiceOffer: a service of this site that can be granted to peers.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';

export type ServiceOffer = ResourceOf<typeof serviceOfferKind>;

export const serviceProtocols = ['tcp', 'udp', 'http', 'grpc'] as const;
export type ServiceProtocol = (typeof serviceProtocols)[number];

export const serviceOfferKind = defineKind({
  kind: 'ServiceOffer',
  plural: 'serviceoffers',
  singular: 'serviceoffer',
  shortNames: ['offer', 'offers'],
  description:
    'A service of this site that can be granted to peers. An offer has no effect until a FederationGrant names it.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'The offered service.',
    fields: {
      spiffeID: required(
        s.string({
          description: 'The SPIFFE ID of the local workload that serves it.',
          maxLength: 2048,
          pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
        }),
      ),
      description: optional(
        s.string({
          description: 'What the service is, for operators of both sites.',
          maxLength: 1024,
        }),
      ),
      protocol: optional(
        s.string({
          description: 'The protocol of the service.',
          enum: serviceProtocols,
        }),
      ),
      port: optional(
        s.integer({ description: 'The port of the service.', minimum: 1, maximum: 65535 }),
      ),
    },
  }),
  columns: [
    {
      name: 'SPIFFE-ID',
      type: 'string',
      jsonPath: '.spec.spiffeID',
      description: 'The workload that serves it.',
    },
    {
      name: 'Description',
      type: 'string',
      jsonPath: '.spec.description',
      description: 'What the service is.',
    },
    {
      name: 'Protocol',
      type: 'string',
      jsonPath: '.spec.protocol',
      description: 'The protocol of the service.',
      priority: 1,
    },
    {
      name: 'Port',
      type: 'integer',
      jsonPath: '.spec.port',
      description: 'The port of the service.',
      priority: 1,
    },
  ],
});

// The kind ServiceOffer: a service of this site that can be granted to peers.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { federationGrantKind } from './federation-grant.ts';

export type ServiceOffer = ResourceOf<typeof serviceOfferKind>;

export const serviceProtocols = ['tcp', 'udp', 'http', 'grpc'] as const;
export type ServiceProtocol = (typeof serviceProtocols)[number];

export const serviceOfferKind = defineKind({
  kind: 'ServiceOffer',
  plural: 'serviceoffers',
  singular: 'serviceoffer',
  shortNames: ['offer', 'offers'],
  description:
    'A service of this site. Workloads of peers can call it when a FederationGrant names it. Workloads of this site, and of trust domains that are federated without a peer, can call it when the offer names them.',
  names: 'dns-subdomain',
  specRequired: true,
  // As a grant, they decide who may call.
  guardedFields: [{ field: 'spec.callers', writes: federationGrantKind.plural }],
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
      callers: optional(
        s.object({
          description:
            'Who may call without a grant: workloads of this site, and of trust domains that are federated without a peer, such as that of a SPIRE server. For the latter, a WorkloadEntry of the workload that serves the offer must also have the trust domain in federatesWith. Callers of peers need a FederationGrant, whatever stands here. Setting it needs the verbs create and update on all FederationGrants.',
          fields: {
            ids: optional(
              s.list({
                description: 'SPIFFE IDs of callers.',
                listType: 'set',
                maxItems: 256,
                items: s.string({
                  description: 'One SPIFFE ID, without globs.',
                  maxLength: 2048,
                  pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
                }),
              }),
            ),
            trustDomains: optional(
              s.list({
                description:
                  'Trust domains all of whose workloads may call. Identities below /hansa are no workloads, so they must stand in ids.',
                listType: 'set',
                maxItems: 64,
                items: s.string({
                  description: 'One trust domain.',
                  maxLength: 255,
                  pattern: '^[a-z0-9._-]+$',
                  hint: 'write the trust domain without spiffe://, such as spire.example',
                }),
              }),
            ),
          },
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

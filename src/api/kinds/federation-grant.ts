// FederationGrant: what a peer's workloads may use here, and from where.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';

export type FederationGrant = ResourceOf<typeof federationGrantKind>;

const unrestricted = optional(
  s.boolean({
    description:
      'Everything matches on this axis. Without it an empty list matches nothing, so that nothing is granted by forgetting.',
    default: false,
  }),
);

export const federationGrantKind = defineKind({
  kind: 'FederationGrant',
  plural: 'federationgrants',
  singular: 'federationgrant',
  shortNames: ['grant', 'grants'],
  description:
    'Lets workloads of a peer use offers of this site. All three axes must match: who (nodeInstances), over which network, and from which address. An axis that is left out matches nothing.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'Who may use what.',
    fields: {
      peer: required(
        s.string({
          description: 'The trust domain of the peer.',
          minLength: 1,
          maxLength: 255,
          pattern: '^[a-z0-9._-]+$',
        }),
      ),
      scopes: optional(
        s.list({
          description: 'What they may do with the offers.',
          listType: 'set',
          maxItems: 16,
          items: s.string({
            description: 'One scope, for example read.',
            maxLength: 63,
            pattern: '^[a-z][a-z0-9-]*$',
          }),
        }),
      ),
      offers: required(
        s.list({
          description: 'The ServiceOffers that are granted, by name.',
          listType: 'set',
          maxItems: 256,
          items: s.string({
            description: 'The name of a ServiceOffer.',
            minLength: 1,
            maxLength: 253,
          }),
        }),
      ),
      nodeInstances: optional(
        s.object({
          description: 'Which identities of the peer.',
          fields: {
            ids: optional(
              s.list({
                description: 'Their SPIFFE IDs.',
                listType: 'set',
                maxItems: 1024,
                items: s.string({
                  description: 'A SPIFFE ID of the peer, in full.',
                  maxLength: 2048,
                  pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
                }),
              }),
            ),
            unrestricted,
          },
        }),
      ),
      networks: optional(
        s.object({
          description:
            'Over which networks. Until this site has networks of its own, only unrestricted matches.',
          fields: {
            ids: optional(
              s.list({
                description: 'Names of networks.',
                listType: 'set',
                maxItems: 256,
                items: s.string({
                  description: 'The name of a Network.',
                  minLength: 1,
                  maxLength: 253,
                }),
              }),
            ),
            unrestricted,
          },
        }),
      ),
      sourceCIDRs: optional(
        s.object({
          description: 'From which addresses, as the connection shows them.',
          fields: {
            cidrs: optional(
              s.list({
                description: 'Ranges of addresses.',
                listType: 'set',
                maxItems: 256,
                items: s.string({
                  description: 'For example 192.0.2.0/24 or 2001:db8::/32.',
                  maxLength: 49,
                  pattern: '^[0-9a-fA-F:.]+/[0-9]{1,3}$',
                }),
              }),
            ),
            unrestricted,
          },
        }),
      ),
      expiresAt: optional(
        s.time({
          description: 'From when on it covers nothing. Without it, it stays until deleted.',
        }),
      ),
    },
  }),
  columns: [
    { name: 'Peer', type: 'string', jsonPath: '.spec.peer', description: 'Whose workloads.' },
    {
      name: 'Offers',
      type: 'string',
      jsonPath: '.spec.offers',
      description: 'What they may use.',
    },
    {
      name: 'Identities',
      type: 'string',
      jsonPath: '.spec.nodeInstances.ids',
      description: 'Which of them.',
    },
    {
      name: 'Expires',
      type: 'date',
      jsonPath: '.spec.expiresAt',
      description: 'For how long yet.',
      counts: 'down',
    },
    {
      name: 'Scopes',
      type: 'string',
      jsonPath: '.spec.scopes',
      description: 'What they may do.',
      priority: 1,
    },
  ],
  selectableFields: ['spec.peer'],
});

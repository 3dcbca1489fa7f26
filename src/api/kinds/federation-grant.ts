// The kind FederationGrant: which offers, clusters and services of this site a peer may use, and
// from where.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export type FederationGrant = ResourceOf<typeof federationGrantKind>;

/**
 * What a grant lets its workloads do. None includes another: a grant lists what it gives. `admin` is
 * for what a target itself calls administration; for an offer over HTTP it admits no method.
 */
export const grantScopes = ['read', 'write', 'admin'] as const;
export type GrantScope = (typeof grantScopes)[number];
export const defaultScopes: readonly GrantScope[] = ['read'];

/** What a grant can name, and the field that lists the names. */
export const grantTargetFields = {
  offer: 'offers',
  cluster: 'clusters',
  service: 'services',
} as const;
export type GrantTargetType = keyof typeof grantTargetFields;

const unrestricted = optional(
  s.boolean({
    description:
      'This axis matches everything. Without it, an empty list matches nothing, so that an omission grants nothing.',
    default: false,
  }),
);

export const federationGrantKind = defineKind({
  kind: 'FederationGrant',
  plural: 'federationgrants',
  singular: 'federationgrant',
  shortNames: ['grant', 'grants'],
  description:
    'Lets a peer use offers, clusters and services of this site. All three axes must match: identity (nodeInstances), network (networks) and source address (sourceCIDRs). An axis that is left out matches nothing.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'Which identities of the peer may use what.',
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
          description:
            'What the workloads may do. Over HTTP, read admits GET, HEAD and OPTIONS, and write every other method; gRPC calls are POST. A connection without methods, such as TCP, needs any one scope. No scope includes another.',
          listType: 'set',
          minItems: 1,
          maxItems: 3,
          default: ['read'],
          items: s.string({ description: 'One scope.', enum: grantScopes }),
        }),
      ),
      // Targets: what is granted. Names of one type never match another type.
      offers: optional(
        s.list({
          description: 'The names of the granted ServiceOffers.',
          listType: 'set',
          maxItems: 256,
          items: s.string({
            description: 'The name of a ServiceOffer.',
            minLength: 1,
            maxLength: 253,
          }),
        }),
      ),
      clusters: optional(
        s.list({
          description:
            'The names of the granted Clusters. The caller is the site of the peer, spiffe://TRUST-DOMAIN/hansa/site, so the identity axis must match that SPIFFE ID.',
          listType: 'set',
          maxItems: 256,
          items: s.string({
            description: 'The name of a Cluster.',
            minLength: 1,
            maxLength: 253,
          }),
        }),
      ),
      services: optional(
        s.list({
          description: 'The granted federated Services, each as NAMESPACE/NAME.',
          listType: 'set',
          maxItems: 256,
          items: s.string({
            description: 'Namespace and name of a federated Service.',
            maxLength: 127,
            pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$',
          }),
        }),
      ),
      nodeInstances: optional(
        s.object({
          description: 'The identity axis: SPIFFE IDs of the peer.',
          fields: {
            ids: optional(
              s.list({
                description: 'SPIFFE IDs of workloads of the peer.',
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
            'The network axis. Sites have no networks yet, so only unrestricted matches.',
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
          description: 'The source address axis: addresses of the connections.',
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
          description:
            'When the grant expires. Without it, the grant is valid until it is deleted.',
        }),
      ),
    },
    rules: [
      {
        cel: '(has(self.offers) && size(self.offers) > 0) || (has(self.clusters) && size(self.clusters) > 0) || (has(self.services) && size(self.services) > 0)',
        message:
          'a grant must name what it grants: offers, clusters or services must list at least one name',
        holds: (value: Targets) =>
          Object.values(grantTargetFields).some((field) => (value[field]?.length ?? 0) > 0),
      },
    ],
  }),
  status: s.object({
    description: 'Whether it grants anything now.',
    fields: { conditions: optional(conditions) },
  }),
  columns: [
    {
      name: 'Peer',
      type: 'string',
      jsonPath: '.spec.peer',
      description: 'The peer whose workloads get access.',
    },
    {
      name: 'Offers',
      type: 'string',
      jsonPath: '.spec.offers',
      description: 'The granted offers.',
      cell: ({ spec }: GrantLike) => listed(spec?.offers),
    },
    {
      name: 'Clusters',
      type: 'string',
      jsonPath: '.spec.clusters',
      description: 'The granted clusters.',
      priority: 1,
      cell: ({ spec }: GrantLike) => listed(spec?.clusters),
    },
    {
      name: 'Services',
      type: 'string',
      jsonPath: '.spec.services',
      description: 'The granted federated Services.',
      priority: 1,
      cell: ({ spec }: GrantLike) => listed(spec?.services),
    },
    {
      name: 'Scopes',
      type: 'string',
      jsonPath: '.spec.scopes',
      description: 'The granted scopes.',
      cell: ({ spec }: GrantLike) => listed(spec?.scopes ?? defaultScopes),
    },
    {
      name: 'Identities',
      type: 'string',
      jsonPath: '.spec.nodeInstances.ids',
      description: 'Identities: any, none, or SPIFFE IDs.',
      cell: ({ spec }: GrantLike) => axisCell(spec?.nodeInstances, spec?.nodeInstances?.ids),
    },
    {
      name: 'Networks',
      type: 'string',
      jsonPath: '.spec.networks.ids',
      description: 'Networks: any, none, or names.',
      cell: ({ spec }: GrantLike) => axisCell(spec?.networks, spec?.networks?.ids),
    },
    {
      name: 'Sources',
      type: 'string',
      jsonPath: '.spec.sourceCIDRs.cidrs',
      description: 'Source addresses: any, none, or ranges.',
      cell: ({ spec }: GrantLike) => axisCell(spec?.sourceCIDRs, spec?.sourceCIDRs?.cidrs),
    },
    {
      name: 'Expires',
      type: 'date',
      jsonPath: '.spec.expiresAt',
      description: 'Time until the grant expires.',
      counts: 'down',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether it grants anything now.',
    },
    {
      name: 'Reason',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
      description: 'Granted, or why it grants nothing, such as NothingMatches: an axis is missing.',
    },
  ],
  selectableFields: ['spec.peer'],
});

type Items = readonly string[] | undefined;
interface Axis {
  readonly unrestricted?: boolean;
}

type Targets = {
  readonly [field in (typeof grantTargetFields)[GrantTargetType]]?: Items;
};

/** As it is stored: older versions may have stored what the schema refuses now. */
interface GrantLike {
  readonly spec?: Targets & {
    readonly scopes?: Items;
    readonly nodeInstances?: Axis & { readonly ids?: Items };
    readonly networks?: Axis & { readonly ids?: Items };
    readonly sourceCIDRs?: Axis & { readonly cidrs?: Items };
  };
}

/** So many items are shown in a cell; the rest is counted. */
const mostShown = 3;

function listed(items: Items): string {
  if (items === undefined || items.length === 0) return 'none';
  const more = items.length > mostShown ? [`and ${items.length - mostShown} more`] : [];
  return [...items.slice(0, mostShown), ...more].join(', ');
}

function axisCell(axis: Axis | undefined, items: Items): string {
  return axis?.unrestricted === true ? 'any' : listed(items);
}

// The kind Federation, in clusters: the members of a cluster set, and how to reach them.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export type Federation = ResourceOf<typeof federationKind>;

/** The API group of the kinds that Hansa adds to clusters. */
export const clustersGroup = 'clusters.hansa.dev';

/** The only one of a cluster. */
export const federationName = 'federation';

const octet = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const group = '[0-9a-fA-F]{1,4}';
/** `::` stands for one group or more, so the groups around it are at most seven. */
const shortened = [1, 2, 3, 4, 5, 6]
  .map((before) => `(${group}:){1,${before}}(:${group}){1,${7 - before}}`)
  .join('|');

/** Exact, because CEL has no function for it in Kubernetes 1.30 and below. Without IPv4 in IPv6 form. */
export const prefixPattern = `^((${octet}\\.){3}${octet}/(3[0-2]|[12]?[0-9])|((${group}:){7}${group}|(${group}:){1,7}:|:(:${group}){1,7}|::|${shortened})/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$`;

const label = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';

const clusterID = s.string({
  description: 'The ID of a cluster, as in its claim id.k8s.io.',
  minLength: 1,
  maxLength: 63,
  pattern: label,
});

export const federationKind = defineKind({
  kind: 'Federation',
  cluster: { group: clustersGroup, scope: 'Cluster' },
  plural: 'federations',
  singular: 'federation',
  shortNames: [],
  singleton: federationName,
  description:
    'The cluster set that a cluster belongs to. In the cluster of a supervisor it lists all members. In other clusters it may be empty; then it only says that the cluster is a member.',
  names: 'dns-label',
  specRequired: true,
  spec: s.object({
    description: 'The cluster set.',
    fields: {
      clusterSet: required(
        s.string({
          description: 'The name of the cluster set.',
          minLength: 1,
          maxLength: 63,
          pattern: label,
        }),
      ),
      members: optional(
        s.list({
          description: 'The clusters of the set, with this one.',
          listType: 'map',
          keys: ['clusterID'],
          maxItems: 250,
          items: s.object({
            description: 'One cluster.',
            fields: {
              clusterID: required(clusterID),
              server: optional(
                s.string({
                  description:
                    'The https URL of its API server. Not needed where the site has a Cluster with the name of the ID.',
                  maxLength: 2048,
                  pattern: '^https://[^\\s/?#@]+(/[^\\s?#]*)?$',
                }),
              ),
              secret: optional(
                s.string({
                  description:
                    'The Secret with the credential (`token`, and `ca.crt` unless caBundle is set), in the namespace of Hansa in this cluster.',
                  minLength: 1,
                  maxLength: 253,
                  pattern: '^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$',
                }),
              ),
              caBundle: optional(
                s.string({
                  description: 'The PEM certificates of the CA that signs the API server.',
                  minLength: 1,
                  maxLength: 131_072,
                }),
              ),
              tlsServerName: optional(
                s.string({
                  description:
                    'The name in the certificate of the API server, if it differs from the host of server.',
                  minLength: 1,
                  maxLength: 253,
                  pattern: '^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$',
                }),
              ),
              routable: optional(
                s.boolean({
                  description:
                    'Whether other members reach the pods of this cluster by their addresses. Otherwise Services of type ClusterIP without external IPs are left out.',
                  default: false,
                }),
              ),
              dns: optional(
                s.boolean({
                  description:
                    'Whether ExternalDNS runs in this cluster for the names of federated Services. Of all members with it, the first one by ID that can be reached carries each name.',
                }),
              ),
              dnsNames: optional(
                s.list({
                  description:
                    'The DNS names that its Services, and copies in it by hand, may ask for: these and all names below them. Without the list, all. With an empty list, none.',
                  listType: 'set',
                  maxItems: 64,
                  items: s.string({
                    description: 'A DNS name, such as south.example.com.',
                    minLength: 1,
                    maxLength: 253,
                    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$',
                  }),
                }),
              ),
              supervisor: optional(
                s.boolean({
                  description:
                    'Whether another site leads from this cluster. Then its copies say in all members which claim came first, as those in the home cluster of this site do. Set it only for clusters that you trust.',
                }),
              ),
              policies: optional(
                s.string({
                  description:
                    'Both: federated policies that are created, changed or deleted in it are so in all members. This is the default. Receive: it gets the policies of other members, and what is created, changed or deleted in it has no effect in others. Use it for members that are not trusted.',
                  enum: ['Both', 'Receive'],
                }),
              ),
              endpointPrefixes: optional(
                s.list({
                  description:
                    'The address ranges that its endpoints may have, such as 10.1.0.0/16. Other members get no other address of this cluster, and none at all without ranges.',
                  listType: 'set',
                  maxItems: 64,
                  items: s.string({
                    description: 'An IPv4 or IPv6 prefix in CIDR form.',
                    minLength: 3,
                    maxLength: 49,
                    pattern: prefixPattern,
                  }),
                }),
              ),
              globalNamespaces: optional(
                s.list({
                  description:
                    'The namespaces of this cluster whose Services may take part in global federated Services. Without the list, all may. With an empty list, none may.',
                  listType: 'set',
                  maxItems: 256,
                  items: s.string({
                    description: 'The name of a namespace.',
                    minLength: 1,
                    maxLength: 63,
                    pattern: label,
                  }),
                }),
              ),
              limits: optional(
                s.object({
                  description:
                    'How much of this cluster other members get. Where there is more, the oldest Services and policies come first, and the others have the reason TooMany in their condition.',
                  fields: {
                    services: optional(
                      s.integer({
                        description: 'Federated Services that it has member Services of.',
                        format: 'int32',
                        minimum: 0,
                        maximum: 10_000,
                        default: 1000,
                      }),
                    ),
                    endpoints: optional(
                      s.integer({
                        description: 'Endpoints of all its member Services together.',
                        format: 'int32',
                        minimum: 0,
                        maximum: 1_000_000,
                        default: 50_000,
                      }),
                    ),
                    policies: optional(
                      s.integer({
                        description:
                          'Federated policies that users created in it. The default is 10000.',
                        format: 'int32',
                        minimum: 0,
                        maximum: 50_000,
                      }),
                    ),
                    policyBytes: optional(
                      s.integer({
                        description:
                          'Bytes of these policies together, about as JSON. The default is 67108864.',
                        format: 'int32',
                        minimum: 0,
                        maximum: 268_435_456,
                      }),
                    ),
                  },
                }),
              ),
              unreachable: optional(
                s.object({
                  description:
                    'What happens to its endpoints while its API server cannot be reached.',
                  fields: {
                    policy: optional(
                      s.string({
                        description:
                          'Keep: they stay for the grace period, then they are removed. Drain: they are not ready during the grace period, then removed. Remove: removed at once.',
                        enum: ['Keep', 'Drain', 'Remove'],
                        default: 'Keep',
                      }),
                    ),
                    graceSeconds: optional(
                      s.integer({
                        description: 'The grace period.',
                        format: 'int32',
                        minimum: 0,
                        maximum: 604_800,
                        default: 300,
                      }),
                    ),
                  },
                }),
              ),
            },
          }),
        }),
      ),
    },
  }),
  status: s.object({
    description: 'The observed state of the cluster set.',
    fields: {
      members: optional(
        s.list({
          description: 'The state of each member, as this supervisor sees it.',
          listType: 'map',
          keys: ['clusterID'],
          maxItems: 250,
          items: s.object({
            description: 'One member.',
            fields: {
              clusterID: required(clusterID),
              state: required(
                s.string({
                  description: 'Connecting, Ready, Unreachable or Refused.',
                  enum: ['Connecting', 'Ready', 'Unreachable', 'Refused'],
                }),
              ),
              since: required(s.time({ description: 'When it entered this state.' })),
              admitted: optional(
                s.time({
                  description:
                    'When this supervisor found it in members. No date of its objects counts before that.',
                }),
              ),
              reason: required(s.string({ description: 'Why, in one word.', maxLength: 128 })),
              message: required(s.string({ description: 'Why, and what to do.', maxLength: 4096 })),
              leader: optional(
                s.string({ description: 'The supervisor that writes into it.', maxLength: 512 }),
              ),
              epoch: optional(
                s.integer({
                  description: 'The term of the leader, which only grows.',
                  format: 'int64',
                  minimum: 0,
                }),
              ),
            },
          }),
        }),
      ),
      leaving: optional(
        s.list({
          description:
            'The clusters that were removed from members and may still have copies of this supervisor.',
          listType: 'map',
          keys: ['clusterID'],
          maxItems: 250,
          items: s.object({
            description: 'One cluster.',
            fields: {
              clusterID: required(clusterID),
              since: required(s.time({ description: 'When it was found to be removed.' })),
              reason: required(
                s.string({ description: 'Why it still has copies, in one word.', maxLength: 128 }),
              ),
              message: required(s.string({ description: 'Why, and what to do.', maxLength: 4096 })),
            },
          }),
        }),
      ),
      conditions: optional(conditions),
    },
  }),
  columns: [
    {
      name: 'Cluster-Set',
      type: 'string',
      jsonPath: '.spec.clusterSet',
      description: 'The name of the cluster set.',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether this supervisor reaches all members.',
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].message',
      description: 'Why it is in this state, and what to do.',
      priority: 1,
    },
  ],
});

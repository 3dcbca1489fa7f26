// WorkloadEntry: which processes of this site's machine get which identity.

import { defineKind } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

interface Spec {
  readonly spiffeID: string;
}

/** SPIFFE-ID section 2.2: a segment of dots alone is no segment. */
const dots = /\/[.]{1,2}(\/.*)?$/;

export const workloadEntryKind = defineKind({
  kind: 'WorkloadEntry',
  plural: 'workloadentries',
  singular: 'workloadentry',
  shortNames: ['we'],
  description:
    'Gives an identity to workloads: every process that all of the selectors match gets an X.509-SVID with this SPIFFE ID from the Workload API, always fresh, JWT-SVIDs when it asks, and the bundles of the trust domains that it federates with.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'Who the workload is, and how it is recognized.',
    fields: {
      spiffeID: required(
        s.string({
          description:
            'The identity, in the trust domain of this site: for example spiffe://lubeck.example/web. Everything below /hansa is reserved.',
          minLength: 1,
          maxLength: 2048,
          pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._-]+)+$',
        }),
      ),
      selectors: required(
        s.list({
          description:
            'What must be true of the process, all of it: unix:uid:1000, unix:user:web, unix:gid:1000, unix:group:web, unix:supplementary_gid:2000, unix:supplementary_group:ops, unix:path:/usr/bin/web, unix:sha256:DIGEST of its program, systemd:id:web.service, cgroup:/system.slice/web.service. The kernel is asked, never the workload.',
          listType: 'set',
          minItems: 1,
          maxItems: 16,
          items: s.string({
            description: 'One thing that must be true of the process.',
            minLength: 1,
            maxLength: 4096,
            pattern:
              '^(unix:((uid|gid|supplementary_gid):(0|[1-9][0-9]{0,9})|(user|group|supplementary_group):[a-zA-Z0-9_.][a-zA-Z0-9_.@-]{0,254}[$]?|path:/.+|sha256:[0-9a-f]{64})|systemd:id:[a-zA-Z0-9:_.\\\\@-]{1,247}[.](service|scope)|cgroup:/.*)$',
          }),
        }),
      ),
      federatesWith: optional(
        s.list({
          description:
            'Trust domains whose bundles the workload gets, or "*" for every one that this site knows. Of a peer it gets the bundle only while that peer is active and a grant, ours or the peer\'s, covers the workload.',
          listType: 'set',
          maxItems: 256,
          items: s.string({
            description: 'A trust domain, or "*".',
            maxLength: 255,
            pattern: '^([*]|[a-z0-9._-]+)$',
            hint: 'write the trust domain without spiffe://, such as bruges.example',
          }),
          default: [],
        }),
      ),
      federatesWithSelector: optional(
        s.object({
          description:
            'Further trust domains, by the labels of their SPIFFEFederations: all that match now or later, in addition to federatesWith. An empty selector matches every one.',
          fields: {
            matchLabels: optional(
              s.map({
                description: 'Labels that the federation must have.',
                maxProperties: 16,
                values: s.string({ description: 'The value of the label.', maxLength: 63 }),
              }),
            ),
            matchExpressions: optional(
              s.list({
                description: 'What else must be true of its labels, all of it.',
                listType: 'atomic',
                maxItems: 16,
                items: s.object({
                  description: 'One condition.',
                  fields: {
                    key: required(
                      s.string({
                        description: 'The key of the label.',
                        minLength: 1,
                        maxLength: 317,
                      }),
                    ),
                    operator: required(
                      s.string({
                        description: 'In and NotIn take values; Exists and DoesNotExist take none.',
                        enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'],
                      }),
                    ),
                    values: optional(
                      s.list({
                        description: 'Values of the label.',
                        listType: 'atomic',
                        maxItems: 64,
                        items: s.string({ description: 'One value.', maxLength: 63 }),
                      }),
                    ),
                  },
                }),
              }),
            ),
          },
        }),
      ),
      hint: optional(
        s.string({
          description:
            'Tells a workload with several identities what this one is for, for example internal. The name of the entry where it is not given; where two entries of a workload give the same, the first by name has it.',
          // 1,024 bytes at most (SPIFFE Workload API section 8).
          maxLength: 256,
        }),
      ),
      dnsNames: optional(
        s.list({
          description:
            'DNS names in the X.509-SVID, for clients that verify names of hosts. SPIFFE itself reads none of them.',
          listType: 'set',
          maxItems: 16,
          items: s.string({
            description: 'A name of a host, in lower case; its first label may be *.',
            maxLength: 253,
            pattern:
              '^([*][.])?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$',
          }),
        }),
      ),
      ttlSeconds: optional(
        s.integer({
          description:
            'How long an SVID lives. A new one with a new key is handed out after half of that.',
          format: 'int32',
          minimum: 60,
          maximum: 3600,
          default: 3600,
        }),
      ),
      jwtTtlSeconds: optional(
        s.integer({
          description:
            'How long a JWT-SVID lives, 300 where it is not given. Whoever gets hold of one can use it until then: keep it short.',
          format: 'int32',
          minimum: 10,
          maximum: 3600,
        }),
      ),
    },
    rules: [
      {
        cel: "!self.spiffeID.matches('/[.]{1,2}(/.*)?$')",
        message: 'a segment of the path may not be of dots alone',
        holds: (value: Spec) => !dots.test(value.spiffeID),
      },
    ],
  }),
  status: s.object({
    description: 'What the site found.',
    fields: {
      trustDomains: optional(
        s.list({
          description:
            'The other trust domains whose bundles are delivered now; the first ones where there are many.',
          listType: 'set',
          maxItems: 64,
          items: s.string({ description: 'A trust domain.', maxLength: 255 }),
        }),
      ),
      trustDomainCount: optional(
        s.integer({ description: 'How many there are.', format: 'int32', minimum: 0 }),
      ),
      conditions: optional(conditions),
    },
  }),
  columns: [
    {
      name: 'SPIFFE-ID',
      type: 'string',
      jsonPath: '.spec.spiffeID',
      description: 'The identity that it gives.',
    },
    {
      name: 'Selectors',
      type: 'string',
      jsonPath: '.spec.selectors',
      description: 'How the workload is recognized.',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether workloads can get the identity.',
    },
    {
      name: 'Federated',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Federated")].status',
      description: 'Whether they get every bundle that the entry asks for.',
    },
    {
      name: 'Trust-Domains',
      type: 'integer',
      jsonPath: '.status.trustDomainCount',
      description: 'How many bundles of other trust domains they get.',
      priority: 1,
    },
    {
      name: 'Federates-With',
      type: 'string',
      jsonPath: '.spec.federatesWith',
      description: 'The trust domains whose bundles it asks for.',
      priority: 1,
    },
  ],
});

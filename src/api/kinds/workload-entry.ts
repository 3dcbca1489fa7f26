// The kind WorkloadEntry: which processes on which machines of this site get which SPIFFE ID.

import { defineKind } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { agentNamePattern } from '../values/agent-name.ts';
import { conditions } from './conditions.ts';

interface Spec {
  readonly spiffeID: string;
}

interface AgentSelector {
  readonly matchLabels: Readonly<Record<string, string>>;
}

interface Agents {
  readonly names?: readonly string[];
  readonly selector?: AgentSelector;
}

/** SPIFFE-ID section 2.2: a segment must not be . or .. */
const dots = /\/[.]{1,2}(\/.*)?$/;

const plural = 'workloadentries';

export const workloadEntryKind = defineKind({
  kind: 'WorkloadEntry',
  plural,
  singular: 'workloadentry',
  shortNames: ['we'],
  description:
    'Gives an identity to workloads: every process that matches all selectors. From the Workload API, it gets an X.509-SVID with this SPIFFE ID, JWT-SVIDs on request, and the bundles of the trust domains that it federates with. The site renews the X.509-SVID.',
  names: 'dns-subdomain',
  // A caller who may change one entry could otherwise give its identity to another machine.
  guardedFields: [{ field: 'spec.agents', writes: plural }],
  specRequired: true,
  spec: s.object({
    description: 'The identity of the workload, and its selectors.',
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
            'Properties that the process must have, all of them: unix:uid:1000, unix:user:web, unix:gid:1000, unix:group:web, unix:supplementary_gid:2000, unix:supplementary_group:ops, unix:path:/usr/bin/web, unix:sha256:DIGEST of its program, systemd:id:web.service, cgroup:/system.slice/web.service. The site asks the kernel, never the workload.',
          listType: 'set',
          minItems: 1,
          maxItems: 16,
          items: s.string({
            description: 'One property of the process.',
            minLength: 1,
            maxLength: 4096,
            pattern:
              '^(unix:((uid|gid|supplementary_gid):(0|[1-9][0-9]{0,9})|(user|group|supplementary_group):[a-zA-Z0-9_.][a-zA-Z0-9_.@-]{0,254}[$]?|path:/.+|sha256:[0-9a-f]{64})|systemd:id:[a-zA-Z0-9:_.\\\\@-]{1,247}[.](service|scope)|cgroup:/.*)$',
            hint: 'write a property of a process that the kernel attests, such as unix:uid:1000, unix:path:/usr/bin/web or systemd:id:web.service. There are no k8s selectors: SPIRE attests Pods. All forms: hansa explain workloadentry.spec.selectors',
          }),
        }),
      ),
      federatesWith: optional(
        s.list({
          description:
            'Trust domains whose bundles the workload gets, or "*" for all that this site trusts. It gets the bundle of a peer only while this site trusts that peer and a grant of either site covers the workload.',
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
            'Further trust domains, by the labels of their SPIFFEFederations: all that match now or later, in addition to federatesWith. An empty selector matches all.',
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
                description: 'Further conditions on its labels, all of which must match.',
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
      agents: optional(
        s.object({
          description:
            'The machines on which the entry applies: exactly one of names and selector. Without it, only the machine of the site, which is the Agent `site`. Changing it needs the verbs create and update on all WorkloadEntries.',
          fields: {
            names: optional(
              s.list({
                description: 'Names of Agents. An agent with such a name may join later.',
                listType: 'set',
                minItems: 1,
                maxItems: 256,
                items: s.string({
                  description: 'The name of an Agent.',
                  maxLength: 63,
                  pattern: agentNamePattern,
                }),
              }),
            ),
            selector: optional(
              s.object({
                description: 'All Agents that match, now or later.',
                fields: {
                  matchLabels: required(
                    s.map({
                      description: 'Labels that the Agent must have, all of them. At least one.',
                      maxProperties: 16,
                      values: s.string({ description: 'The value of the label.', maxLength: 63 }),
                    }),
                  ),
                },
                rules: [
                  {
                    cel: 'size(self.matchLabels) > 0',
                    message: 'matchLabels must have at least one label',
                    holds: (value: AgentSelector) => Object.keys(value.matchLabels).length > 0,
                  },
                ],
              }),
            ),
          },
          rules: [
            {
              cel: 'has(self.names) != has(self.selector)',
              message: 'exactly one of names and selector must be set',
              holds: (value: Agents) =>
                (value.names === undefined) !== (value.selector === undefined),
            },
          ],
        }),
      ),
      hint: optional(
        s.string({
          description:
            'A hint for workloads with several identities about the purpose of this one, for example internal. Default: the name of the entry. If two entries of a workload have the same hint, only the first by name keeps it.',
          // 1,024 bytes at most (SPIFFE Workload API section 8).
          maxLength: 256,
        }),
      ),
      dnsNames: optional(
        s.list({
          description:
            'DNS names in the X.509-SVID, for clients that verify host names. SPIFFE itself does not use them.',
          listType: 'set',
          maxItems: 16,
          items: s.string({
            description: 'A host name in lower case; its first label may be *.',
            maxLength: 253,
            pattern:
              '^([*][.])?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$',
          }),
        }),
      ),
      ttlSeconds: optional(
        s.integer({
          description:
            'Lifetime of the X.509-SVID. After half of it, the site issues a new one with a new key.',
          format: 'int32',
          minimum: 60,
          maximum: 3600,
          default: 3600,
        }),
      ),
      jwtTtlSeconds: optional(
        s.integer({
          description:
            'Lifetime of JWT-SVIDs. Default: 300. A stolen token works until it expires, so keep it short.',
          format: 'int32',
          minimum: 10,
          maximum: 3600,
        }),
      ),
    },
    rules: [
      {
        cel: "!self.spiffeID.matches('/[.]{1,2}(/.*)?$')",
        message: 'a segment of the path must not be . or ..',
        holds: (value: Spec) => !dots.test(value.spiffeID),
      },
    ],
  }),
  status: s.object({
    description: 'The observed state of the entry.',
    fields: {
      trustDomains: optional(
        s.list({
          description:
            'The other trust domains whose bundles the workloads get now; only the first ones if there are many.',
          listType: 'set',
          maxItems: 64,
          items: s.string({ description: 'A trust domain.', maxLength: 255 }),
        }),
      ),
      trustDomainCount: optional(
        s.integer({ description: 'Number of these trust domains.', format: 'int32', minimum: 0 }),
      ),
      agentCount: optional(
        s.integer({
          description: 'Number of Agents that the entry is assigned to.',
          format: 'int32',
          minimum: 0,
        }),
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
      description: 'The selectors of the workload.',
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
      name: 'Agents',
      type: 'integer',
      jsonPath: '.status.agentCount',
      description: 'Number of Agents that the entry is assigned to.',
    },
    {
      name: 'Trust-Domains',
      type: 'integer',
      jsonPath: '.status.trustDomainCount',
      description: 'Number of bundles of other trust domains that they get.',
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

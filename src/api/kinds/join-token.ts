// The kind JoinToken: who may become an agent or a bot of this site, and how they prove their
// identity.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { agentNamePattern, siteAgentName } from '../values/agent-name.ts';
import { conditions } from './conditions.ts';
import { workloadEntryKind } from './workload-entry.ts';

export type JoinToken = ResourceOf<typeof joinTokenKind>;

/** Every join evaluates all rules, so that the response time does not reveal their number. */
export const maxAllowRules = 64;

interface Spec {
  readonly method: string;
  readonly roles: readonly string[];
  readonly botName?: string;
  readonly agentName?: string;
  readonly labels?: unknown;
  readonly expiresAt?: string;
  readonly spiffe?: unknown;
}

export const joinTokenKind = defineKind({
  kind: 'JoinToken',
  plural: 'jointokens',
  singular: 'jointoken',
  shortNames: ['jt'],
  description:
    'Lets programs and machines join the site: a client that proves its identity gets an SVID below /hansa/agent or /hansa/bot. With the method spiffe, it presents an SVID of a trust domain that this site trusts. With the method secret, it presents a secret, which the site created and shows once.',
  names: 'dns-subdomain',
  specRequired: true,
  auditName: 'join.token',
  // A machine that joins gets the WorkloadEntries of its name and of the labels of its token. So a caller who
  // decides which machines join also decides which machines get identities.
  guardedFields: [
    {
      field: 'spec',
      onlyFor: { field: 'spec.roles', item: 'agent' },
      writes: workloadEntryKind.plural,
    },
  ],
  spec: s.object({
    description: 'Who may join, and in which role.',
    fields: {
      method: required(
        s.string({
          description:
            'How a client proves its identity: spiffe with an X.509-SVID, secret with a secret of this token (`hansa join token create`).',
          enum: ['spiffe', 'secret'],
        }),
      ),
      roles: required(
        s.list({
          description:
            'The roles in which a client may join. A machine that joins as an agent gets WorkloadEntries, so every change of the spec of a token for agents, and creating its secret, needs the verbs create and update on all WorkloadEntries. A secret admits only in the roles that the token had when the secret was created.',
          listType: 'set',
          minItems: 1,
          maxItems: 2,
          items: s.string({
            description:
              'agent: a machine, with a unique name that was never used before. bot: a program, with the name in the token.',
            enum: ['agent', 'bot'],
          }),
        }),
      ),
      botName: optional(
        s.string({
          description: 'The name of the bot: it becomes spiffe://TRUST-DOMAIN/hansa/bot/NAME.',
          minLength: 1,
          maxLength: 63,
          pattern: '^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$',
        }),
      ),
      agentName: optional(
        s.string({
          description:
            'The only name under which an agent may join with this token. If an agent of this name was forgotten before the token was written, the machine that joins with it gets the WorkloadEntries that name the agent.',
          maxLength: 63,
          pattern: agentNamePattern,
        }),
      ),
      labels: optional(
        s.map({
          description:
            'Labels of the Agents that join with this token. They decide which WorkloadEntries an agent gets. A later change affects only agents that join later.',
          maxProperties: 16,
          values: s.string({
            description: 'The value of the label.',
            maxLength: 63,
            pattern: '^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$',
          }),
        }),
      ),
      singleUse: optional(
        s.boolean({ description: 'Whether only one client may join with this token.' }),
      ),
      expiresAt: optional(
        s.time({
          description:
            'When the token expires. Required for the method secret. Without it, the token is valid until it is deleted.',
        }),
      ),
      spiffe: optional(
        s.object({
          description: 'For the method spiffe.',
          fields: {
            allow: required(
              s.list({
                description: 'Whose SVIDs are accepted: one rule must match.',
                listType: 'atomic',
                minItems: 1,
                maxItems: maxAllowRules,
                items: s.object({
                  description: 'One rule.',
                  fields: {
                    spiffeID: required(
                      s.string({
                        description:
                          'A SPIFFE ID whose path may have globs: * matches any characters within one segment, ** one or more whole segments. For example spiffe://bruges.example/ci/*. The trust domain has no globs, and IDs below /hansa are never accepted.',
                        minLength: 1,
                        maxLength: 2048,
                        pattern: '^spiffe://[a-z0-9._-]{1,255}(/[a-zA-Z0-9._*-]+)+$',
                      }),
                    ),
                  },
                }),
              }),
            ),
          },
        }),
      ),
    },
    rules: [
      {
        cel: "(self.method == 'spiffe') == has(self.spiffe)",
        message: 'spiffe must be set for the method spiffe, and only for that',
        holds: (value: Spec) => (value.method === 'spiffe') === (value.spiffe !== undefined),
      },
      {
        cel: "self.roles.exists(role, role == 'bot') == has(self.botName)",
        message: 'botName must be set for the role bot, and only for that',
        holds: (value: Spec) => value.roles.includes('bot') === (value.botName !== undefined),
      },
      {
        cel: "self.method != 'secret' || has(self.expiresAt)",
        message: 'a token with a secret must have expiresAt',
        holds: (value: Spec) => value.method !== 'secret' || value.expiresAt !== undefined,
      },
      {
        cel: "!has(self.agentName) || self.roles.exists(role, role == 'agent')",
        message: 'agentName is only for the role agent',
        holds: (value: Spec) => value.agentName === undefined || value.roles.includes('agent'),
      },
      {
        cel: "!has(self.agentName) || self.agentName != 'site'",
        message: 'agentName must not be site: that is the machine of the site itself',
        holds: (value: Spec) => value.agentName !== siteAgentName,
      },
      {
        cel: "!has(self.labels) || self.roles.exists(role, role == 'agent')",
        message: 'labels are only for the role agent',
        holds: (value: Spec) => value.labels === undefined || value.roles.includes('agent'),
      },
    ],
  }),
  status: s.object({
    description: 'Whether the token is valid, and how often it was used.',
    fields: {
      uses: optional(
        s.integer({
          description: 'How many times a client joined with it.',
          format: 'int64',
          minimum: 0,
        }),
      ),
      lastUsedAt: optional(s.time({ description: 'When a client last joined with it.' })),
      conditions: optional(conditions),
    },
  }),
  columns: [
    {
      name: 'Method',
      type: 'string',
      jsonPath: '.spec.method',
      description: 'How clients prove their identity.',
    },
    {
      name: 'Roles',
      type: 'string',
      jsonPath: '.spec.roles',
      description: 'The roles in which clients may join.',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether clients can join with it now.',
    },
    {
      name: 'Uses',
      type: 'integer',
      jsonPath: '.status.uses',
      description: 'How often it was used.',
    },
    {
      name: 'Expires',
      type: 'date',
      jsonPath: '.spec.expiresAt',
      description: 'Time until the token expires.',
      counts: 'down',
    },
    {
      name: 'Bot',
      type: 'string',
      jsonPath: '.spec.botName',
      description: 'The name of the bot.',
      priority: 1,
    },
    {
      name: 'Last-Used',
      type: 'date',
      jsonPath: '.status.lastUsedAt',
      description: 'When it was last used.',
      priority: 1,
    },
  ],
});

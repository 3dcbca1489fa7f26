// JoinToken: who may become an agent or a bot of this site, and how they prove it.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export type JoinToken = ResourceOf<typeof joinTokenKind>;

/** Each rule is looked at in every join, so that nobody can tell by the time how many there are. */
export const maxAllowRules = 64;

interface Spec {
  readonly method: string;
  readonly roles: readonly string[];
  readonly botName?: string;
  readonly expiresAt?: string;
  readonly spiffe?: unknown;
}

export const joinTokenKind = defineKind({
  kind: 'JoinToken',
  plural: 'jointokens',
  singular: 'jointoken',
  shortNames: ['jt'],
  description:
    'Lets programs and machines join the site: whoever proves what the token asks for gets an SVID below /hansa/agent or /hansa/bot. With the method spiffe they prove an identity of a trust domain that this site believes; with the method secret they hold a secret, which the site made and shows once.',
  names: 'dns-subdomain',
  specRequired: true,
  auditName: 'join.token',
  spec: s.object({
    description: 'Who may join, and as what.',
    fields: {
      method: required(
        s.string({
          description:
            'How whoever joins proves who they are: spiffe by an X.509-SVID, secret by a secret of this token (`hansa join token create`).',
          enum: ['spiffe', 'secret'],
        }),
      ),
      roles: required(
        s.list({
          description: 'What one may become with it.',
          listType: 'set',
          minItems: 1,
          maxItems: 2,
          items: s.string({
            description:
              'agent: a machine, under a name of its own that nobody had before. bot: a program, under the name that the token gives.',
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
      expiresAt: optional(
        s.time({
          description:
            'From when on nobody joins with it. Required for the method secret; without it the token works until it is deleted.',
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
                          'A SPIFFE ID whose path may have globs: * stands for any characters within one segment, ** for one or more whole segments. For example spiffe://bruges.example/ci/*. The trust domain is literal, and nothing below /hansa is ever accepted.',
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
    ],
  }),
  status: s.object({
    description: 'What the site found, and how often it was used.',
    fields: {
      uses: optional(
        s.integer({
          description: 'How many times somebody joined with it.',
          format: 'int64',
          minimum: 0,
        }),
      ),
      lastUsedAt: optional(s.time({ description: 'When somebody last joined with it.' })),
      conditions: optional(conditions),
    },
  }),
  columns: [
    {
      name: 'Method',
      type: 'string',
      jsonPath: '.spec.method',
      description: 'How it is proven.',
    },
    {
      name: 'Roles',
      type: 'string',
      jsonPath: '.spec.roles',
      description: 'What one may become.',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether one can join with it now.',
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
      description: 'For how long yet.',
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

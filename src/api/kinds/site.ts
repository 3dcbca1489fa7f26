// The kind Site: the site itself. Each store has one; the daemon creates it and updates its status.

import { defineKind } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';

export const siteKind = defineKind({
  kind: 'Site',
  plural: 'sites',
  singular: 'site',
  shortNames: [],
  description:
    'This site: its name, its advertised URL and its state. There is exactly one, named site; it cannot be created or deleted.',
  names: 'dns-subdomain',
  singleton: 'site',
  editable: true,
  // Whether the site is ready is said by the site itself at each read: it may be unable to write it.
  liveStatus: ['conditions'],
  guardedFields: [
    // This field decides where peers connect.
    { field: 'spec.advertiseURL', subresource: 'advertise' },
    // This field decides what needs the consent of another person.
    { field: 'spec.approvals', subresource: 'approvals' },
  ],
  specRequired: false,
  spec: s.object({
    description: 'Descriptions of the site, and its advertised URL.',
    fields: {
      displayName: optional(
        s.string({
          description: 'A short name for people. Peers see it.',
          minLength: 1,
          maxLength: 128,
        }),
      ),
      description: optional(
        s.string({ description: 'What this site is for, in a sentence or two.', maxLength: 1024 }),
      ),
      location: optional(
        s.string({ description: 'Where the site is, for people.', maxLength: 256 }),
      ),
      contact: optional(
        s.string({
          description: 'Contact for operators of peers: an address, a number or a page.',
          maxLength: 256,
        }),
      ),
      advertiseURL: optional(
        s.string({
          description:
            'The https URL of the federation listener as peers reach it; invitations contain it. Overrides --advertise. Changing it needs the role admin, or a rule with the verb update on the subresource advertise.',
          maxLength: 2048,
          pattern: '^https://[^\\s/?#@]+(/[^\\s?#]*)?$',
        }),
      ),
      approvals: optional(
        s.object({
          description:
            'Which actions need approval. Changing it needs the role admin, or a rule with the verb update on the subresource approvals. Weakening it needs an approval under the policy before the change.',
          fields: {
            rules: optional(
              s.list({
                description: 'One rule for each action. Other actions keep their defaults.',
                listType: 'map',
                keys: ['action'],
                maxItems: 128,
                items: s.object({
                  description: 'How one action is approved.',
                  fields: {
                    action: required(
                      s.string({
                        description:
                          'An action of a plane, such as peer.confirm, or KIND.create, KIND.update or KIND.delete for changes of resources.',
                        minLength: 1,
                        maxLength: 128,
                        pattern: '^[A-Za-z][A-Za-z0-9]*\\.[a-z]+$',
                      }),
                    ),
                    mode: required(
                      s.string({
                        description:
                          'none: no approval. approver: the caller needs the right to approve, or the approval of someone who has it. two-person: always the approval of another user, whose credential did not come through the admin socket.',
                        enum: ['none', 'approver', 'two-person'],
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
  }),
  status: s.object({
    description: 'What the daemon reports.',
    fields: {
      trustDomain: optional(
        s.string({ description: 'The trust domain of the site.', maxLength: 255 }),
      ),
      version: optional(
        s.string({ description: 'The version of Hansa that runs.', maxLength: 64 }),
      ),
      startedAt: optional(s.time({ description: 'When the daemon started.' })),
      advertiseURL: optional(s.string({ description: 'The URL in invitations.', maxLength: 2048 })),
      listeners: optional(
        s.list({
          description: 'Where the daemon listens.',
          listType: 'map',
          keys: ['name'],
          maxItems: 32,
          items: s.object({
            description: 'One listener.',
            fields: {
              name: required(
                s.string({
                  description: 'The name of the listener: api, federation, metrics and so on.',
                  maxLength: 63,
                }),
              ),
              address: required(
                s.string({
                  description: 'host:port, or the path of a socket.',
                  maxLength: 512,
                }),
              ),
            },
          }),
        }),
      ),
      authorities: optional(
        s.list({
          description:
            'The authorities of the trust domain, in all phases. `hansa trust rotate status` shows the next steps.',
          listType: 'map',
          keys: ['fingerprint'],
          maxItems: 32,
          items: s.object({
            description: 'One authority.',
            fields: {
              fingerprint: required(
                s.string({
                  description:
                    'SHA-256 of its certificate, in hexadecimal; for a JWT authority, its key id.',
                  maxLength: 128,
                }),
              ),
              kind: optional(s.string({ description: 'What it signs.', enum: ['x509', 'jwt'] })),
              state: optional(
                s.string({
                  description:
                    'prepared: published, does not sign yet. active: signs. old: published until everything that it signed has expired. tainted: may be compromised; the site replaces everything that it signed.',
                  enum: ['prepared', 'active', 'old', 'tainted'],
                }),
              ),
              since: optional(s.time({ description: 'When it entered this phase.' })),
              notAfter: required(s.time({ description: 'When it expires.' })),
            },
          }),
        }),
      ),
      conditions: optional(conditions),
    },
  }),
  columns: [
    {
      name: 'Trust-Domain',
      type: 'string',
      jsonPath: '.status.trustDomain',
      description: 'The trust domain of the site.',
    },
    {
      name: 'Ready',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Ready")].status',
      description: 'Whether every part of the site works.',
    },
    {
      name: 'Version',
      type: 'string',
      jsonPath: '.status.version',
      description: 'The version of Hansa that runs.',
    },
    {
      name: 'Started',
      type: 'date',
      jsonPath: '.status.startedAt',
      description: 'How long ago the daemon started.',
    },
    {
      name: 'Display-Name',
      type: 'string',
      jsonPath: '.spec.displayName',
      description: 'The short name for people.',
      priority: 1,
    },
    {
      name: 'Advertised',
      type: 'string',
      jsonPath: '.status.advertiseURL',
      description: 'The URL in invitations.',
      priority: 1,
    },
  ],
});

// The kind Role: a set of permissions on kinds.

import { defineKind } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';

export const roleKind = defineKind({
  kind: 'Role',
  plural: 'roles',
  singular: 'role',
  shortNames: [],
  description:
    'A set of permissions. It has no effect until a RoleBinding assigns it. To write a role, you need all of its permissions, or the verb escalate on it.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'The permissions.',
    fields: {
      rules: required(
        s.list({
          description:
            'The rules. The role allows everything that at least one rule allows. An empty list allows nothing.',
          listType: 'atomic',
          maxItems: 256,
          items: s.object({
            description: 'Allows each of the verbs on each of the kinds.',
            fields: {
              kinds: required(
                s.list({
                  description: 'Kinds by name, for example Role, or "*" for every kind.',
                  listType: 'atomic',
                  minItems: 1,
                  maxItems: 64,
                  items: s.string({
                    description: 'A kind, or "*".',
                    maxLength: 63,
                    pattern: '^(\\*|[A-Z][A-Za-z0-9]*)$',
                  }),
                }),
              ),
              verbs: required(
                s.list({
                  description: 'What may be done, or "*" for everything.',
                  listType: 'atomic',
                  minItems: 1,
                  maxItems: 16,
                  items: s.string({
                    description: 'A verb, or "*".',
                    enum: [
                      'get',
                      'list',
                      'watch',
                      'create',
                      'update',
                      'patch',
                      'delete',
                      'deletecollection',
                      'approve',
                      'bind',
                      'escalate',
                      '*',
                    ],
                  }),
                }),
              ),
              names: optional(
                s.list({
                  description:
                    'Only objects with these names. Without it, all objects. A rule with names does not allow create, or list, watch and deletecollection of whole collections.',
                  listType: 'atomic',
                  maxItems: 256,
                  items: s.string({ description: 'A name.', minLength: 1, maxLength: 253 }),
                }),
              ),
              subresources: optional(
                s.list({
                  description:
                    'Allows the verbs on these subresources (for example status) instead of the objects themselves; "*" is all of them.',
                  listType: 'atomic',
                  maxItems: 16,
                  items: s.string({
                    description: 'A subresource, or "*".',
                    maxLength: 63,
                    pattern: '^(\\*|[a-z]([-a-z0-9]*[a-z0-9])?)$',
                  }),
                }),
              ),
            },
          }),
        }),
      ),
    },
  }),
  columns: [
    {
      name: 'Rules',
      type: 'string',
      jsonPath: '.spec.rules',
      description: 'What is allowed.',
      priority: 1,
    },
  ],
});

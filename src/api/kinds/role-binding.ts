// The kind RoleBinding: assigns a role to users, groups or tokens.

import { defineKind } from '../kind.ts';
import { required, s } from '../schema/dsl.ts';

interface Spec {
  readonly role: string;
}

export const roleBindingKind = defineKind({
  kind: 'RoleBinding',
  plural: 'rolebindings',
  singular: 'rolebinding',
  shortNames: ['rb'],
  description:
    'Gives a role to users, groups or tokens. To bind a role, you need all of its permissions, or the verb bind on that role.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'Which role, and who has it.',
    fields: {
      role: required(
        s.string({
          description:
            'The name of the Role. It cannot be changed: delete the binding and create another.',
          minLength: 1,
          maxLength: 253,
        }),
      ),
      subjects: required(
        s.list({
          description: 'Who has the role.',
          listType: 'map',
          keys: ['kind', 'name'],
          maxItems: 256,
          items: s.object({
            description: 'One user, group or token.',
            fields: {
              kind: required(
                s.string({
                  description:
                    'User is the name in a user SVID (spiffe://TRUST-DOMAIN/hansa/user/NAME), or, for token reviews, the SPIFFE ID of a workload or serviceaccount:CLUSTER:NAMESPACE:NAME. The user cluster:NAME is a Cluster from which the site takes over objects. Token is the name of an access token, Group a group that users or tokens belong to.',
                  enum: ['User', 'Group', 'Token'],
                }),
              ),
              name: required(
                s.string({
                  description: 'The name of the user, group or token.',
                  minLength: 1,
                  maxLength: 2048,
                  pattern:
                    '^([A-Za-z0-9]([-A-Za-z0-9._:]*[A-Za-z0-9])?|spiffe://[-a-z0-9._]+(/[-A-Za-z0-9._]+)+)$',
                }),
              ),
            },
          }),
        }),
      ),
    },
    rules: [
      {
        cel: 'self.role == oldSelf.role',
        message: 'role cannot be changed: delete the binding and create another',
        // The right to change the subjects of a binding must not include the choice of its role.
        holds: (value: Spec, old: Spec | undefined) => old === undefined || value.role === old.role,
      },
    ],
  }),
  columns: [
    {
      name: 'Role',
      type: 'string',
      jsonPath: '.spec.role',
      description: 'The assigned role.',
    },
    {
      name: 'Subjects',
      type: 'string',
      jsonPath: '.spec.subjects',
      description: 'Who has it.',
      priority: 1,
    },
  ],
  selectableFields: ['spec.role'],
});

// The kind PolicyRecord, in clusters: which version of a federated policy the cluster holds. Only sites write it.

import { defineKind, type ResourceOf } from '../kind.ts';
import { optional, required, s } from '../schema/dsl.ts';
import { conditions } from './conditions.ts';
import { clustersGroup } from './federation.ts';

export type PolicyRecord = ResourceOf<typeof policyRecordKind>;

/** The record that says when the cluster was last in sync. All others are about one policy. */
export const syncRecordName = 'synced';

/** 9999-12-31, the end of what RFC 3339 can write. */
export const latestMs = 253_402_300_799_999;
export const highestCounter = 1_000_000_000;

const hash = (description: string) =>
  s.string({ description, maxLength: 64, pattern: '^([0-9a-f]{64})?$' });
const identity = (description: string) => s.string({ description, maxLength: 128 });
const moment = (description: string) =>
  s.integer({ description, format: 'int64', minimum: 0, maximum: latestMs });

export const policyRecordKind = defineKind({
  kind: 'PolicyRecord',
  cluster: {
    group: clustersGroup,
    scope: 'Cluster',
    rules: [
      {
        cel: `has(self.spec.policy) != (self.metadata.name == '${syncRecordName}')`,
        message: `a record is about one policy, apart from the record ${syncRecordName}`,
      },
    ],
  },
  plural: 'policyrecords',
  singular: 'policyrecord',
  shortNames: ['polrec'],
  description:
    'The version of a federated policy that this cluster holds. Hansa sites write it, and compare the records of all clusters to find the newest version.',
  names: 'dns-subdomain',
  specRequired: true,
  spec: s.object({
    description: 'The version.',
    fields: {
      policy: optional(
        s.object({
          description: 'The policy. The name of the record is a hash of it.',
          fields: {
            group: required(
              s.string({ description: 'Its API group.', minLength: 1, maxLength: 253 }),
            ),
            resource: required(
              s.string({
                description: 'Its resource, such as networkpolicies.',
                minLength: 1,
                maxLength: 63,
              }),
            ),
            namespace: optional(
              s.string({
                description: 'Its namespace. Absent for a policy of the whole cluster.',
                minLength: 1,
                maxLength: 63,
              }),
            ),
            name: required(s.string({ description: 'Its name.', minLength: 1, maxLength: 253 })),
          },
        }),
      ),
      state: optional(
        s.string({
          description:
            'Live: the cluster holds this version. Deleted: a user deleted the policy. Ended: a user removed the annotation. Stale: the cluster was away for too long, so its policy is not spread. Absent: the cluster holds no version; the conditions say why.',
          enum: ['Live', 'Deleted', 'Ended', 'Stale', 'Absent'],
        }),
      ),
      stamp: optional(
        s.object({
          description: 'When and where a user made this version. The highest stamp wins.',
          fields: {
            timeMs: required(moment('The time of the edit, in milliseconds since 1970.')),
            counter: required(
              s.integer({
                description: 'Orders edits that follow each other at the same time.',
                format: 'int32',
                minimum: 0,
                maximum: highestCounter,
              }),
            ),
            clusterID: required(
              s.string({
                description: 'The ID of the cluster of the edit.',
                minLength: 1,
                maxLength: 63,
              }),
            ),
          },
        }),
      ),
      versionHash: optional(hash('SHA-256 of the content of the version.')),
      storedHash: optional(
        hash(
          'SHA-256 of what this API server stored for it. It differs where the server has other defaults or an older schema.',
        ),
      ),
      objectUID: optional(identity('The UID of the policy in this cluster.')),
      objectVersion: optional(
        identity('The resourceVersion of the policy that the record was made from.'),
      ),
      namespaceUID: optional(identity('The UID of its namespace.')),
      crdUID: optional(
        identity('The UID of the CustomResourceDefinition of the policy. Empty for built-in ones.'),
      ),
      settledMs: optional(
        moment('Of a deletion: since when all members of the cluster set know of it.'),
      ),
      syncedMs: optional(
        moment('Of the record of the cluster: when a leader last compared its policies.'),
      ),
    },
  }),
  status: s.object({
    description: 'What became of the policy in this cluster.',
    fields: { conditions: optional(conditions) },
  }),
  columns: [
    {
      name: 'Resource',
      type: 'string',
      jsonPath: '.spec.policy.resource',
      description: 'The resource of the policy.',
    },
    {
      name: 'Namespace',
      type: 'string',
      jsonPath: '.spec.policy.namespace',
      description: 'The namespace of the policy.',
    },
    {
      name: 'Policy',
      type: 'string',
      jsonPath: '.spec.policy.name',
      description: 'The name of the policy.',
    },
    {
      name: 'State',
      type: 'string',
      jsonPath: '.spec.state',
      description: 'Live, Deleted, Ended, Stale or Absent.',
    },
    {
      name: 'From',
      type: 'string',
      jsonPath: '.spec.stamp.clusterID',
      description: 'The cluster of the last edit.',
    },
    {
      name: 'Replicated',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Replicated")].status',
      description: 'Whether this cluster holds the newest version.',
    },
    {
      name: 'Why',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Replicated")].message',
      description: 'Why it does not, and what to do.',
      priority: 1,
    },
  ],
});

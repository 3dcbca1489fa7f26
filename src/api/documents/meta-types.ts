// Schemas for OpenAPI of the API types that are not kinds: Status, DeleteOptions, ListMeta,
// WatchEvent and Patch.

import { optional, required, s } from '../schema/dsl.ts';
import type { Schema } from '../schema/schema.ts';

const typeMeta = {
  apiVersion: optional(s.string({ description: 'The API version of this object.' })),
  kind: optional(s.string({ description: 'The kind of this object.' })),
};

const listMetaSchema = s.object({
  description: 'Metadata of a list.',
  fields: {
    resourceVersion: optional(
      s.string({ description: 'The version of the whole collection; a watch can go on from it.' }),
    ),
    continue: optional(
      s.string({ description: 'Where the next page begins; empty on the last one.' }),
    ),
    remainingItemCount: optional(
      s.integer({ description: 'How many items follow this page.', format: 'int64' }),
    ),
    selfLink: optional(s.string({ description: 'Not used.' })),
  },
});

const statusSchema = s.object({
  description: 'The outcome of a request that returns no object.',
  fields: {
    ...typeMeta,
    metadata: optional(listMetaSchema),
    status: optional(s.string({ description: 'Success or Failure.' })),
    message: optional(s.string({ description: 'What happened, in a sentence.' })),
    reason: optional(s.string({ description: 'What happened, as one word for programs.' })),
    code: optional(s.integer({ description: 'The HTTP status.', format: 'int32' })),
    details: optional(
      s.object({
        description: 'What it is about.',
        fields: {
          name: optional(s.string({ description: 'The name of the object.' })),
          group: optional(s.string({ description: 'The API group of the object.' })),
          kind: optional(s.string({ description: 'The kind or resource of the object.' })),
          uid: optional(s.string({ description: 'The UID of the object.' })),
          retryAfterSeconds: optional(
            s.integer({ description: 'How long to wait before trying again.', format: 'int32' }),
          ),
          causes: optional(
            s.list({
              description: 'Every offending field.',
              listType: 'atomic',
              items: s.object({
                description: 'One offending field.',
                fields: {
                  reason: optional(s.string({ description: 'What is wrong, as one word.' })),
                  message: optional(s.string({ description: 'What is wrong, in a sentence.' })),
                  field: optional(s.string({ description: 'The path of the field.' })),
                },
              }),
            }),
          ),
        },
      }),
    ),
  },
});

const deleteOptionsSchema = s.object({
  description: 'How to delete.',
  fields: {
    ...typeMeta,
    dryRun: optional(
      s.list({
        description: '["All"] to try without effect.',
        listType: 'atomic',
        items: s.string({ description: 'All.' }),
      }),
    ),
    gracePeriodSeconds: optional(
      s.integer({ description: 'Accepted and without effect.', format: 'int64' }),
    ),
    orphanDependents: optional(s.boolean({ description: 'Use propagationPolicy instead.' })),
    propagationPolicy: optional(
      s.string({ description: 'Orphan, Background or Foreground: what happens to dependents.' }),
    ),
    preconditions: optional(
      s.object({
        description: 'Delete only if these hold.',
        fields: {
          uid: optional(s.string({ description: 'The UID that the object must have.' })),
          resourceVersion: optional(
            s.string({ description: 'The resourceVersion that the object must have.' }),
          ),
        },
      }),
    ),
  },
});

const watchEventSchema = s.object({
  description: 'One change, as a watch reports it.',
  fields: {
    type: required(s.string({ description: 'ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.' })),
    object: required(s.any({ description: 'The object after the change; a Status on ERROR.' })),
  },
});

const patchSchema = s.object({
  description: 'A patch, of the type that the Content-Type header names.',
  fields: {},
});

const prefix = 'io.k8s.apimachinery.pkg.apis.meta.v1';

/** By the names that Kubernetes gives them in OpenAPI. */
export const metaTypes: ReadonlyMap<string, Schema> = new Map(
  Object.entries<Schema>({
    [`${prefix}.ListMeta`]: listMetaSchema,
    [`${prefix}.Status`]: statusSchema,
    [`${prefix}.DeleteOptions`]: deleteOptionsSchema,
    [`${prefix}.WatchEvent`]: watchEventSchema,
    [`${prefix}.Patch`]: patchSchema,
  }),
);

export const metaTypeName = (name: string): string => `${prefix}.${name}`;

// The schema of metadata: fields, list types for server-side apply, and the descriptions in `kubectl
// explain`. metadata-rules.ts validates the values, because Kubernetes has special rules and messages
// for metadata.

import { optional, required, s } from '../schema/dsl.ts';

const ownerReference = s.object({
  description: 'An object that owns this one.',
  mapType: 'atomic',
  fields: {
    apiVersion: required(s.string({ description: 'The API version of the owner.' })),
    kind: required(s.string({ description: 'The kind of the owner.' })),
    name: required(s.string({ description: 'The name of the owner.' })),
    // Empty where it is missing, as in Kubernetes: a list is keyed by it, and validation refuses it later.
    uid: required(s.string({ description: 'The UID of the owner.', default: '' })),
    controller: optional(s.boolean({ description: 'Whether the owner manages this object.' })),
    blockOwnerDeletion: optional(
      s.boolean({
        description: 'Whether a foreground deletion of the owner waits for this object.',
      }),
    ),
  },
});

const managedFieldsEntry = s.object({
  description: 'The fields that one manager set, in one version, by one operation.',
  fields: {
    manager: optional(s.string({ description: 'Who set the fields.' })),
    operation: optional(s.string({ description: 'How: Apply or Update.' })),
    apiVersion: optional(s.string({ description: 'The version in which the fields are named.' })),
    time: optional(s.time({ description: 'When the set of fields last changed.' })),
    fieldsType: optional(s.string({ description: 'The format of the set; always FieldsV1.' })),
    fieldsV1: optional(s.any({ description: 'The set of fields.' })),
    subresource: optional(s.string({ description: 'The subresource that was written to.' })),
  },
});

export const objectMetaSchema = s.object({
  description: 'Standard metadata of the object: its name, labels, annotations and history.',
  fields: {
    name: optional(
      s.string({ description: 'The name, unique among objects of this kind. Cannot be changed.' }),
    ),
    generateName: optional(
      s.string({
        description: 'A prefix from which the server generates a unique name if name is not set.',
      }),
    ),
    namespace: optional(
      s.string({ description: 'Always empty: objects of a site are not in namespaces.' }),
    ),
    selfLink: optional(s.string({ description: 'Not used.' })),
    uid: optional(
      s.string({
        description:
          'Unique over time: an object that is deleted and created again has another UID. Set by the server.',
      }),
    ),
    resourceVersion: optional(
      s.string({
        description:
          'The version of this object. If an update contains it, the server rejects the update if the object has changed since.',
      }),
    ),
    generation: optional(
      s.integer({
        description: 'Grows by one with every change of the spec. Set by the server.',
        format: 'int64',
      }),
    ),
    creationTimestamp: optional(s.time({ description: 'When it was created. Set by the server.' })),
    deletionTimestamp: optional(
      s.time({
        description:
          'When a client requested the deletion. The server deletes the object when the list of finalizers is empty.',
      }),
    ),
    deletionGracePeriodSeconds: optional(
      s.integer({ description: 'Set with deletionTimestamp.', format: 'int64' }),
    ),
    labels: optional(
      s.map({
        description: 'Short values. Label selectors select objects by them.',
        values: s.string({ description: 'The value of a label.' }),
      }),
    ),
    annotations: optional(
      s.map({
        description: 'Values that tools keep with the object. Selectors cannot use them.',
        values: s.string({ description: 'The value of an annotation.' }),
      }),
    ),
    ownerReferences: optional(
      s.list({
        description: 'The objects that this one belongs to.',
        listType: 'map',
        keys: ['uid'],
        items: ownerReference,
      }),
    ),
    finalizers: optional(
      s.list({
        description: 'Finalizers that must be removed before the server deletes the object.',
        listType: 'set',
        items: s.string({ description: 'The name of a finalizer.' }),
      }),
    ),
    managedFields: optional(
      s.list({
        description: 'Who set which field. Kept by the server for server-side apply.',
        listType: 'atomic',
        items: managedFieldsEntry,
      }),
    ),
  },
});

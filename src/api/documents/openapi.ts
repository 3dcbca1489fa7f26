// OpenAPI v3 documents, one per group version, for kubectl: `explain` reads the schemas, and `apply`
// looks for the PATCH operation with `fieldValidation` and chooses its patch type from the media
// types of PATCH (there is no strategic merge patch).

import { hash } from 'node:crypto';
import { verbsOf } from './discovery.ts';
import type { Kind } from '../kind.ts';
import { metaTypeName, metaTypes } from './meta-types.ts';
import { group, type Json, type JsonObject, version } from '../object.ts';
import { objectMetaSchema } from '../metadata/object-meta.ts';
import type { Registry } from '../registry.ts';
import { type ReviewGroup, reviewGroups } from './review-types.ts';
import { toJsonSchema } from '../schema/json-schema.ts';
import type { ObjectSchema } from '../schema/schema.ts';

interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

const objectMetaName = metaTypeName('ObjectMeta');
const reference = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` });
/** A reference with words of its own beside it, as Kubernetes writes it. */
const described = (name: string, description: string): JsonObject => ({
  description,
  allOf: [reference(name)],
});

/** `dev.hansa.v1alpha1.Role`: the group from its end, as Kubernetes names schemas. */
function schemaName(gvk: GroupVersionKind): string {
  return `${gvk.group.split('.').toReversed().join('.')}.${gvk.version}.${gvk.kind}`;
}

/** Documents by the keys of the index, for example `apis/hansa.dev/v1alpha1`. */
export function openApiDocuments(registry: Registry): ReadonlyMap<string, JsonObject> {
  const documents = new Map<string, JsonObject>([
    [`apis/${group}/${version}`, ownDocument(registry)],
  ]);
  for (const review of reviewGroups) {
    documents.set(`apis/${review.group}/${review.version}`, reviewDocument(review));
  }
  return documents;
}

/** What `/openapi/v3` answers. The hash lets a client keep a document for as long as it is the same. */
export function openApiIndex(documents: ReadonlyMap<string, JsonObject>): JsonObject {
  const paths: Record<string, JsonObject> = {};
  for (const [path, document] of documents) {
    const digest = hash('sha256', JSON.stringify(document)).toUpperCase();
    paths[path] = { serverRelativeURL: `/openapi/v3/${path}?hash=${digest}` };
  }
  return { paths };
}

function documentOf(
  paths: Readonly<Record<string, JsonObject>>,
  schemas: Readonly<Record<string, JsonObject>>,
): JsonObject {
  const shared: Record<string, JsonObject> = { [objectMetaName]: toJsonSchema(objectMetaSchema) };
  for (const [name, schema] of metaTypes) shared[name] = toJsonSchema(schema);
  return {
    openapi: '3.0.0',
    info: { title: 'Hansa', version: version },
    paths,
    components: { schemas: { ...schemas, ...shared } },
  };
}

function ownDocument(registry: Registry): JsonObject {
  const paths: Record<string, JsonObject> = {};
  const schemas: Record<string, JsonObject> = {};
  for (const kind of registry.kinds) {
    const gvk = { group, version, kind: kind.kind };
    const listGvk = { group, version, kind: `${kind.kind}List` };
    schemas[schemaName(gvk)] = objectSchemaOf(gvk, kind.description, {
      spec: kind.spec,
      specRequired: kind.specRequired,
      status: kind.status,
    });
    schemas[schemaName(listGvk)] = listSchemaOf(gvk, listGvk);
    Object.assign(paths, pathsOf(kind, gvk));
  }
  return documentOf(paths, schemas);
}

function objectSchemaOf(
  gvk: GroupVersionKind,
  description: string,
  parts: {
    readonly spec?: ObjectSchema | undefined;
    readonly specRequired: boolean;
    readonly status?: ObjectSchema | undefined;
  },
): JsonObject {
  const properties: Record<string, JsonObject> = {
    apiVersion: { type: 'string', description: `Always ${gvk.group}/${gvk.version}.` },
    kind: { type: 'string', description: `Always ${gvk.kind}.` },
    metadata: described(objectMetaName, objectMetaSchema.description),
  };
  if (parts.spec !== undefined) properties['spec'] = toJsonSchema(parts.spec);
  if (parts.status !== undefined) properties['status'] = toJsonSchema(parts.status);
  return {
    description,
    type: 'object',
    properties,
    ...(parts.specRequired ? { required: ['spec'] } : {}),
    'x-kubernetes-group-version-kind': [{ ...gvk }],
  };
}

function listSchemaOf(gvk: GroupVersionKind, listGvk: GroupVersionKind): JsonObject {
  return {
    description: `A list of objects of kind ${gvk.kind}.`,
    type: 'object',
    required: ['items'],
    properties: {
      apiVersion: { type: 'string', description: `Always ${gvk.group}/${gvk.version}.` },
      kind: { type: 'string', description: `Always ${listGvk.kind}.` },
      metadata: described(metaTypeName('ListMeta'), 'Metadata of the list.'),
      items: { type: 'array', description: 'The objects.', items: reference(schemaName(gvk)) },
    },
    'x-kubernetes-group-version-kind': [{ ...listGvk }],
  };
}

function queryParameter(name: string, type: string, description: string): JsonObject {
  return { name, in: 'query', description, schema: { type, uniqueItems: true } };
}

const pretty = queryParameter('pretty', 'string', 'Whether to indent the answer.');
const dryRun = queryParameter('dryRun', 'string', 'All: validate the request, but change nothing.');
const fieldManager = queryParameter('fieldManager', 'string', 'The name of the field manager.');
const fieldValidation = queryParameter(
  'fieldValidation',
  'string',
  'What to do about unknown and duplicate fields: Ignore drops them, Warn (the default) drops them and returns a warning, Strict rejects the request.',
);
const force = queryParameter('force', 'boolean', 'Take over fields that others manage (apply).');
const writeParameters = [dryRun, fieldManager, fieldValidation];
const listParameters = [
  queryParameter('allowWatchBookmarks', 'boolean', 'Whether a watch may send bookmarks.'),
  queryParameter('continue', 'string', 'The continue token of the previous page.'),
  queryParameter('fieldSelector', 'string', 'Only objects with these fields.'),
  queryParameter('labelSelector', 'string', 'Only objects with these labels.'),
  queryParameter('limit', 'integer', 'How many objects a page may have.'),
  queryParameter('resourceVersion', 'string', 'The version to read, or to watch from.'),
  queryParameter('resourceVersionMatch', 'string', 'How the server applies resourceVersion.'),
  queryParameter(
    'sendInitialEvents',
    'boolean',
    'Whether a watch begins with the existing objects.',
  ),
  queryParameter('timeoutSeconds', 'integer', 'The time after which the server ends the request.'),
  queryParameter('watch', 'boolean', 'Whether to send changes instead of a list.'),
];
const deleteParameters = [
  dryRun,
  queryParameter('gracePeriodSeconds', 'integer', 'Accepted and without effect.'),
  queryParameter('propagationPolicy', 'string', 'What happens to dependents.'),
];

function content(schema: JsonObject, mediaTypes: readonly string[]): JsonObject {
  return Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema }]));
}

const bodyTypes = ['application/json', 'application/yaml'];
/** Reviews are open to every token, so they are not read from YAML. */
const reviewTypes = ['application/json', 'application/vnd.kubernetes.protobuf'];
const patchTypes = [
  'application/apply-patch+yaml',
  'application/json-patch+json',
  'application/merge-patch+json',
];

interface OperationOptions {
  readonly id: string;
  readonly action: string;
  readonly description: string;
  readonly gvk: GroupVersionKind;
  readonly answers: string;
  readonly parameters?: readonly JsonObject[];
  readonly body?: JsonObject;
  readonly created?: boolean;
}

function operation(options: OperationOptions): JsonObject {
  const answer = (description: string): JsonObject => ({
    description,
    content: content(reference(options.answers), bodyTypes),
  });
  return {
    tags: ['hansa_v1alpha1'],
    description: options.description,
    operationId: options.id,
    ...(options.parameters === undefined ? {} : { parameters: options.parameters }),
    ...(options.body === undefined ? {} : { requestBody: { content: options.body } }),
    responses: {
      '200': answer('OK'),
      ...(options.created === true ? { '201': answer('Created') } : {}),
      '401': { description: 'Unauthorized' },
    },
    'x-kubernetes-action': options.action,
    'x-kubernetes-group-version-kind': { ...options.gvk },
  };
}

function pathsOf(kind: Kind, gvk: GroupVersionKind): Record<string, JsonObject> {
  const verbs = new Set<string>(verbsOf(kind));
  const object = schemaName(gvk);
  const list = `${object}List`;
  const status = metaTypeName('Status');
  const options = content(reference(metaTypeName('DeleteOptions')), bodyTypes);
  const body = content(reference(object), bodyTypes);
  const patch = content(reference(metaTypeName('Patch')), patchTypes);
  const id = (verb: string, suffix = ''): string => `${verb}Hansa${kind.kind}${suffix}`;

  const collection: Record<string, Json> = {
    parameters: [pretty],
    get: operation({
      id: id('list'),
      action: 'list',
      description: `List or watch objects of kind ${kind.kind}.`,
      gvk,
      answers: list,
      parameters: listParameters,
    }),
  };
  if (verbs.has('create')) {
    collection['post'] = operation({
      id: id('create'),
      action: 'post',
      description: `Create an object of kind ${kind.kind}.`,
      gvk,
      answers: object,
      parameters: writeParameters,
      body,
      created: true,
    });
  }
  if (verbs.has('deletecollection')) {
    collection['delete'] = operation({
      id: id('deleteCollection'),
      action: 'deletecollection',
      description: `Delete several objects of kind ${kind.kind}.`,
      gvk,
      answers: status,
      parameters: [...listParameters, ...deleteParameters],
      body: options,
    });
  }

  const one = (suffix: string, what: string): Record<string, Json> => ({
    parameters: [
      {
        name: 'name',
        in: 'path',
        required: true,
        description: `The name of the ${kind.kind}.`,
        schema: { type: 'string', uniqueItems: true },
      },
      pretty,
    ],
    get: operation({
      id: id('read', suffix),
      action: 'get',
      description: `Read ${what}.`,
      gvk,
      answers: object,
      parameters: [queryParameter('resourceVersion', 'string', 'The version to read.')],
    }),
    put: operation({
      id: id('replace', suffix),
      action: 'put',
      description: `Replace ${what}.`,
      gvk,
      answers: object,
      parameters: writeParameters,
      body,
      created: true,
    }),
    patch: operation({
      id: id('patch', suffix),
      action: 'patch',
      description: `Change parts of ${what}, or apply it.`,
      gvk,
      answers: object,
      parameters: [...writeParameters, force],
      body: patch,
    }),
  });

  const single = one('', `the object of kind ${kind.kind}`);
  if (verbs.has('delete')) {
    single['delete'] = operation({
      id: id('delete'),
      action: 'delete',
      description: `Delete the object of kind ${kind.kind}.`,
      gvk,
      answers: status,
      parameters: deleteParameters,
      body: options,
    });
  }
  const base = `/apis/${group}/${version}/${kind.plural}`;
  return {
    [base]: collection,
    [`${base}/{name}`]: single,
    ...(kind.status === undefined
      ? {}
      : { [`${base}/{name}/status`]: one('Status', `the status of the ${kind.kind}`) }),
  };
}

function reviewDocument(review: ReviewGroup): JsonObject {
  const paths: Record<string, JsonObject> = {};
  const schemas: Record<string, JsonObject> = {};
  for (const kind of review.kinds) {
    const gvk = { group: review.group, version: review.version, kind: kind.kind };
    // Kubernetes' own types have this name in its documents.
    const name = `io.k8s.api.${review.group.split('.')[0]}.${review.version}.${kind.kind}`;
    schemas[name] = objectSchemaOf(gvk, kind.description, {
      spec: kind.spec,
      specRequired: kind.spec !== undefined,
      status: kind.status,
    });
    paths[`/apis/${review.group}/${review.version}/${kind.plural}`] = {
      parameters: [pretty],
      post: operation({
        id: `create${kind.kind}`,
        action: 'post',
        description: kind.description,
        gvk,
        answers: name,
        parameters: writeParameters,
        body: content(reference(name), reviewTypes),
        created: true,
      }),
    };
  }
  return documentOf(paths, schemas);
}

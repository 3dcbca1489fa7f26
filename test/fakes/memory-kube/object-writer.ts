// The writes of the in-memory API server: create, update, patch and delete, with the order of checks of
// kube-apiserver. Each write is atomic.

import type { Json, JsonObject } from '../../../src/api/object.ts';
import { timestamp } from '../../../src/api/object.ts';
import { checkName } from '../../../src/api/metadata/names.ts';
import { applyMergePatch } from '../../../src/api/patch/merge-patch.ts';
import { isObject, jsonEquals } from '../../../src/api/schema/json.ts';
import type { Clock } from '../../../src/core/clock/clock.ts';
import type { KubeResponse } from '../../../src/core/kube/kube-client.ts';
import {
  alreadyExists,
  badRequest,
  conflict,
  forbidden,
  invalid,
  jsonResponse,
  KubeFailure,
  notFound,
} from './kube-failure.ts';
import type { MemoryEtcd } from './memory-etcd.ts';
import {
  type Allocator,
  apiVersionOf,
  keyOf,
  keyPrefix,
  qualifiedKind,
  qualifiedName,
  type Resource,
  type Target,
} from './resource.ts';
import {
  defined,
  type Fields,
  fieldsOf,
  type SentObject,
  type StoredObject,
  textOf,
} from './stored-object.ts';

export interface AdmissionRequest {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly resource: Resource;
  readonly isStatus: boolean;
  readonly user: string;
  /** Empty for a deletion. */
  readonly fieldManager: string;
  /** Undefined for a deletion. */
  readonly object: SentObject | undefined;
  /** Undefined for a creation. */
  readonly old: StoredObject | undefined;
}

export interface WriteHooks {
  /** As ValidatingAdmissionPolicies: why the request is refused, or undefined. */
  readonly admit?: (request: AdmissionRequest) => string | undefined;
}

export interface Write {
  readonly target: Target;
  readonly user: string;
  readonly body: unknown;
  readonly contentType: string;
  readonly fieldManager: string;
}

const optimisticLock =
  'the object has been modified; please apply your changes to the latest version and try again';

export class ObjectWriter {
  readonly #etcd: MemoryEtcd;
  readonly #hooks: WriteHooks;
  readonly #clock: Clock | undefined;
  #objects = 0;
  #addresses = 0;
  #nodePorts = 0;

  constructor(etcd: MemoryEtcd, hooks: WriteHooks, clock: Clock | undefined) {
    this.#etcd = etcd;
    this.#hooks = hooks;
    this.#clock = clock;
  }

  /** Throws a KubeFailure. */
  write(method: string, write: Write): KubeResponse {
    const { name, resource } = write.target;
    if (method === 'POST' && name === undefined) return this.#create(write, this.#sent(write));
    if (name === undefined || method === 'POST') {
      throw new KubeFailure(405, 'MethodNotAllowed', 'the server does not allow this method');
    }
    if (method === 'DELETE') return this.#delete(write, name);
    if (method === 'PUT') return this.#update(write, name, this.#sent(write));
    const { contentType, body } = write;
    if (contentType !== 'application/merge-patch+json') {
      throw new KubeFailure(
        415,
        'UnsupportedMediaType',
        `the body of the request was in an unknown format - accepted media types include: application/merge-patch+json`,
      );
    }
    const old = this.#get(write.target, name);
    if (old === undefined) throw notFound(qualifiedName(resource), name);
    const patched = applyMergePatch(old as unknown as JsonObject, body as Json, 'Ignore');
    return this.#update(write, name, this.#sent({ ...write, body: patched }));
  }

  /** Past all checks. */
  store(resource: Resource, namespace: string, name: string, object: object | undefined): void {
    const key = keyOf(resource, namespace, name);
    const old = this.#etcd.get(key);
    if (object === undefined) {
      if (old !== undefined) this.#etcd.write(key, () => undefined);
      return;
    }
    const sent = object as SentObject;
    this.#etcd.write(key, (resourceVersion) => ({
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      ...sent,
      metadata: {
        ...sent.metadata,
        name,
        ...(resource.isNamespaced && { namespace }),
        uid: old?.metadata.uid ?? this.#uid(),
        creationTimestamp: old?.metadata.creationTimestamp ?? this.#now(),
        resourceVersion,
      },
    }));
  }

  #get({ resource, namespace }: Target, name: string): StoredObject | undefined {
    return this.#etcd.get(keyOf(resource, namespace, name));
  }

  /** The object of the request, with the type and namespace that the path implies. */
  #sent({ body, target: { resource, namespace } }: Write): SentObject {
    if (!isObject(body)) throw badRequest('the object provided is unrecognized');
    const { apiVersion = apiVersionOf(resource), kind = resource.kind } = body;
    if (apiVersion !== apiVersionOf(resource) || kind !== resource.kind) {
      throw badRequest(
        `${String(kind)} in version ${JSON.stringify(apiVersion)} cannot be handled as a ${resource.kind}`,
      );
    }
    const metadata = fieldsOf(body['metadata']);
    const given = metadata['namespace'];
    if (given !== undefined && given !== '' && given !== namespace) {
      throw badRequest(
        'the namespace of the provided object does not match the namespace sent on the request',
      );
    }
    return {
      ...body,
      apiVersion,
      kind,
      metadata: { ...metadata, ...(resource.isNamespaced && { namespace }) },
    };
  }

  #create({ target, user, fieldManager }: Write, sent: SentObject): KubeResponse {
    const { resource, namespace } = target;
    if (resource.isNamespaced && namespace === '') {
      throw new KubeFailure(405, 'MethodNotAllowed', 'the server does not allow this method');
    }
    const { name } = sent.metadata;
    this.#checkNamespace(target, String(name));
    if (typeof name !== 'string' || checkName(name).length > 0) {
      const problem = `metadata.name: Invalid value: ${JSON.stringify(name)}`;
      throw invalid(`${qualifiedKind(resource)} ${JSON.stringify(name)}`, [problem]);
    }
    const prepared = this.#prepared(resource, this.#created(resource, sent), undefined);
    this.#admit({
      operation: 'CREATE',
      resource,
      isStatus: false,
      user,
      fieldManager,
      object: prepared,
      old: undefined,
    });
    if ((sent.metadata['resourceVersion'] ?? '') !== '') {
      throw new KubeFailure(500, '', 'resourceVersion should not be set on objects to be created');
    }
    if (this.#get(target, name) !== undefined) throw alreadyExists(qualifiedName(resource), name);
    const managed = this.#managed(target, fieldManager, prepared, undefined);
    return jsonResponse(201, this.#put(resource, managed));
  }

  #created(resource: Resource, sent: SentObject): SentObject {
    const { resourceVersion: _version, deletionTimestamp: _deletion, ...metadata } = sent.metadata;
    // Objects with a status subresource begin without one, apart from nodes.
    const { status, ...rest } = sent;
    const keepsStatus = !resource.hasStatus || resource.plural === 'nodes';
    return {
      ...rest,
      ...(keepsStatus && status !== undefined && { status }),
      metadata: {
        ...metadata,
        uid: this.#uid(),
        creationTimestamp: this.#now(),
        ...(resource.isNewGeneration !== undefined && { generation: 1 }),
      },
    };
  }

  #update(write: Write, name: string, sent: SentObject): KubeResponse {
    const { target, user, fieldManager } = write;
    const { resource, isStatus } = target;
    if (sent.metadata['name'] !== name) {
      throw badRequest(
        `the name of the object (${textOf(sent.metadata['name'])}) does not match the name on the URL (${name})`,
      );
    }
    const old = this.#get(target, name);
    const uid = sent.metadata['uid'];
    if (uid !== undefined && uid !== '' && uid !== old?.metadata.uid && this.#mayPut(target, old)) {
      throw conflict(
        qualifiedName(resource),
        name,
        `Precondition failed: UID in precondition: ${textOf(uid)}, UID in object meta: ${old?.metadata.uid ?? ''}`,
      );
    }
    if (old === undefined) {
      if (!this.#mayPut(target, old)) throw notFound(qualifiedName(resource), name);
      const { resourceVersion: _version, ...metadata } = sent.metadata;
      return this.#create(write, { ...sent, metadata });
    }
    this.#checkVersion(resource, sent, old);
    const changed = this.#prepared(resource, changedObject(target, sent, old), old);
    const object =
      resource.isNewGeneration?.(changed, old) === true && !isStatus
        ? {
            ...changed,
            metadata: { ...changed.metadata, generation: (old.metadata.generation ?? 0) + 1 },
          }
        : changed;
    this.#admit({ operation: 'UPDATE', resource, isStatus, user, fieldManager, object, old });
    const isGone =
      old.metadata.deletionTimestamp !== undefined &&
      ((object.metadata['finalizers'] ?? []) as readonly string[]).length === 0 &&
      (old.metadata.finalizers ?? []).length > 0;
    if (isGone) {
      this.#erase(resource, old);
      return jsonResponse(200, object);
    }
    const { managedFields: _managed, ...known } = old.metadata;
    if (jsonEquals(object, { ...old, metadata: known })) return jsonResponse(200, old);
    return jsonResponse(200, this.#put(resource, this.#managed(target, fieldManager, object, old)));
  }

  /** Times have whole seconds. A manager keeps its entry as long as it exists. */
  #managed(
    { resource, isStatus }: Target,
    manager: string,
    object: SentObject,
    old: StoredObject | undefined,
  ): SentObject {
    if (resource.hasManagers !== true) return object;
    const subresource = isStatus ? 'status' : '';
    const known = ((old?.metadata['managedFields'] ?? []) as readonly Fields[]).filter(
      (entry) => entry['manager'] !== manager || (entry['subresource'] ?? '') !== subresource,
    );
    const entry = {
      manager,
      operation: 'Update',
      time: this.#now(),
      ...(isStatus && { subresource }),
    };
    return { ...object, metadata: { ...object.metadata, managedFields: [...known, entry] } };
  }

  #mayPut({ resource, isStatus }: Target, old: StoredObject | undefined): boolean {
    return old !== undefined || (resource.createsOnUpdate === true && !isStatus);
  }

  #checkVersion(resource: Resource, sent: SentObject, old: StoredObject): void {
    const version = sent.metadata['resourceVersion'] ?? '';
    if (version === old.metadata.resourceVersion) return;
    const { name } = old.metadata;
    if (version !== '') throw conflict(qualifiedName(resource), name, optimisticLock);
    if (resource.updatesUnconditionally === true) return;
    throw invalid(`${qualifiedName(resource)} ${JSON.stringify(name)}`, [
      'metadata.resourceVersion: Invalid value: 0: must be specified for an update',
    ]);
  }

  #delete({ target, user, body }: Write, name: string): KubeResponse {
    const { resource } = target;
    const old = this.#get(target, name);
    if (old === undefined) throw notFound(qualifiedName(resource), name);
    const { uid, resourceVersion } = fieldsOf(fieldsOf(body)['preconditions']);
    for (const [what, wanted, found] of [
      ['UID', uid, old.metadata.uid],
      ['ResourceVersion', resourceVersion, old.metadata.resourceVersion],
    ] as const) {
      if (wanted === undefined || wanted === found) continue;
      const why = `${what} in precondition: ${textOf(wanted)}, ${what} in object meta: ${found}`;
      throw conflict(qualifiedName(resource), name, `Precondition failed: ${why}`);
    }
    const whole = { isStatus: false, fieldManager: '', object: undefined };
    this.#admit({ operation: 'DELETE', resource, user, old, ...whole });
    const isNamespace = resource.plural === 'namespaces';
    if (!isNamespace && (old.metadata.finalizers ?? []).length === 0) {
      const deleted = this.#erase(resource, old);
      return jsonResponse(200, resource.returnsDeleted === true ? deleted : success(resource, old));
    }
    if (old.metadata.deletionTimestamp !== undefined) return jsonResponse(200, old);
    const { generation } = old.metadata;
    const marked = this.#put(resource, {
      ...old,
      metadata: {
        ...old.metadata,
        ...(generation !== undefined && { generation: generation + 1 }),
        deletionTimestamp: this.#now(),
        ...(!isNamespace && { deletionGracePeriodSeconds: 0 }),
      },
      ...(isNamespace && { status: { ...fieldsOf(old['status']), phase: 'Terminating' } }),
    });
    return jsonResponse(200, marked);
  }

  #prepared(resource: Resource, object: SentObject, old: StoredObject | undefined): SentObject {
    const prepared = resource.prepare?.(object, old, this.#allocator) ?? object;
    return defined({ ...prepared, metadata: cleanMetadata(prepared.metadata) }) as SentObject;
  }

  readonly #allocator: Allocator = {
    clusterIP: () => {
      const number = ++this.#addresses;
      return `10.96.${number >> 8}.${number & 255}`;
    },
    nodePort: () => 30_000 + (this.#nodePorts++ % 2768),
  };

  #checkNamespace({ resource, namespace }: Target, name: string): void {
    if (!resource.isNamespaced) return;
    const found = this.#etcd.get(
      `${keyPrefix({ ...resource, group: '', plural: 'namespaces' })}${namespace}`,
    );
    if (found === undefined) throw notFound('namespaces', namespace);
    if (found.metadata.deletionTimestamp === undefined) return;
    const { status, reason, message } = forbidden(
      qualifiedName(resource),
      name,
      `unable to create new content in namespace ${namespace} because it is being terminated`,
    );
    throw new KubeFailure(status, reason, message, {
      causes: [{ reason: 'NamespaceTerminating', field: 'metadata.namespace' }],
    });
  }

  #admit(request: AdmissionRequest): void {
    const refusal = this.#hooks.admit?.(request);
    if (refusal === undefined) return;
    const { resource, object, old } = request;
    const name = textOf(object?.metadata['name'] ?? old?.metadata.name);
    throw new KubeFailure(
      422,
      'Invalid',
      `${qualifiedName(resource)} "${name}" is forbidden: denied request: ${refusal}`,
    );
  }

  #put(resource: Resource, object: SentObject): StoredObject {
    const { name, namespace = '' } = object.metadata as { name: string; namespace?: string };
    return this.#etcd.write(keyOf(resource, namespace, name), (resourceVersion) => ({
      ...(object as StoredObject),
      metadata: { ...(object.metadata as StoredObject['metadata']), resourceVersion },
    })).new as StoredObject;
  }

  /** What it was, with the version of its deletion. */
  #erase(resource: Resource, object: StoredObject): StoredObject {
    const { name, namespace = '' } = object.metadata;
    const { revision } = this.#etcd.write(keyOf(resource, namespace, name), () => undefined);
    return { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
  }

  #uid(): string {
    return `00000000-0000-4000-8000-${String(++this.#objects).padStart(12, '0')}`;
  }

  #now(): string {
    return timestamp(this.#clock?.now() ?? 0);
  }
}

/** What an update makes of an object: the server keeps what is its own, and one half is about the status alone. */
function changedObject(
  { resource, isStatus }: Target,
  sent: SentObject,
  old: StoredObject,
): SentObject {
  const { uid, creationTimestamp, deletionTimestamp, resourceVersion, generation } = old.metadata;
  const metadata = defined({
    ...sent.metadata,
    uid,
    creationTimestamp,
    deletionTimestamp,
    deletionGracePeriodSeconds: old.metadata['deletionGracePeriodSeconds'],
    resourceVersion,
    generation,
  });
  if (!resource.hasStatus) return { ...sent, metadata };
  if (!isStatus) {
    const { status: _status, ...rest } = sent;
    return { ...rest, ...(old['status'] !== undefined && { status: old['status'] }), metadata };
  }
  const { status: _status, ...rest } = old;
  return {
    ...rest,
    ...(sent['status'] !== undefined && { status: sent['status'] }),
    metadata: resource.isCustom === true ? old.metadata : metadata,
  };
}

/** Empty maps and lists are not stored. */
function cleanMetadata(metadata: SentObject['metadata']): SentObject['metadata'] {
  const { managedFields: _managed, ...rest } = metadata;
  return Object.fromEntries(
    Object.entries(rest).filter(
      ([, value]) =>
        value !== undefined &&
        value !== null &&
        (typeof value !== 'object' || Object.keys(value).length > 0),
    ),
  );
}

function success({ group, plural }: Resource, { metadata: { name, uid } }: StoredObject): object {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Success',
    details: { name, ...(group !== '' && { group }), kind: plural, uid },
  };
}

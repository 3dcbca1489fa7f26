// What the in-memory API server must know of a kind: where it is served, and how kube-apiserver treats
// objects of it.

import { KubeFailure, notFound } from './kube-failure.ts';
import type { SentObject, StoredObject } from './stored-object.ts';

/** Gives out what a cluster has only once. */
export interface Allocator {
  clusterIP(): string;
  nodePort(): number;
}

export interface Resource {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly isNamespaced: boolean;
  readonly hasStatus: boolean;
  /** Custom resources have a generation, need a version in updates, and have a type in lists. */
  readonly isCustom?: boolean;
  /** Whether `managedFields` tells who wrote it when, without the fields. Others have none here. */
  readonly hasManagers?: boolean;
  /** A PUT creates what does not exist. */
  readonly createsOnUpdate?: boolean;
  /** An update without a version replaces whatever is there. */
  readonly updatesUnconditionally?: boolean;
  /** DELETE answers with the object instead of a Status. */
  readonly returnsDeleted?: boolean;
  /** Sets defaults, and throws a KubeFailure for what is not valid. `old` is what the object replaces. */
  readonly prepare?: (
    object: SentObject,
    old: StoredObject | undefined,
    allocator: Allocator,
  ) => SentObject;
  /** Whether a change increments `metadata.generation`. Kinds without it have no generation. */
  readonly isNewGeneration?: (object: SentObject, old: StoredObject) => boolean;
}

export const apiVersionOf = ({ group, version }: Resource): string =>
  group === '' ? version : `${group}/${version}`;

/** As in messages of kube-apiserver. */
export const qualifiedName = ({ group, plural }: Resource): string =>
  group === '' ? plural : `${plural}.${group}`;

/** Of a kind, for messages about invalid objects. */
export const qualifiedKind = ({ group, kind }: Resource): string =>
  group === '' ? kind : `${kind}.${group}`;

/** The prefix of keys. */
export const keyPrefix = ({ group, plural }: Resource, namespace = ''): string =>
  `/${group}/${plural}/${namespace === '' ? '' : `${namespace}/`}`;

export const keyOf = (resource: Resource, namespace: string, name: string): string =>
  `${keyPrefix(resource, namespace)}${name}`;

/** Where a request goes. */
export interface Target {
  readonly resource: Resource;
  /** Empty for cluster-scoped objects and for collections of all namespaces. */
  readonly namespace: string;
  /** Undefined for a collection. */
  readonly name: string | undefined;
  readonly isStatus: boolean;
}

/** Undefined for a path of a group that is not served. Throws a KubeFailure for others that are not. */
export function targetOf(path: string, resources: readonly Resource[]): Target | undefined {
  const [root, ...rest] = path.slice(1).split('/').map(decodeURIComponent);
  const [group, version, ...steps] = root === 'api' ? ['', ...rest] : rest;
  if (root !== 'api' && root !== 'apis') return undefined;
  // /namespaces/NAME and /namespaces/NAME/status are about the namespace itself.
  const isInside = steps[0] === 'namespaces' && steps.length > 2 && steps[2] !== 'status';
  const namespace = isInside ? (steps[1] as string) : '';
  const [plural, name, subresource, ...more] = isInside ? steps.slice(2) : steps;
  const resource = resources.find(
    (each) => each.group === group && each.version === version && each.plural === plural,
  );
  if (resource === undefined || more.length > 0) return unknownTarget(group, resources);
  if (subresource !== undefined && (subresource !== 'status' || !resource.hasStatus)) {
    throw notFound(qualifiedName(resource), name ?? '');
  }
  if (isInside && !resource.isNamespaced) return undefined;
  if (name !== undefined && resource.isNamespaced !== isInside) return undefined;
  return { resource, namespace, name, isStatus: subresource === 'status' };
}

/** A group of Kubernetes says in JSON that it has no such resource; other paths get a text. */
function unknownTarget(group: string | undefined, resources: readonly Resource[]): undefined {
  if (resources.some((each) => each.group === group && each.isCustom !== true)) {
    throw new KubeFailure(404, 'NotFound', 'the server could not find the requested resource');
  }
  return undefined;
}

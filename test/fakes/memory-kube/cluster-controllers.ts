// The controllers of kube-controller-manager that the plane meets: garbage collection of objects whose
// owners are gone, and the end of namespaces.

import type { Clock } from '../../../src/core/clock/clock.ts';
import type { MemoryKube } from './memory-kube.ts';
import { apiVersionOf, type Resource } from './resource.ts';
import type { StoredObject } from './stored-object.ts';

/** One pass over all objects. */
export function runControllers(cluster: MemoryKube): void {
  if (cluster.isDown) return;
  endNamespaces(cluster);
  collectGarbage(cluster);
}

export interface ControllerOptions {
  readonly cluster: MemoryKube;
  readonly clock: Clock;
  readonly everyMs: number;
  /** Runs each pass. */
  readonly act: (work: () => void) => void;
}

/** Runs them again and again, as long as time passes. */
export function startControllers({ cluster, clock, everyMs, act }: ControllerOptions): void {
  clock.timer(everyMs, () => {
    act(() => runControllers(cluster));
    startControllers({ cluster, clock, everyMs, act });
  });
}

function collectGarbage(cluster: MemoryKube): void {
  const all = cluster.resources.flatMap((resource) =>
    cluster.objects(resource.plural).map((object) => ({ resource, object })),
  );
  const alive = new Set(all.map(({ object }) => object.metadata.uid));
  for (const { resource, object } of all) {
    const { ownerReferences = [] } = object.metadata;
    if (ownerReferences.length > 0 && ownerReferences.every(({ uid }) => !alive.has(uid))) {
      remove(cluster, resource, object);
    }
  }
}

function endNamespaces(cluster: MemoryKube): void {
  for (const { metadata } of cluster.objects('namespaces')) {
    if (metadata.deletionTimestamp === undefined) continue;
    let isEmpty = true;
    for (const resource of cluster.resources.filter(({ isNamespaced }) => isNamespaced)) {
      for (const object of cluster.objects(resource.plural, metadata.name)) {
        remove(cluster, resource, object);
      }
      isEmpty &&= cluster.objects(resource.plural, metadata.name).length === 0;
    }
    if (isEmpty) cluster.put('namespaces', '', metadata.name, undefined);
  }
}

function remove(cluster: MemoryKube, resource: Resource, { metadata }: StoredObject): void {
  const root = resource.group === '' ? '/api' : '/apis';
  const inside = resource.isNamespaced ? `namespaces/${metadata.namespace}/` : '';
  cluster.handle({
    method: 'DELETE',
    path: `${root}/${apiVersionOf(resource)}/${inside}${resource.plural}/${metadata.name}`,
    query: {},
    body: { preconditions: { uid: metadata.uid } },
    contentType: 'application/json',
    user: 'system:kube-controller-manager',
  });
}

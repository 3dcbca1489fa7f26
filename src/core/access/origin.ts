// The origin of an object: the Kubernetes cluster that the site took it over from. A label says which one, and an
// annotation which object there. Pure.

import { group } from '../../api/object.ts';
import { isRecord } from '../json/is-record.ts';
import { forbiddenObject } from './denial.ts';
import type { Caller } from './identity.ts';

/** Label: the name of the Cluster. Annotation of the same name: the object in the cluster. */
export const clusterOriginKey = `clusters.${group}/origin`;

/** The object in the cluster, and when it was first seen. */
export interface OriginSource {
  readonly uid: string;
  /** The UID of its CRD. */
  readonly definition: string;
  /** A resourceVersion at which it existed. */
  readonly version: string;
}

export interface Origin {
  /** The name of the Cluster. */
  readonly cluster: string;
  /** Undefined where the object may be gone from the cluster without a deletion by a user. */
  readonly source: OriginSource | undefined;
}

interface OriginMetadata {
  readonly name?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Undefined for an object that did not come from a cluster. */
export function originOf({ labels, annotations }: OriginMetadata): Origin | undefined {
  const cluster = labels?.[clusterOriginKey];
  if (cluster === undefined || cluster === '') return undefined;
  return { cluster, source: parseSource(annotations?.[clusterOriginKey]) };
}

export function encodeSource({ uid, definition, version }: OriginSource): string {
  return JSON.stringify({ uid, definition, version });
}

/** Users can write anything into the annotation of an object that they create: with all rights, also this. */
function parseSource(text: string | undefined): OriginSource | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const { uid, definition, version } = value;
  return typeof uid === 'string' && typeof definition === 'string' && typeof version === 'string'
    ? { uid, definition, version }
    : undefined;
}

/**
 * Throws HANSA_FORBIDDEN where a caller sets an origin and may not. A cluster deletes objects of its origin, so
 * setting one would delete an object without the right to do so. Removing it is a change like all others.
 */
export function checkOrigin(
  isUnlimited: (caller: Caller) => boolean,
  caller: Caller,
  plural: string,
  next: { readonly metadata: OriginMetadata } | undefined,
  live: { readonly metadata: OriginMetadata } | undefined,
): void {
  if (next === undefined || caller.via === 'cluster' || caller.via === 'controller') return;
  const label = next.metadata.labels?.[clusterOriginKey];
  const annotation = next.metadata.annotations?.[clusterOriginKey];
  const isKept =
    (label === undefined || label === live?.metadata.labels?.[clusterOriginKey]) &&
    (annotation === undefined || annotation === live?.metadata.annotations?.[clusterOriginKey]);
  if (isKept || isUnlimited(caller)) return;
  throw forbiddenObject(
    plural,
    next.metadata.name,
    `User ${JSON.stringify(caller.user)} cannot set the label or annotation ${clusterOriginKey}: the site sets it on objects that come from a Kubernetes cluster. Remove it from the manifest`,
  );
}

// Cuts the metadata of an object of a cluster down to what the plane uses. Pure.

import { isRecord } from '../../core/json/is-record.ts';
import {
  copyAnnotation,
  epochAnnotation,
  importNameLabel,
  manager,
  managedByLabel,
  memberAnnotations,
  mirrorLabel,
  namesSinceAnnotation,
  originKey,
  serviceNameLabel,
  sinceAnnotation,
  sourceClusterLabel,
  vmAnnotation,
} from '../names.ts';
import type { ObjectMeta, OwnerReference } from '../objects.ts';
import { maxRecordLength } from '../services/tenures.ts';
import { compact, itemsIn, recordIn, textIn, timeIn } from './field-values.ts';

const labels: ReadonlySet<string> = new Set([
  managedByLabel,
  mirrorLabel,
  originKey,
  serviceNameLabel,
  sourceClusterLabel,
  importNameLabel,
]);
const annotations: ReadonlySet<string> = new Set([
  ...memberAnnotations.global,
  ...memberAnnotations.namespaced,
  copyAnnotation,
  originKey,
  vmAnnotation,
]);
/** They grow with the number of members. */
const records: ReadonlySet<string> = new Set([sinceAnnotation, namesSinceAnnotation]);
const maxOwners = 16;
/** The oldest Service decides about ports. One that hides its age must not. */
const youngest = '9999-12-31T23:59:59Z';

/** The plane adds names to its own objects, with a prefix that is a setting. */
const isName = (key: string): boolean => key.endsWith('/hostname') || key.endsWith('/target');

/** Name, namespace and version were checked by the reflector. */
export function metaIn(value: unknown): ObjectMeta {
  const from = recordIn(value);
  const isOurs = recordIn(from['annotations'])[epochAnnotation] !== undefined;
  const isUsed = (key: string): boolean =>
    annotations.has(key) || key.startsWith(`${manager}/`) || (isOurs && isName(key));
  return compact<ObjectMeta>({
    name: textIn(from['name']) ?? '',
    namespace: textIn(from['namespace']),
    uid: textIn(from['uid']),
    resourceVersion: textIn(from['resourceVersion']),
    creationTimestamp: timeIn(from['creationTimestamp']) ?? youngest,
    deletionTimestamp: textIn(from['deletionTimestamp'], 64),
    labels: picked(from['labels'], (key) => labels.has(key)),
    annotations: picked(from['annotations'], isUsed),
    ownerReferences: itemsIn(from['ownerReferences'], maxOwners, ownerIn),
  });
}

/** The texts under the keys that are used; undefined where there are none. */
export function picked(
  value: unknown,
  isUsed: (key: string) => boolean,
): Readonly<Record<string, string>> | undefined {
  if (!isRecord(value)) return undefined;
  let found: Record<string, string> | undefined;
  for (const key of Object.keys(value)) {
    const text = isUsed(key) ? textIn(value[key], lengthOf(key)) : undefined;
    if (text === undefined) continue;
    found ??= {};
    found[key] = text;
  }
  return found;
}

const lengthOf = (key: string): number | undefined =>
  records.has(key) ? maxRecordLength : undefined;

function ownerIn(value: unknown): OwnerReference | undefined {
  const from = recordIn(value);
  const [apiVersion, kind, name, uid] = ['apiVersion', 'kind', 'name', 'uid'].map((key) =>
    textIn(from[key]),
  );
  return apiVersion === undefined || kind === undefined || name === undefined || uid === undefined
    ? undefined
    : { apiVersion, kind, name, uid };
}

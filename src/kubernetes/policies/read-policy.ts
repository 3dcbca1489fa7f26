// Makes what reflectors cache out of policies that a cluster sends. A policy with the annotation keeps its content;
// of all others only the name matters. Never throws. Pure.

import type { KubeObject } from '../../core/kube/kube-client.ts';
import { costOf } from '../../core/kube/reflector/object-cost.ts';
import type { JsonRecord } from '../../core/json/is-record.ts';
import { compact, itemsIn, recordIn, textIn, timeIn } from '../members/field-values.ts';
import {
  deletingAnnotation,
  epochAnnotation,
  replicaAnnotation,
  versionAnnotation,
} from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import {
  contentOf,
  hashOfContent,
  isFederated,
  ofCluster,
  type PolicyContent,
} from './policy-content.ts';
import type { HeldObject } from './policy-state.ts';
import { parseStamp, textOfStamp } from './stamp.ts';

export interface CachedPolicy extends KubeObject {
  /** Of the annotations only the epoch. */
  readonly metadata: ObjectMeta;
  readonly held: Omit<HeldObject, 'isAnswer'>;
  /** Undefined without the annotation, and where it is too large. */
  readonly content: PolicyContent | undefined;
  /** Undefined without the annotation, and where it is too large to be kept in memory. */
  readonly rest: PolicyRest | undefined;
}

/** What stays when a site writes another content into the policy, and is not set by the API server. */
export interface PolicyRest {
  /** Owners, finalizers, and the labels and annotations that belong to the object in this cluster. */
  readonly metadata: JsonRecord & {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly status?: unknown;
}

/** The field manager of all writes of sites to policies. */
export const siteManager = 'hansa';

/** The API server keeps at most ten that update, and one for each tool that applies. */
const maxManagers = 200;

/** Of the rest of a policy. `policyLimits` has room for this. A manifest that kubectl applied can be longer. */
const maxRestBytes = 1024;

export function readPolicy(object: KubeObject): CachedPolicy {
  const { apiVersion, kind } = object;
  const metadata = recordIn(object.metadata);
  const annotations = recordIn(metadata['annotations']);
  const isOurs = isFederated(annotations);
  const content = isOurs ? contentOf(object as unknown as JsonRecord) : undefined;
  const hash = content && hashOfContent(content);
  const epoch = textIn(annotations[epochAnnotation]);
  const name = textIn(metadata['name']) ?? '';
  const uid = textIn(metadata['uid']) ?? '';
  const resourceVersion = textIn(metadata['resourceVersion']) ?? '';
  return {
    apiVersion,
    kind,
    metadata: compact<ObjectMeta>({
      name,
      namespace: textIn(metadata['namespace']),
      uid,
      resourceVersion,
      annotations: epoch === undefined ? undefined : { [epochAnnotation]: epoch },
    }),
    held: {
      uid,
      resourceVersion,
      isFederated: isOurs,
      hash,
      isReplica: textIn(annotations[replicaAnnotation]) !== undefined,
      written: writtenIn(annotations[versionAnnotation]),
      ...timesIn(metadata['managedFields']),
      createdMs: msIn(metadata['creationTimestamp']) ?? 0,
      isTerminating: typeof metadata['deletionTimestamp'] === 'string',
    },
    content: hash === undefined ? undefined : content,
    rest: isOurs ? smallRestOf(object as unknown as JsonRecord) : undefined,
  };
}

/** As `readPolicy`, with its rest in any case. */
export function readWhole(object: KubeObject): CachedPolicy & { readonly rest: PolicyRest } {
  return { ...readPolicy(object), rest: restOf(object as unknown as JsonRecord) };
}

function smallRestOf(object: JsonRecord): PolicyRest | undefined {
  const rest = restOf(object);
  return costOf(rest).bytes > maxRestBytes ? undefined : rest;
}

function restOf({ metadata, status }: JsonRecord): PolicyRest {
  const {
    name: _name,
    namespace: _namespace,
    uid: _uid,
    resourceVersion: _resourceVersion,
    generation: _generation,
    creationTimestamp: _creationTimestamp,
    managedFields: _managedFields,
    labels,
    annotations,
    ...others
  } = recordIn(metadata);
  // Each write of a site sets the version, and removes the mark of a deletion.
  const {
    [versionAnnotation]: _version,
    [deletingAnnotation]: _deleting,
    ...kept
  } = ofCluster(annotations);
  return {
    metadata: { ...others, labels: ofCluster(labels), annotations: kept },
    ...(status !== undefined && { status }),
  };
}

/** As in the annotation of a policy that a site wrote. */
export const textOfWritten = ({ stamp, versionHash }: NonNullable<HeldObject['written']>): string =>
  `${textOfStamp(stamp)}/${versionHash}`;

function writtenIn(value: unknown): HeldObject['written'] {
  const [stampText = '', versionHash = '', ...rest] = (textIn(value) ?? '').split('/');
  const stamp = parseStamp(stampText);
  const isWritten = stamp !== undefined && /^[0-9a-f]{64}$/.test(versionHash) && rest.length === 0;
  return isWritten ? { stamp, versionHash } : undefined;
}

/** A status says nothing about edits. */
function timesIn(managedFields: unknown): Pick<HeldObject, 'userMs' | 'siteMs'> {
  const entries = itemsIn(managedFields, maxManagers, (item) => {
    const { manager, subresource, time } = recordIn(item);
    const ms = msIn(time);
    const isOther = typeof subresource === 'string' && subresource !== '';
    return ms === undefined || isOther ? undefined : { isSite: manager === siteManager, ms };
  });
  const newest = (isSite: boolean): number | undefined => {
    const times = entries.filter((entry) => entry.isSite === isSite).map(({ ms }) => ms);
    return times.length === 0 ? undefined : Math.max(...times);
  };
  return { userMs: newest(false), siteMs: newest(true) };
}

function msIn(value: unknown): number | undefined {
  const text = timeIn(value);
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined;
}

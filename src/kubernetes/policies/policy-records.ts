// PolicyRecords as reflectors cache them, and as sites write them. A record that breaks the rules of the CRD, or has
// the name of another policy, counts for nothing. Pure.

import { clustersGroup } from '../../api/kinds/federation.ts';
import { policyRecordKind, syncRecordName } from '../../api/kinds/policy-record.ts';
import { version } from '../../api/object.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { compact, itemsIn, oneOf, recordIn, textIn } from '../members/field-values.ts';
import { conditionIn } from '../members/read-objects.ts';
import { deletingAnnotation, epochAnnotation } from '../names.ts';
import type { Condition, ObjectMeta } from '../objects.ts';
import { picked } from '../members/read-meta.ts';
import { type PolicyRef, recordNameOf } from './policy-ref.ts';
import type { HeldRecord } from './policy-state.ts';
import { stampFrom } from './stamp.ts';

export interface CachedRecord extends KubeObject {
  readonly metadata: ObjectMeta;
  /** As the cluster has it, with fields of the right type only. */
  readonly spec: RecordSpec;
  readonly status?: { readonly conditions?: readonly Condition[] };
  /** The policy that it is about. Undefined: it is about the cluster, or it is no record of a site. */
  readonly ref: PolicyRef | undefined;
  /** Undefined where it is none that a site writes. */
  readonly held: HeldRecord | undefined;
}

export interface RecordSpec {
  readonly policy?: {
    readonly group: string;
    readonly resource: string;
    readonly namespace?: string;
    readonly name: string;
  };
  readonly state?: HeldRecord['state'];
  readonly stamp?: NonNullable<HeldRecord['stamp']>;
  readonly versionHash?: string;
  readonly storedHash?: string;
  readonly objectUID?: string;
  readonly objectVersion?: string;
  readonly namespaceUID?: string;
  readonly crdUID?: string;
  readonly settledMs?: number;
  readonly syncedMs?: number;
}

export const recordsPath = `/apis/${clustersGroup}/${version}/${policyRecordKind.plural}`;
export const pathOfRecord = (name: string): string => `${recordsPath}${kubePath`/${name}`}`;

const states = ['Live', 'Deleted', 'Ended', 'Stale', 'Absent'] as const;
const maxConditions = 16;
const marks: ReadonlySet<string> = new Set([epochAnnotation, deletingAnnotation]);

export function readRecord(object: KubeObject): CachedRecord {
  const { apiVersion, kind, metadata, spec, status } = object as unknown as Readonly<
    Record<string, unknown>
  >;
  const meta = recordIn(metadata);
  const name = textIn(meta['name']) ?? '';
  const known = specIn(recordIn(spec));
  const ref = refIn(name, known);
  const conditions = itemsIn(recordIn(status)['conditions'], maxConditions, conditionIn);
  return {
    apiVersion: String(apiVersion),
    kind: String(kind),
    metadata: compact<ObjectMeta>({
      name,
      uid: textIn(meta['uid']),
      resourceVersion: textIn(meta['resourceVersion']),
      annotations: picked(meta['annotations'], (key) => marks.has(key)),
    }),
    spec: known,
    ...(conditions.length > 0 && { status: { conditions } }),
    ref,
    held: ref && heldIn(known),
  };
}

function specIn(from: Readonly<Record<string, unknown>>): RecordSpec {
  const policy = recordIn(from['policy']);
  const [group, resource, name] = ['group', 'resource', 'name'].map((key) => textIn(policy[key]));
  const isAboutPolicy = group !== undefined && resource !== undefined && name !== undefined;
  const [objectUID, objectVersion, namespaceUID, crdUID] = [
    'objectUID',
    'objectVersion',
    'namespaceUID',
    'crdUID',
  ].map((key) => textIn(from[key], 128));
  return compact<RecordSpec>({
    policy: isAboutPolicy
      ? compact<NonNullable<RecordSpec['policy']>>({
          group,
          resource,
          namespace: textIn(policy['namespace']),
          name,
        })
      : undefined,
    state: oneOf(from['state'], states),
    stamp: stampFrom(recordIn(from['stamp'])),
    versionHash: hashIn(from['versionHash']),
    storedHash: hashIn(from['storedHash']),
    objectUID,
    objectVersion,
    namespaceUID,
    crdUID,
    settledMs: momentIn(from['settledMs']),
    syncedMs: momentIn(from['syncedMs']),
  });
}

const hashIn = (value: unknown): string | undefined =>
  typeof value === 'string' && /^([0-9a-f]{64})?$/.test(value) ? value : undefined;

const momentIn = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

function refIn(name: string, { policy }: RecordSpec): PolicyRef | undefined {
  if (policy === undefined) return undefined;
  const { group, resource: plural, namespace = '', name: of } = policy;
  const ref = { group, plural, namespace, name: of };
  return recordNameOf(ref) === name ? ref : undefined;
}

/** Every state but `Absent` needs a stamp, and a version that is live needs a hash. */
function heldIn(spec: RecordSpec): HeldRecord | undefined {
  const { state, stamp, versionHash = '', storedHash = '', settledMs } = spec;
  const { objectUID = '', objectVersion = '', namespaceUID = '', crdUID = '' } = spec;
  if (state === undefined) return undefined;
  const isVersion = state === 'Live' || state === 'Stale';
  if (state !== 'Absent' && stamp === undefined) return undefined;
  if (isVersion && (versionHash === '' || storedHash === '')) return undefined;
  return {
    state,
    stamp: state === 'Absent' ? undefined : stamp,
    versionHash: isVersion ? versionHash : '',
    storedHash,
    objectUID,
    objectVersion,
    namespaceUID,
    crdUID,
    settledMs,
  };
}

export function recordObject(
  { group, plural: resource, namespace, name }: PolicyRef,
  held: HeldRecord,
): CachedRecord {
  const ref = { group, plural: resource, namespace, name };
  const { state, stamp, settledMs, ...texts } = held;
  return {
    ...bareRecord(recordNameOf(ref), {
      policy: { group, resource, ...(namespace !== '' && { namespace }), name },
      state,
      ...(stamp !== undefined && { stamp }),
      ...texts,
      ...(settledMs !== undefined && { settledMs }),
    }),
    ref,
    held,
  };
}

/** The record that says when the cluster was last in sync. */
export const syncRecord = (syncedMs: number): CachedRecord =>
  bareRecord(syncRecordName, { syncedMs });

function bareRecord(name: string, spec: RecordSpec): CachedRecord {
  return {
    apiVersion: `${clustersGroup}/${version}`,
    kind: policyRecordKind.kind,
    metadata: { name },
    spec,
    ref: undefined,
    held: undefined,
  };
}

/** As it is sent to the API server. */
export function sentRecord({ ref: _ref, held: _held, ...object }: CachedRecord): KubeObject & {
  readonly metadata: ObjectMeta;
} {
  return object;
}

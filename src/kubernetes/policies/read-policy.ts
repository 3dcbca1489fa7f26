// Makes what reflectors cache out of policies that a cluster sends. A policy with the annotation keeps its content;
// of all others only the name matters. Never throws. Pure.

import type { KubeObject } from '../../core/kube/kube-client.ts';
import type { JsonRecord } from '../../core/json/is-record.ts';
import { compact, itemsIn, recordIn, textIn, timeIn } from '../members/field-values.ts';
import { epochAnnotation, replicaAnnotation, versionAnnotation } from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import { contentOf, hashOfContent, isFederated, type PolicyContent } from './policy-content.ts';
import type { HeldObject } from './policy-state.ts';
import { parseStamp, textOfStamp } from './stamp.ts';

export interface CachedPolicy extends KubeObject {
  /** Of the annotations only the epoch. */
  readonly metadata: ObjectMeta;
  readonly held: Omit<HeldObject, 'isAnswer'>;
  /** Undefined without the annotation, and where it is too large. */
  readonly content: PolicyContent | undefined;
}

/** The field manager of all writes of sites to policies. */
export const siteManager = 'hansa';

/** The API server keeps at most ten that update, and one for each tool that applies. */
const maxManagers = 200;

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

// Cuts an object of a marked cluster down to what the sync uses. Never throws, whatever a cluster sends. Pure.

import type { JsonObject } from '../../api/object.ts';
import { isRecord } from '../../core/json/is-record.ts';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { recordIn, textIn } from '../members/field-values.ts';

export interface ClusterObject extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    /** 0 where the cluster sent none. */
    readonly generation: number;
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly spec: JsonObject | undefined;
  /** As it is in the cluster. */
  readonly status: JsonObject;
  /** Of labels and spec, as JSON. */
  readonly bytes: number;
}

/** The reflector checked name and version. */
export function readClusterObject(object: KubeObject): ClusterObject {
  const { apiVersion, kind, metadata, spec, status } = object as unknown as Readonly<
    Record<string, unknown>
  >;
  const from = recordIn(metadata);
  const { generation } = from;
  const labels = textsIn(from['labels']);
  const wanted = isRecord(spec) ? (spec as JsonObject) : undefined;
  return {
    apiVersion: String(apiVersion),
    kind: String(kind),
    metadata: {
      name: textIn(from['name']) ?? '',
      uid: textIn(from['uid']) ?? '',
      resourceVersion: textIn(from['resourceVersion']) ?? '',
      generation: Number.isSafeInteger(generation) ? Math.max(0, generation as number) : 0,
      labels,
    },
    spec: wanted,
    status: isRecord(status) ? (status as JsonObject) : {},
    bytes: Buffer.byteLength(JSON.stringify([labels, wanted])),
  };
}

function textsIn(value: unknown): Readonly<Record<string, string>> {
  const texts = Object.entries(recordIn(value)).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  return Object.fromEntries(texts);
}

// Builds the Role and RoleBinding objects that Hansa itself writes, in the same form as those of
// users.

import { apiVersion, type JsonObject, timestamp } from '../../api/object.ts';
import type { Put } from '../store/store.ts';

export interface NewObject {
  readonly kind: 'Role' | 'RoleBinding';
  readonly collection: string;
  readonly name: string;
  readonly uid: string;
  readonly createdAtMs: number;
  readonly generation?: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec: JsonObject;
}

export function putObject(object: NewObject): Put {
  return {
    collection: object.collection,
    name: object.name,
    encode: (revision) =>
      Buffer.from(
        JSON.stringify({
          apiVersion,
          kind: object.kind,
          metadata: {
            name: object.name,
            uid: object.uid,
            resourceVersion: String(revision),
            generation: object.generation ?? 1,
            creationTimestamp: timestamp(object.createdAtMs),
            labels: object.labels,
            ...(object.annotations === undefined ? {} : { annotations: object.annotations }),
          },
          spec: object.spec,
        }),
        'utf8',
      ),
  };
}

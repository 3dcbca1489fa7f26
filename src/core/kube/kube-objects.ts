// The shape of objects in responses of an API server.

import { isRecord } from '../json/is-record.ts';

/** A TokenReview and the like have no name. */
export function isKubeObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return (
    isRecord(value) &&
    typeof value['apiVersion'] === 'string' &&
    typeof value['kind'] === 'string' &&
    isRecord(value['metadata'])
  );
}

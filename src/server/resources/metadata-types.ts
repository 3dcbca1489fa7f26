// Metadata must have the types of ObjectMeta before anything else looks at it.

import type { Json } from '../../api/object.ts';
import type { HansaError } from '../../core/errors/error.ts';
import { jsonTypeOf } from './json-type.ts';

type FieldType = 'string' | 'integer' | 'map' | 'strings' | 'objects';

const types: Readonly<Record<string, FieldType>> = {
  name: 'string',
  generateName: 'string',
  namespace: 'string',
  selfLink: 'string',
  uid: 'string',
  resourceVersion: 'string',
  generation: 'integer',
  creationTimestamp: 'string',
  deletionTimestamp: 'string',
  deletionGracePeriodSeconds: 'integer',
  labels: 'map',
  annotations: 'map',
  finalizers: 'strings',
  ownerReferences: 'objects',
  managedFields: 'objects',
};

const goTypes: Readonly<Record<FieldType, string>> = {
  string: 'string',
  integer: 'int64',
  map: 'map[string]string',
  strings: '[]string',
  objects: '[]struct',
};

/** Throws what `refuse` makes of Go's words for the first field of a wrong type. Null counts as absent. */
export function checkMetadataTypes(metadata: Json, refuse: (why: string) => HansaError): void {
  if (!isObject(metadata)) {
    throw refuse(
      `json: cannot unmarshal ${jsonTypeOf(metadata)} into Go value of type v1.ObjectMeta`,
    );
  }
  for (const [field, value] of Object.entries(metadata)) {
    const type = Object.hasOwn(types, field) ? types[field] : undefined;
    if (type === undefined || value === null) continue;
    const wrong = wrongPart(type, value);
    if (wrong !== undefined) {
      throw refuse(
        `json: cannot unmarshal ${jsonTypeOf(wrong.value)} into Go struct field ObjectMeta.${field} of type ${wrong.goType}`,
      );
    }
  }
}

function wrongPart(type: FieldType, value: Json): { value: Json; goType: string } | undefined {
  const whole = { value, goType: goTypes[type] };
  switch (type) {
    case 'string':
      return typeof value === 'string' ? undefined : whole;
    case 'integer':
      return Number.isInteger(value) ? undefined : whole;
    case 'map':
      return isObject(value) ? wrongItem(Object.values(value), 'string') : whole;
    case 'strings':
      return Array.isArray(value) ? wrongItem(value as readonly Json[], 'string') : whole;
    case 'objects': {
      if (!Array.isArray(value)) return whole;
      const item = (value as readonly Json[]).find((each) => !isObject(each));
      return item === undefined ? undefined : { value: item, goType: 'struct' };
    }
  }
}

function wrongItem(
  items: readonly Json[],
  goType: string,
): { value: Json; goType: string } | undefined {
  const item = items.find((each) => typeof each !== 'string');
  return item === undefined ? undefined : { value: item, goType };
}

function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

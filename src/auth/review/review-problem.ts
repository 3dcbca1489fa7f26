// Finds the first value of a wrong type in the JSON of a TokenReview, in the words of Go's JSON decoder.
// That decoder reads members in their order, stops at an invalid time, and reports the first of the other
// problems at the end.

import { goKind } from '../../api/schema/go-text.ts';
import { isInt64 } from '../../api/schema/json.ts';
import { parseTimestamp, timestampProblem } from '../../api/values/date-time.ts';
import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';
import type { ReviewVersion } from './read-review.ts';

type GoType =
  | { readonly kind: 'string' | 'boolean' | 'number' | 'time'; readonly goType: string }
  | { readonly kind: 'any' }
  | { readonly kind: 'list' | 'map'; readonly goType: string; readonly item: GoType }
  | Struct;

interface Struct {
  readonly kind: 'struct';
  readonly goType: string;
  /** Without its package: how errors name it. */
  readonly name: string;
  readonly members: Readonly<Record<string, GoType>>;
}

const text: GoType = { kind: 'string', goType: 'string' };
const uid: GoType = { kind: 'string', goType: 'types.UID' };
const bool: GoType = { kind: 'boolean', goType: 'bool' };
const int64: GoType = { kind: 'number', goType: 'int64' };
const time: GoType = { kind: 'time', goType: 'string' };
const texts: GoType = { kind: 'list', goType: '[]string', item: text };
const textMap: GoType = { kind: 'map', goType: 'map[string]string', item: text };

function struct(version: string, name: string, members: Struct['members']): Struct {
  return { kind: 'struct', goType: `${version}.${name}`, name, members };
}

function structs(item: Struct): GoType {
  return { kind: 'list', goType: `[]${item.goType}`, item };
}

/** k8s.io/apimachinery/pkg/apis/meta/v1. */
const objectMeta = struct('v1', 'ObjectMeta', {
  name: text,
  generateName: text,
  namespace: text,
  selfLink: text,
  uid,
  resourceVersion: text,
  generation: int64,
  creationTimestamp: time,
  deletionTimestamp: time,
  deletionGracePeriodSeconds: int64,
  labels: textMap,
  annotations: textMap,
  ownerReferences: structs(
    struct('v1', 'OwnerReference', {
      apiVersion: text,
      kind: text,
      name: text,
      uid,
      controller: bool,
      blockOwnerDeletion: bool,
    }),
  ),
  finalizers: texts,
  managedFields: structs(
    struct('v1', 'ManagedFieldsEntry', {
      manager: text,
      operation: { kind: 'string', goType: 'v1.ManagedFieldsOperationType' },
      apiVersion: text,
      time,
      fieldsType: text,
      fieldsV1: { kind: 'any' },
      subresource: text,
    }),
  ),
});

/** k8s.io/api/authentication, whose two versions have the same fields. */
function tokenReview(version: ReviewVersion): Struct {
  return struct(version, 'TokenReview', {
    metadata: objectMeta,
    spec: struct(version, 'TokenReviewSpec', { token: text, audiences: texts }),
    status: struct(version, 'TokenReviewStatus', {
      authenticated: bool,
      user: struct(version, 'UserInfo', {
        username: text,
        uid: text,
        groups: texts,
        extra: {
          kind: 'map',
          goType: `map[string]${version}.ExtraValue`,
          item: { kind: 'list', goType: `${version}.ExtraValue`, item: text },
        },
      }),
      audiences: texts,
      error: text,
    }),
  });
}

const tokenReviews = { v1: tokenReview('v1'), v1beta1: tokenReview('v1beta1') } as const;

/** A problem at which Go's decoder stops. */
class FatalProblem extends Error {}

/** `version` is that of the body. Undefined if all values have the right types. */
export function reviewProblem(review: JsonRecord, version: ReviewVersion): string | undefined {
  const problems: string[] = [];
  try {
    checkStruct(review, tokenReviews[version], '', problems);
  } catch (error) {
    if (error instanceof FatalProblem) return error.message;
    throw error;
  }
  return problems[0];
}

function checkStruct(
  value: JsonRecord,
  { name, members }: Struct,
  path: string,
  problems: string[],
): void {
  for (const [key, member] of Object.entries(value)) {
    const type = Object.hasOwn(members, key) ? members[key] : undefined;
    if (type !== undefined) check(member, type, name, `${path}.${key}`, problems);
  }
}

/** `path` starts with a dot: the fields that lead to the value. `struct` is the innermost one around it. */
function check(
  value: unknown,
  type: GoType,
  inStruct: string,
  path: string,
  problems: string[],
): void {
  if (value === null || type.kind === 'any') return;
  const mismatch = (kind = goKind(value)): string =>
    `json: cannot unmarshal ${kind} into Go struct field ${inStruct}${path} of type ${type.goType}`;
  switch (type.kind) {
    case 'time':
      if (typeof value !== 'string') throw new FatalProblem(mismatch());
      if (parseTimestamp(value) === undefined) throw new FatalProblem(timestampProblem(value));
      return;
    case 'number':
      if (typeof value === 'number' && isInt64(value)) return;
      problems.push(mismatch(typeof value === 'number' ? `number ${value}` : undefined));
      return;
    case 'list':
      if (!Array.isArray(value)) problems.push(mismatch());
      else for (const item of value) check(item, type.item, inStruct, path, problems);
      return;
    case 'map':
      if (!isRecord(value)) problems.push(mismatch());
      else
        for (const item of Object.values(value)) check(item, type.item, inStruct, path, problems);
      return;
    case 'struct':
      if (isRecord(value)) checkStruct(value, type, path, problems);
      else problems.push(mismatch());
      return;
    default:
      if (typeof value !== type.kind) problems.push(mismatch());
  }
}

// Checks fields that the right to write an object does not cover. To change such a field, the caller
// needs a further right, which the declaration of the kind names.

import { isDeepStrictEqual } from 'node:util';
import type { GuardedField } from '../../api/kind.ts';
import type { Attributes, Authorizer } from './authorizer.ts';
import { forbiddenObject } from './denial.ts';
import type { Caller } from './identity.ts';

export interface GuardedKind {
  readonly plural: string;
  readonly guardedFields?: readonly GuardedField[];
}

interface GuardedObject {
  readonly metadata: { readonly name?: string };
}

/** Throws HANSA_FORBIDDEN where `next` changes a field that the caller may not change. A deletion changes none. */
export function checkGuardedFields(
  authorizer: Pick<Authorizer, 'authorize'>,
  caller: Caller,
  kind: GuardedKind,
  next: GuardedObject | undefined,
  live: GuardedObject | undefined,
  /** Fields that are guarded because of other objects. */
  further: readonly GuardedField[] = [],
): void {
  if (next === undefined || caller.via === 'controller') return;
  const { plural, guardedFields = [] } = kind;
  const { name = '' } = next.metadata;
  for (const guarded of [...guardedFields, ...further]) {
    const { field, onlyFor } = guarded;
    if (onlyFor !== undefined && !hasItem(next, onlyFor) && !hasItem(live, onlyFor)) continue;
    if (isDeepStrictEqual(valueAt(next, field), valueAt(live, field))) continue;
    const rights = rightsFor(guarded, plural, name);
    if (rights.every((right) => authorizer.authorize(caller, right).allowed)) continue;
    const because = guarded.because === undefined ? '' : ` because ${guarded.because}`;
    throw forbiddenObject(
      plural,
      name,
      `User ${JSON.stringify(caller.user)} cannot change ${field}${because}: that needs the role admin, or a rule with ${describe(guarded, plural)}`,
    );
  }
}

/** All of them are needed. */
function rightsFor(guarded: GuardedField, plural: string, name: string): readonly Attributes[] {
  if ('subresource' in guarded) {
    return [{ verb: 'update', plural, name, subresource: guarded.subresource }];
  }
  // Without a name: a rule that names single objects is not enough.
  return ['create', 'update'].map((verb) => ({ verb, plural: guarded.writes }));
}

function describe(guarded: GuardedField, plural: string): string {
  return 'subresource' in guarded
    ? `the verb update on ${plural}/${guarded.subresource}`
    : `the verbs create and update on all ${guarded.writes}`;
}

/** Keys that have dots of their own stand in brackets. */
const pathSegment = /\[([^\]]+)\]|([^.[]+)/g;

function valueAt(object: unknown, field: string): unknown {
  let value = object;
  for (const [, bracketed, plain = ''] of field.matchAll(pathSegment)) {
    value = (value as Record<string, unknown> | undefined)?.[bracketed ?? plain];
  }
  return isEmptyMap(value) ? undefined : value;
}

function hasItem(object: unknown, { field, item }: { field: string; item: string }): boolean {
  const list = valueAt(object, field);
  return Array.isArray(list) && list.includes(item);
}

/** No labels and an empty set of labels are the same. */
function isEmptyMap(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

// Checks fields that the right to write an object does not cover. To change such a field, the caller
// needs a further right, which the declaration of the kind names.

import { isDeepStrictEqual } from 'node:util';
import type { GuardedField } from '../../api/kind.ts';
import type { Authorizer } from './authorizer.ts';
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
): void {
  if (kind.guardedFields === undefined || next === undefined || caller.via === 'controller') return;
  const { plural } = kind;
  const { name = '' } = next.metadata;
  for (const { field, subresource } of kind.guardedFields) {
    if (isDeepStrictEqual(valueAt(next, field), valueAt(live, field))) continue;
    const right = { verb: 'update', plural, name, subresource };
    if (authorizer.authorize(caller, right).allowed) continue;
    throw forbiddenObject(
      plural,
      name,
      `User ${JSON.stringify(caller.user)} cannot change ${field}: that needs the role admin, or a rule with the verb update on ${plural}/${subresource}`,
    );
  }
}

/** Keys that have dots of their own stand in brackets. */
const pathSegment = /\[([^\]]+)\]|([^.[]+)/g;

function valueAt(object: unknown, field: string): unknown {
  let value = object;
  for (const [, bracketed, plain = ''] of field.matchAll(pathSegment)) {
    value = (value as Record<string, unknown> | undefined)?.[bracketed ?? plain];
  }
  return value;
}

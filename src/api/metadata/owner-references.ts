// Validates owner references, with the error messages of kube-apiserver.

import type { OwnerReference } from '../object.ts';
import { type FieldError, invalid, mostErrors } from '../schema/field-error.ts';
import { escapeJson } from '../schema/go-text.ts';
import { isObject } from '../schema/json.ts';

type Untyped = Readonly<Record<string, unknown>>;

export interface DistinctOwners {
  readonly object: Untyped;
  /** What kube-apiserver says in a Warning header where it dropped any. */
  readonly warning?: string;
}

/** Drops owner references that are there twice, as a server does before it validates. */
export function dropDuplicateOwners(object: Untyped): DistinctOwners {
  const metadata: unknown = object['metadata'];
  if (!isObject(metadata) || !Array.isArray(metadata['ownerReferences'])) return { object };
  const references = metadata['ownerReferences'] as readonly OwnerReference[];
  const distinct: OwnerReference[] = [];
  const duplicates: string[] = [];
  const seen = new Set<string>();
  for (const reference of references) {
    const key = printOwner(reference);
    if (seen.has(key)) duplicates.push(reference.uid);
    else distinct.push(reference);
    seen.add(key);
  }
  if (duplicates.length === 0) return { object };
  return {
    object: { ...object, metadata: { ...metadata, ownerReferences: distinct } },
    warning: `.metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ${duplicates.join(', ')}`,
  };
}

/** Each of these errors prints all owners: more of them would be far longer than what was sent. */
const mostControllerErrors = 8;

export function checkOwners(
  owners: readonly OwnerReference[] | undefined,
  errors: FieldError[],
): void {
  const path = 'metadata.ownerReferences';
  let controller = '';
  let refused = 0;
  for (const owner of owners ?? []) {
    if (errors.length >= mostErrors) return;
    // Go's ParseGroupVersion: "v1" or "group/v1"; with more slashes there is no version at all.
    const parts = owner.apiVersion.split('/');
    const version = parts.length > 2 ? '' : parts.at(-1);
    if (version === '') {
      errors.push(invalid(`${path}.apiVersion`, owner.apiVersion, 'version must not be empty'));
    }
    if (owner.kind === '') errors.push(invalid(`${path}.kind`, owner.kind, 'must not be empty'));
    if (owner.name === '') errors.push(invalid(`${path}.name`, owner.name, 'must not be empty'));
    if (owner.uid === '') errors.push(invalid(`${path}.uid`, owner.uid, 'must not be empty'));
    if (owner.apiVersion === 'v1' && owner.kind === 'Event') {
      const detail = '/v1, Kind=Event is disallowed from being an owner';
      errors.push(invalidOwners(printOwner(owner), detail));
    }
    if (owner.controller !== true) continue;
    const name = `${owner.kind}/${owner.name}`;
    if (controller === '') controller = name;
    else if (refused < mostControllerErrors) {
      refused += 1;
      const detail = `Only one reference can have Controller set to true. Found "true" in references for ${controller} and ${name}`;
      errors.push(invalidOwners(`[${(owners ?? []).map(printOwner).join(',')}]`, detail));
    }
  }
}

function invalidOwners(printed: string, detail: string): FieldError {
  const message = `Invalid value: ${printed}: ${detail}`;
  return { type: 'FieldValueInvalid', field: 'metadata.ownerReferences', message };
}

/** Go prints a struct's fields in the order of their declaration. */
function printOwner(owner: OwnerReference): string {
  const { apiVersion, kind, name, uid, controller, blockOwnerDeletion } = owner;
  const ordered = { apiVersion, kind, name, uid, controller, blockOwnerDeletion };
  return escapeJson(JSON.stringify(ordered));
}

// Field ownership as kube-apiserver keeps it: which manager owns which field of a resource, what a
// server-side apply changes, and with which managers it conflicts. This folder is pure: objects in,
// objects out; no clock, no store, no HTTP. No function changes its inputs. Results share unchanged
// parts with the inputs.
//
//   path-element, field-set, fields-v1        sets of field paths, and their wire format
//   shape, to-field-set, compare, merge,      values of a schema: their fields, differences,
//   remove-items, typed-check, schema-change  merges, cuts and checks
//   updater                                   what a write does to the sets of all managers
//   managed-fields, cap-updaters, conflict,   managedFields, error texts and manager names
//   last-applied, writer-name
//   ownership                                 the two entry points that the server calls
//
// The semantics are those of kube-apiserver 1.36 for custom resources of one version
// (sigs.k8s.io/structured-merge-diff v6, k8s.io/apimachinery/pkg/util/managedfields).

import { HansaError } from '../../core/errors/error.ts';
import { coerceMetadata } from '../metadata/metadata.ts';
import type { Json, JsonObject } from '../object.ts';
import { jsonEquals } from '../schema/json.ts';
import type { ObjectSchema } from '../schema/schema.ts';
import { capUpdaters } from './cap-updaters.ts';
import { conflictError } from './conflict.ts';
import {
  type FieldSet,
  difference,
  emptySet,
  fieldSetOf,
  has,
  isEmpty,
  listPaths,
  union,
} from './field-set.ts';
import {
  isJsonArray,
  isJsonObject,
  isWithinDepth,
  maxJsonDepth,
  ownValue,
  withoutKey,
} from './json-value.ts';
import { fieldsOfLastApplied, withLastApplied } from './last-applied.ts';
import {
  type Managed,
  ManagedFieldsError,
  type Operation,
  decodeManagedFields,
  encodeManagedFields,
  identify,
  noManagers,
} from './managed-fields.ts';
import { fieldElement } from './path-element.ts';
import { SchemaMismatch } from './shape.ts';
import { checkTyped } from './typed-check.ts';
import { type Applied, ConflictError, applyConfiguration, updateManagers } from './updater.ts';

export interface OwnershipInput {
  /** Of the whole object: apiVersion, kind, metadata, spec and, where the kind has one, status. */
  readonly schema: ObjectSchema;
  readonly apiVersion: string;
  readonly kind: string;
  /** As it is stored; undefined where the request creates the object. */
  readonly live: JsonObject | undefined;
  /** The name from `fieldManager`, or by `managerFromUserAgent`. */
  readonly manager: string;
  /** RFC 3339 in UTC with whole seconds: `2026-01-01T00:00:00Z`. */
  readonly timeIso: string;
  readonly subresource?: 'status';
}

export interface UpdateInput extends OwnershipInput {
  /**
   * The object as the client wants it: decoded, pruned and defaulted, but before the server puts
   * its own metadata (uid, creationTimestamp, generation …) back, and before what the endpoint may
   * not write (status, or all but status) is restored. On create, system metadata is taken off.
   */
  readonly next: JsonObject;
}

export interface ApplyInput extends OwnershipInput {
  /** The applied configuration as it was sent: neither pruned nor defaulted. */
  readonly applied: JsonObject;
  readonly force: boolean;
}

/** The manager of fields that an object without managedFields had before the first apply. */
const beforeFirstApply = 'before-first-apply';
/** Stands for the writer while its changes are computed, so that they show apart from its earlier ones. */
const currentOperation = 'current-operation';

/** Fields that belong to the server or identify the object. They have no manager. */
const neverOwned: FieldSet = fieldSetOf(
  [fieldElement('apiVersion')],
  [fieldElement('kind')],
  [fieldElement('metadata')],
  ...[
    'name',
    'namespace',
    'creationTimestamp',
    'selfLink',
    'uid',
    'clusterName',
    'generation',
    'managedFields',
    'resourceVersion',
  ].map((name) => [fieldElement('metadata'), fieldElement(name)]),
);

const statusField = fieldSetOf([fieldElement('status')]);
const allButStatus = fieldSetOf([fieldElement('metadata')], [fieldElement('spec')]);

/** What the endpoint resets, whatever the client sends: such changes are not the client's. */
function resetFields(input: OwnershipInput): FieldSet {
  if (input.subresource === 'status') return allButStatus;
  return Object.hasOwn(input.schema.fields, 'status') ? statusField : emptySet;
}

/**
 * Create, update and patch: the object with `metadata.managedFields` as kube-apiserver would write
 * them. It fails on nothing but excessive depth: where ownership cannot be computed, because the
 * object does not fit its schema, it comes back without managedFields, and validation refuses it.
 */
export function recordUpdate(input: UpdateInput): JsonObject {
  refuseTooDeep(input.next);
  const next = withManagedFields(input.next, undefined);
  const managed = managedOfUpdate(input);
  // An object without managedFields gets none before the first apply.
  if (managed.sets.size === 0 && input.live !== undefined) return next;
  try {
    const updated = recordChange(
      input,
      input.live ?? emptyObject(input),
      next,
      managed,
      input.manager,
    );
    return withManagedFields(next, capUpdaters(updated));
  } catch (failure) {
    if (failure instanceof SchemaMismatch || failure instanceof ForeignVersion) return next;
    throw failure;
  }
}

/**
 * Server-side apply: the merged object with its managedFields. It may lack defaults, and the caller
 * prunes, defaults and validates it as it does with a decoded request.
 *
 * Throws HANSA_CONFLICT with a cause for each field that another manager owns, unless `force`;
 * HANSA_BAD_REQUEST for another kind or version, or where managedFields are sent along; and
 * HANSA_APPLY_MISMATCH where the configuration does not fit the schema.
 */
export function serverSideApply(input: ApplyInput): JsonObject {
  const { schema, applied, apiVersion, kind } = input;
  refuseTooDeep(applied);
  if (applied['apiVersion'] !== apiVersion || applied['kind'] !== kind) {
    throw new HansaError('HANSA_BAD_REQUEST', `invalid object type: ${printKind(applied)}`);
  }
  const live = input.live ?? emptyObject(input);
  let managed = decodeManagedFields(managedFieldsOf(live));
  refuseForeignVersions(managed, apiVersion);
  let current = live;
  if (managed.sets.size === 0) {
    current = withManagedFields(live, undefined);
    managed = capUpdaters(
      recordChange(input, emptyObject(input), current, managed, beforeFirstApply),
    );
  }
  if (isJsonArray(managedFieldsOf(applied)) && isReadable(managedFieldsOf(applied))) {
    throw new HansaError('HANSA_BAD_REQUEST', 'metadata.managedFields must be nil');
  }
  checkConfiguration(schema, applied);

  const identifier = identify(managed, identityOf(input, input.manager, 'Apply'));
  const result = applyOrMigrate(input, current, managed, identifier);
  strip(result.managers, identifier);
  if (result.object !== undefined) managed.times.set(identifier, input.timeIso);
  let object = result.object === undefined ? current : (result.object as JsonObject);
  if (input.manager === 'kubectl') object = withLastApplied(object, applied);
  return withManagedFields(object, { ...managed, sets: result.managers });
}

/** kube-apiserver takes managedFields that it cannot read for none. */
function isReadable(managedFields: Json | undefined): boolean {
  try {
    coerceMetadata({ managedFields });
    return true;
  } catch {
    return false;
  }
}

/**
 * Where a write changed nothing but times in managedFields, the old times stay: then nothing at all
 * changed, and nothing need be stored. To be asked once the server's own metadata is in place.
 */
export function keepTimesIfUnchanged(live: JsonObject, next: JsonObject): JsonObject {
  const before = managedFieldsOf(live);
  const after = managedFieldsOf(next);
  if (!isJsonArray(before) || !isJsonArray(after)) return next;
  if (before.length !== after.length || after.length === 0) return next;
  if (!jsonEquals(before.map(withoutTime), after.map(withoutTime))) return next;
  if (!jsonEquals(withManagedFields(live, undefined), withManagedFields(next, undefined)))
    return next;
  return { ...next, metadata: { ...(next['metadata'] as JsonObject), managedFields: before } };
}

function withoutTime(entry: Json): Json {
  return isJsonObject(entry) ? withoutKey(entry, 'time') : entry;
}

/** Free-form fields may nest without end, and everything here walks values recursively. */
function refuseTooDeep(object: JsonObject): void {
  if (isWithinDepth(object, maxJsonDepth)) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `Cannot accept the object: it nests more than ${maxJsonDepth} levels deep. Send flatter values.`,
  );
}

/** A manager of another version: there is no other version that the object could be converted to. */
class ForeignVersion extends Error {}

function emptyObject(input: OwnershipInput): JsonObject {
  return { apiVersion: input.apiVersion, kind: input.kind };
}

function managedFieldsOf(object: JsonObject): Json | undefined {
  const metadata = ownValue(object, 'metadata');
  return isJsonObject(metadata) ? ownValue(metadata, 'managedFields') : undefined;
}

function withManagedFields(object: JsonObject, managed: Managed | undefined): JsonObject {
  const metadata = ownValue(object, 'metadata');
  const plain = isJsonObject(metadata) ? withoutKey(metadata, 'managedFields') : metadata;
  if (managed === undefined || managed.sets.size === 0) {
    return plain === metadata ? object : { ...object, metadata: plain as Json };
  }
  const managedFields = encodeManagedFields(managed) as unknown as Json;
  return { ...object, metadata: { ...(plain as JsonObject | undefined), managedFields } };
}

/** What the request says about managers, if it may and does; else what the live object says. */
function managedOfUpdate(input: UpdateInput): Managed {
  const live = input.live === undefined ? undefined : managedFieldsOf(input.live);
  if (input.subresource !== undefined) return decodeOrNone(live);
  const sent = managedFieldsOf(input.next);
  if (isReset(sent)) return noManagers();
  try {
    const managed = decodeManagedFields(sent);
    if (managed.sets.size > 0) return managed;
  } catch (malformed) {
    if (!(malformed instanceof ManagedFieldsError)) throw malformed;
  }
  return decodeOrNone(live);
}

function decodeOrNone(entries: Json | undefined): Managed {
  try {
    return decodeManagedFields(entries);
  } catch (malformed) {
    if (malformed instanceof ManagedFieldsError) return noManagers();
    throw malformed;
  }
}

/** `[{}]` asks to forget all managers. An empty list says nothing: it is lost in decoding. */
function isReset(entries: Json | undefined): boolean {
  if (!isJsonArray(entries) || entries.length !== 1) return false;
  const [entry] = entries;
  return isJsonObject(entry) && Object.keys(entry).length === 0;
}

function identityOf(input: OwnershipInput, manager: string, operation: Operation) {
  return {
    manager: manager === '' ? 'unknown' : manager,
    operation,
    apiVersion: input.apiVersion,
    subresource: input.subresource ?? '',
  };
}

function recordChange(
  input: OwnershipInput,
  before: JsonObject,
  after: JsonObject,
  managed: Managed,
  manager: string,
): Managed {
  refuseForeignVersions(managed, input.apiVersion);
  const ignored = resetFields(input);
  const sets = updateManagers(input.schema, before, after, managed.sets, currentOperation, ignored);
  strip(sets, currentOperation);
  const changed = sets.get(currentOperation);
  const result = { ...managed, sets };
  if (changed === undefined) return result;
  sets.delete(currentOperation);
  const identifier = identify(result, identityOf(input, manager, 'Update'));
  sets.set(identifier, union(changed, sets.get(identifier) ?? emptySet));
  result.times.set(identifier, input.timeIso);
  return result;
}

function strip(sets: Map<string, FieldSet>, manager: string): void {
  const set = sets.get(manager);
  if (set === undefined) return;
  const stripped = difference(set, neverOwned);
  if (isEmpty(stripped)) sets.delete(manager);
  else sets.set(manager, stripped);
}

function refuseForeignVersions(managed: Managed, apiVersion: string): void {
  for (const identifier of managed.sets.keys()) {
    const version = managed.identities.get(identifier)?.apiVersion;
    if (version !== apiVersion) {
      throw new ForeignVersion(`request to convert CR to an invalid group/version: ${version}`);
    }
  }
}

/** Applies; where kubectl only meets what it wrote itself by client-side apply, it takes that over. */
function applyOrMigrate(
  input: ApplyInput,
  live: JsonObject,
  managed: Managed,
  identifier: string,
): Applied {
  const { schema, applied, force } = input;
  const ignored = resetFields(input);
  try {
    return applyConfiguration(schema, live, applied, managed.sets, identifier, force, ignored);
  } catch (conflict) {
    if (conflict instanceof SchemaMismatch) throw mismatch(conflict);
    if (!(conflict instanceof ConflictError)) throw conflict;
    const vouched =
      input.manager === 'kubectl' ? fieldsOfLastApplied(schema, live, input.apiVersion) : undefined;
    if (vouched === undefined) throw conflictError(conflict.conflicts, managed.identities);
    const open = conflict.conflicts
      .map(({ manager, fields }) => ({
        manager,
        fields: fieldSetOf(...listPaths(fields).filter((path) => !has(vouched, path))),
      }))
      .filter(({ fields }) => !isEmpty(fields));
    if (open.length > 0) throw conflictError(open, managed.identities);
    return applyConfiguration(schema, live, applied, managed.sets, identifier, true, ignored);
  }
}

function checkConfiguration(schema: ObjectSchema, applied: JsonObject): void {
  try {
    checkTyped(schema, applied, false);
  } catch (failure) {
    if (!(failure instanceof SchemaMismatch)) throw failure;
    const metadata = ownValue(applied, 'metadata');
    const name = isJsonObject(metadata) ? ownValue(metadata, 'name') : undefined;
    throw new HansaError(
      'HANSA_APPLY_MISMATCH',
      `failed to create typed patch object (/${typeof name === 'string' ? name : ''}; ${printKind(applied)}): ${failure.message}`,
    );
  }
}

function mismatch(failure: SchemaMismatch): HansaError {
  return new HansaError('HANSA_APPLY_MISMATCH', `failed to merge config: ${failure.message}`);
}

/** Go's text of a GroupVersionKind: `hansa.dev/v1alpha1, Kind=Site`. */
function printKind(object: JsonObject): string {
  const apiVersion = object['apiVersion'];
  const kind = object['kind'];
  const version = typeof apiVersion === 'string' ? apiVersion : '';
  return `${version.includes('/') ? version : `/${version}`}, Kind=${typeof kind === 'string' ? kind : ''}`;
}

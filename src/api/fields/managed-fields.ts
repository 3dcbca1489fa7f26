// metadata.managedFields: decoding what an object carries, and encoding it in the order in which
// kube-apiserver writes it.

import { type Json, type ManagedFieldsEntry, timestamp } from '../object.ts';
import { parseTimestamp } from '../values/date-time.ts';
import type { FieldSet } from './field-set.ts';
import { decodeFieldsV1, encodeFieldsV1 } from './fields-v1.ts';
import { compareBytes, stringifyGo } from '../schema/go-text.ts';
import { isJsonArray, isJsonObject } from './json-value.ts';
import { PathElementError } from './path-element.ts';

export type Operation = 'Apply' | 'Update';

/** Who manages: one entry of managedFields without its fields and time. */
export interface ManagerIdentity {
  readonly manager: string;
  readonly operation: Operation;
  readonly apiVersion: string;
  readonly subresource: string;
}

/** Field sets and times by identifier. A time may remain without its set; a manager that returns gets a new time. */
export interface Managed {
  readonly sets: Map<string, FieldSet>;
  readonly times: Map<string, string>;
  readonly identities: Map<string, ManagerIdentity>;
}

export function noManagers(): Managed {
  return { sets: new Map(), times: new Map(), identities: new Map() };
}

/** managedFields that cannot be understood; the message is kube-apiserver's. */
export class ManagedFieldsError extends Error {}

/**
 * The key of a manager. It is the JSON that kube-apiserver uses, because entries are sorted by it
 * where all else is equal. An applier is the same at every version.
 */
function managerIdentifier(identity: ManagerIdentity): string {
  const parts: string[] = [];
  if (identity.manager !== '') parts.push(`"manager":${stringifyGo(identity.manager)}`);
  parts.push(`"operation":"${identity.operation}"`);
  if (identity.operation === 'Update' && identity.apiVersion !== '') {
    parts.push(`"apiVersion":${stringifyGo(identity.apiVersion)}`);
  }
  if (identity.subresource !== '') {
    parts.push(`"subresource":${stringifyGo(identity.subresource)}`);
  }
  return `{${parts.join(',')}}`;
}

/** Adds a manager's identity and returns its identifier. */
export function identify(managed: Managed, identity: ManagerIdentity): string {
  const identifier = managerIdentifier(identity);
  managed.identities.set(identifier, identity);
  return identifier;
}

function text(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

export function decodeManagedFields(entries: Json | undefined): Managed {
  const managed = noManagers();
  if (entries === undefined || entries === null) return managed;
  if (!isJsonArray(entries)) throw new ManagedFieldsError('managedFields must be a list');
  for (const [i, entry] of entries.entries()) {
    if (!isJsonObject(entry)) throw new ManagedFieldsError('an entry must be an object');
    const operation = entry['operation'];
    if (operation !== 'Apply' && operation !== 'Update') {
      throw new ManagedFieldsError('operation must be `Apply` or `Update`');
    }
    const apiVersion = text(entry['apiVersion']);
    if (apiVersion === '') throw new ManagedFieldsError('apiVersion must not be empty');
    const fieldsType = text(entry['fieldsType']);
    if (fieldsType === '') {
      throw new ManagedFieldsError(`missing fieldsType in managed fields entry ${i}`);
    }
    if (fieldsType !== 'FieldsV1') {
      throw new ManagedFieldsError(
        `invalid fieldsType "${fieldsType}" in managed fields entry ${i}`,
      );
    }
    const identifier = identify(managed, {
      manager: text(entry['manager']),
      operation,
      apiVersion,
      subresource: text(entry['subresource']),
    });
    managed.sets.set(identifier, decodeFields(entry['fieldsV1'] ?? null));
    const time = wholeSeconds(text(entry['time']));
    if (time === undefined) managed.times.delete(identifier);
    else managed.times.set(identifier, time);
  }
  return managed;
}

function decodeFields(fields: Json): FieldSet {
  try {
    return decodeFieldsV1(fields);
  } catch (malformed) {
    if (malformed instanceof PathElementError) throw new ManagedFieldsError(malformed.message);
    throw malformed;
  }
}

/** Kept as text: times in this form sort as such. */
function wholeSeconds(time: string): string | undefined {
  const moment = parseTimestamp(time);
  return moment === undefined ? undefined : timestamp(moment);
}

export function encodeManagedFields(managed: Managed): readonly ManagedFieldsEntry[] {
  const entries: ManagedFieldsEntry[] = [];
  for (const [identifier, set] of managed.sets) {
    const identity = managed.identities.get(identifier);
    if (identity === undefined) continue;
    const time = managed.times.get(identifier);
    entries.push({
      apiVersion: identity.apiVersion,
      fieldsType: 'FieldsV1',
      fieldsV1: encodeFieldsV1(set),
      manager: identity.manager,
      operation: identity.operation,
      ...(identity.subresource === '' ? {} : { subresource: identity.subresource }),
      ...(time === undefined ? {} : { time }),
    });
  }
  return entries.length < 2 ? entries : entries.toSorted(compareEntries);
}

/** Appliers first, then by time, oldest first, then by name. Times in this form sort as text. */
function compareEntries(a: ManagedFieldsEntry, b: ManagedFieldsEntry): number {
  return (
    compareBytes(a.operation, b.operation) ||
    compareBytes(a.time ?? '', b.time ?? '') ||
    compareBytes(a.manager, b.manager) ||
    compareBytes(a.apiVersion, b.apiVersion) ||
    compareBytes(a.subresource ?? '', b.subresource ?? '')
  );
}

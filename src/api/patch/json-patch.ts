// JSON Patch (RFC 6902) and, beside it, JSON Merge Patch (RFC 7386): pure functions from a document
// and a patch to a new document. The functions change neither input and use no schema.
//
// The dialect is the one that kube-apiserver speaks (evanphx/json-patch v4), because clients depend
// on its differences from the RFC: `replace` of a missing member adds it, negative indices count
// from the end, a path need not begin with a slash, and `copy` of a missing member gives null.

import { HansaError } from '../../core/errors/error.ts';
import {
  isJsonArray,
  isJsonObject,
  isWithinDepth,
  maxJsonDepth,
  setOwn,
} from '../fields/json-value.ts';
import type { Json, JsonObject } from '../object.ts';
import { goKind } from '../schema/go-text.ts';
import { jsonEquals } from '../schema/json.ts';

/** kube-apiserver's limit on the operations of one patch. */
export const maxOperations = 10_000;

/** kube-apiserver's default limit on what all `copy` operations of one patch add up to (3 MiB). */
const maxCopiedBytes = 3 * 1024 * 1024;

/**
 * Items of lists that all operations of one patch may shift. kube-apiserver has no such limit: there a
 * few megabytes of inserts at the front of a long list keep one thread busy; here they would stop
 * everyone for seconds. So many take some 10 ms.
 */
const maxShiftedItems = 40_000_000;

export type FieldValidation = 'Ignore' | 'Warn' | 'Strict';

export interface JsonPatch {
  readonly operations: readonly (JsonObject | null)[];
  /** Members of operations that mean nothing, as kube-apiserver words them; empty with 'Ignore'. */
  readonly unknownFields: readonly string[];
}

const operationMembers = new Set(['op', 'path', 'from', 'value']);

/** Reads a parsed patch document. Throws HANSA_BAD_REQUEST or HANSA_TOO_LARGE in kube-apiserver's words. */
export function decodeJsonPatch(document: Json, validation: FieldValidation): JsonPatch {
  const strict = validation !== 'Ignore';
  if (document === null) return { operations: [], unknownFields: [] };
  if (!isJsonArray(document)) {
    throw badRequest(
      strict
        ? `error decoding patch: json: cannot unmarshal ${goKind(document)} into Go value of type []handlers.jsonPatchOp`
        : `json: cannot unmarshal ${goKind(document)} into Go value of type jsonpatch.Patch`,
    );
  }
  if (!isWithinDepth(document, maxJsonDepth)) throw tooDeep();
  const operations: (JsonObject | null)[] = [];
  const unknownFields: string[] = [];
  for (const [i, operation] of document.entries()) {
    if (operation !== null && !isJsonObject(operation)) {
      throw badRequest(
        strict
          ? `error decoding patch: json: cannot unmarshal ${goKind(operation)} into Go value of type handlers.jsonPatchOp`
          : `json: cannot unmarshal ${goKind(operation)} into Go value of type jsonpatch.Operation`,
      );
    }
    if (strict && operation !== null) checkMembers(operation, i, unknownFields);
    operations.push(operation);
  }
  if (operations.length > maxOperations) {
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Request entity too large: The allowed maximum operations in a JSON patch is ${maxOperations}, got ${operations.length}`,
    );
  }
  return { operations, unknownFields };
}

function checkMembers(operation: JsonObject, index: number, unknownFields: string[]): void {
  for (const name of Object.keys(operation)) {
    const value = operation[name] as Json;
    if (!operationMembers.has(name)) {
      unknownFields.push(`json patch unknown field "[${index}].${name}"`);
    } else if (name !== 'value' && value !== null && typeof value !== 'string') {
      throw badRequest(
        `error decoding patch: json: cannot unmarshal ${goKind(value)} into Go struct field jsonPatchOp.${name} of type string`,
      );
    }
  }
}

function badRequest(message: string): HansaError {
  return new HansaError('HANSA_BAD_REQUEST', message);
}

export function tooDeep(): HansaError {
  return badRequest(
    `Cannot apply the patch: the document would nest more than ${maxJsonDepth} levels deep. Send flatter values.`,
  );
}

/** Why an operation could not be done. It becomes the `cause` of the 422 that the caller sees. */
class OperationError extends Error {}

/**
 * Applies all operations or none. Throws HANSA_INVALID, with the words of kube-apiserver, where one
 * fails (a failed `test` included); its `cause` says which and why. The cost is that of walking the
 * paths, plus copying each container once.
 */
export function applyJsonPatch(document: JsonObject, patch: JsonPatch): Json {
  const working = new WorkingDocument(document);
  try {
    for (const operation of patch.operations) working.run(operation ?? {});
  } catch (failure) {
    if (!(failure instanceof OperationError)) throw failure;
    throw new HansaError(
      'HANSA_INVALID',
      'the server rejected our request due to an error in our request',
      { cause: failure, details: {} },
    );
  }
  if (!isWithinDepth(working.root, maxJsonDepth)) throw tooDeep();
  return working.root;
}

type MutableObject = Record<string, Json>;
type MutableContainer = MutableObject | Json[];

interface Place {
  readonly container: Json;
  readonly key: string;
}

class WorkingDocument {
  root: Json;
  /** Containers that this run made, and that it may therefore change in place. */
  readonly #own = new WeakSet<object>();
  #copiedBytes = 0;
  #shiftedItems = 0;

  constructor(document: Json) {
    this.root = document;
  }

  run(operation: JsonObject): void {
    const kind = operation['op'];
    switch (kind) {
      case 'add':
        return this.#add(member(operation, 'path'), valueOf(operation));
      case 'remove':
        this.#remove(member(operation, 'path'));
        return;
      case 'replace':
        return this.#replace(member(operation, 'path'), valueOf(operation));
      case 'move':
        return this.#move(member(operation, 'from'), operation);
      case 'copy':
        return this.#copy(member(operation, 'from'), operation);
      case 'test':
        return this.#test(member(operation, 'path'), operation);
      default:
        throw new OperationError(`Unexpected kind: ${typeof kind === 'string' ? kind : 'unknown'}`);
    }
  }

  #add(path: string, value: Json): void {
    const { container, key } = this.#locate(path, true);
    if (!isJsonArray(container)) {
      setOwn(container as MutableObject, key, value);
      return;
    }
    const items = container as Json[];
    if (key === '-') {
      items.push(value);
      return;
    }
    const index = resolveIndex(key, items.length + 1);
    this.#shift(items.length - index);
    items.splice(index, 0, value);
  }

  #remove(path: string): void {
    const { container, key } = this.#locate(path, true);
    if (isJsonArray(container)) {
      const index = resolveIndex(key, container.length);
      this.#shift(container.length - index);
      (container as Json[]).splice(index, 1);
      return;
    }
    if (!Object.hasOwn(container as JsonObject, key)) {
      throw new OperationError(`Unable to remove nonexistent key: ${key}: missing value`);
    }
    delete (container as MutableObject)[key];
  }

  #shift(items: number): void {
    this.#shiftedItems += items;
    if (this.#shiftedItems <= maxShiftedItems) return;
    throw new HansaError(
      'HANSA_TOO_LARGE',
      `Request entity too large: the operations of a JSON patch may shift ${maxShiftedItems} items of lists in all. Send the new list as a whole.`,
    );
  }

  #replace(path: string, value: Json): void {
    if (path === '') {
      if (!isJsonArray(value) && !isJsonObject(value)) {
        throw new OperationError('replace operation value must be object or array');
      }
      this.root = value;
      return;
    }
    const { container, key } = this.#locate(path, true);
    if (isJsonArray(container)) {
      (container as Json[])[resolveIndex(key, container.length)] = value;
    } else setOwn(container as MutableObject, key, value);
  }

  #move(from: string, operation: JsonObject): void {
    const value = read(this.#locate(from, false)) ?? null;
    this.#remove(from);
    this.#add(member(operation, 'path'), value);
  }

  #copy(from: string, operation: JsonObject): void {
    const value = read(this.#locate(from, false)) ?? null;
    const path = member(operation, 'path');
    this.#locate(path, false);
    // A copy is a new value: later operations may change the original in place.
    let copy = value;
    if (typeof value === 'object' && value !== null) {
      const text = stringify(value);
      this.#copiedBytes += Buffer.byteLength(text);
      if (this.#copiedBytes <= maxCopiedBytes) copy = JSON.parse(text) as Json;
    } else this.#copiedBytes += Buffer.byteLength(stringify(value));
    if (this.#copiedBytes > maxCopiedBytes) {
      throw new OperationError(
        `Unable to complete the copy, the accumulated size increase of copy is ${this.#copiedBytes}, exceeding the limit ${maxCopiedBytes}`,
      );
    }
    this.#add(path, copy);
  }

  #test(path: string, operation: JsonObject): void {
    const expected = Object.hasOwn(operation, 'value') ? operation['value'] : undefined;
    const actual = path === '' ? this.root : (read(this.#locate(path, false)) ?? null);
    // A member that is missing and one that is null are the same to a test.
    if (!jsonEquals(actual, expected ?? null)) {
      throw new OperationError(`testing value ${path} failed: test failed`);
    }
  }

  /** Finds the container of the last token; with `change`, everything on the way becomes our own. */
  #locate(path: string, change: boolean): Place {
    const tokens = path.split('/');
    if (tokens.length < 2) {
      throw new OperationError(`doc is missing path: "${path}": missing value`);
    }
    let container: Json = change ? this.#owned(this.root) : this.root;
    if (change) this.root = container;
    for (let i = 1; i < tokens.length - 1; i++) {
      const key = unescapeToken(tokens[i] as string);
      const inner: Json | undefined = read({ container, key });
      if (typeof inner !== 'object' || inner === null) {
        throw new OperationError(`doc is missing path: "${path}": missing value`);
      }
      if (change) {
        const owned = this.#owned(inner);
        if (owned !== inner) write(container as MutableContainer, key, owned);
        container = owned;
      } else container = inner;
    }
    return { container, key: unescapeToken(tokens.at(-1) as string) };
  }

  #owned(container: Json): Json {
    if (typeof container !== 'object' || container === null || this.#own.has(container)) {
      return container;
    }
    const copy: MutableContainer = isJsonArray(container) ? [...container] : { ...container };
    this.#own.add(copy);
    return copy;
  }
}

function member(operation: JsonObject, name: 'path' | 'from'): string {
  const value = Object.hasOwn(operation, name) ? operation[name] : undefined;
  if (typeof value !== 'string') {
    throw new OperationError(`operation missing ${name} field: missing value`);
  }
  return value;
}

function valueOf(operation: JsonObject): Json {
  return Object.hasOwn(operation, 'value') ? (operation['value'] as Json) : null;
}

function stringify(value: Json): string {
  try {
    return JSON.stringify(value);
  } catch (overflow) {
    // The only way to fail: copies of copies that nest deeper than the stack.
    throw new OperationError('the value to copy nests too deeply', { cause: overflow });
  }
}

function read({ container, key }: Place): Json | undefined {
  if (isJsonArray(container)) return container[resolveIndex(key, container.length)];
  const object = container as JsonObject;
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function write(container: MutableContainer, key: string, value: Json): void {
  if (Array.isArray(container)) container[resolveIndex(key, container.length)] = value;
  else setOwn(container, key, value);
}

/** An index as Go's Atoi reads it: an optional sign and digits; negative ones count from the end. */
function resolveIndex(key: string, length: number): number {
  if (!/^[+-]?\d+$/.test(key)) {
    throw new OperationError(`strconv.Atoi: parsing "${key}": invalid syntax`);
  }
  const index = Number(key);
  const resolved = index < 0 ? index + length : index;
  if (resolved < 0 || resolved >= length) {
    throw new OperationError(`Unable to access invalid index: ${index}: invalid index referenced`);
  }
  return resolved;
}

/** RFC 6901, section 4, in one pass: `~01` is `~1`, never `/`. */
function unescapeToken(token: string): string {
  return token.includes('~')
    ? token.replaceAll(/~[01]/g, (escape) => (escape === '~1' ? '/' : '~'))
    : token;
}

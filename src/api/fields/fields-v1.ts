// FieldsV1: the wire format of a field set. A field set {a, a.b, c.d} is
// {"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}}}.

import type { Json, JsonObject } from '../object.ts';
import { type FieldSet, type MutableFieldSet, emptySet, leaf } from './field-set.ts';
import { isJsonObject, maxJsonDepth } from './json-value.ts';
import {
  type PathElement,
  PathElementError,
  parsePathElement,
  sortPathElements,
} from './path-element.ts';

/** Shared by every leaf of every encoded set. */
const nothing: JsonObject = Object.freeze({});

export function encodeFieldsV1(set: FieldSet): JsonObject {
  return set.size === 0 ? nothing : encodeLevel(set, false);
}

function encodeLevel(set: FieldSet, includeSelf: boolean): JsonObject {
  const out: Record<string, Json> = {};
  if (includeSelf) out['.'] = nothing;
  if (set.size === 1) {
    // The commonest case needs neither an array nor a sort.
    for (const [element, entry] of set) {
      out[element] = entry.below.size === 0 ? nothing : encodeLevel(entry.below, entry.member);
    }
    return out;
  }
  for (const element of sortPathElements([...set.keys()])) {
    const entry = set.get(element);
    if (entry === undefined) continue;
    out[element] = entry.below.size === 0 ? nothing : encodeLevel(entry.below, entry.member);
  }
  return out;
}

/** Throws a PathElementError where the text of an element, or the shape, is wrong. */
export function decodeFieldsV1(fields: Json): FieldSet {
  return decodeLevel(fields, 0).below ?? emptySet;
}

interface Decoded {
  readonly member: boolean;
  readonly below: FieldSet | undefined;
}

const decodedLeaf: Decoded = { member: true, below: undefined };

function decodeLevel(fields: Json, depth: number): Decoded {
  if (fields === null) return decodedLeaf;
  if (!isJsonObject(fields)) throw new PathElementError('a field set must be an object');
  if (depth > maxJsonDepth) throw new PathElementError('a field set is nested too deeply');
  let member = false;
  let below: MutableFieldSet | undefined;
  for (const key of Object.keys(fields)) {
    if (key === '.') {
      member = true;
      continue;
    }
    const element: PathElement | undefined = parsePathElement(key);
    if (element === undefined) continue;
    const child = decodeLevel(fields[key] as Json, depth + 1);
    below ??= new Map();
    const entry = child.below === undefined ? leaf : { member: child.member, below: child.below };
    const before = below.get(element);
    below.set(
      element,
      before === undefined
        ? entry
        : {
            member: before.member || entry.member,
            below: entry.below.size > 0 ? entry.below : before.below,
          },
    );
  }
  return below === undefined ? decodedLeaf : { member, below };
}

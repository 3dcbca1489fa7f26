// One step of a field path, in the canonical text of FieldsV1: `f:name` a field, `k:{"name":"x"}`
// the item of a list with these keys, `v:"x"` the item of a set, `i:0` an index. Because the text is
// canonical, two elements are equal exactly when their texts are.

import type { Json } from '../object.ts';
import { compareBytes, quoteGo } from '../schema/go-text.ts';
import { isJsonArray, isJsonObject, isWithinDepth } from './json-value.ts';

export type PathElement = string;

export function fieldElement(name: string): PathElement {
  return `f:${name}`;
}

export function valueElement(value: Json): PathElement {
  return `v:${elementJson(value)}`;
}

/** `fields` must be sorted by name. */
export function keyElement(fields: readonly (readonly [name: string, value: Json])[]): PathElement {
  let text = 'k:{';
  let separator = '';
  for (const [name, value] of fields) {
    text += `${separator}${goJsonString(name)}:${elementJson(value)}`;
    separator = ',';
  }
  return `${text}}`;
}

/** As jsoniter writes a value inside of a path element. */
function elementJson(value: Json): string {
  if (typeof value === 'string') return goJsonString(value);
  if (isJsonArray(value)) return `[${value.map(elementJson).join(',')}]`;
  if (isJsonObject(value)) {
    const keys = Object.keys(value).toSorted(compareBytes);
    return `{${keys.map((key) => `${goJsonString(key)}:${elementJson(value[key] ?? null)}`).join(',')}}`;
  }
  return JSON.stringify(value);
}

// oxlint-disable-next-line no-control-regex -- control characters are what must be escaped
const unsafeInJson = /[\u0000-\u001f"\\<>&\u2028\u2029]/g;
const shortEscapes = new Map(
  Object.entries({ '"': '\\"', '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }),
);

/** A JSON string as the encoder of path elements (jsoniter) writes it: HTML-safe, and without `\b` and `\f`. */
function goJsonString(text: string): string {
  const escaped = text.replace(
    unsafeInJson,
    (unit) => shortEscapes.get(unit) ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `"${escaped}"`;
}

/** A malformed element; an element of an unknown type is `undefined` instead, for later versions may know it. */
export class PathElementError extends Error {}

/** Keys and values are flat in every schema; what nests much deeper than that is hostile. */
const maxElementDepth = 64;

/** Parses the text of an element and returns it in canonical form. */
export function parsePathElement(text: string): PathElement | undefined {
  if (text.length < 2) throw new PathElementError('key must be 2 characters long:');
  if (text[1] !== ':') throw new PathElementError(`missing colon: ${text}`);
  const rest = text.slice(2);
  switch (text[0]) {
    case 'f':
      return text;
    case 'v':
      return valueElement(parseJson(rest));
    case 'k': {
      const fields = parseJson(rest);
      if (!isJsonObject(fields)) throw new PathElementError(`not an object: ${text}`);
      const entries = Object.entries(fields);
      return keyElement(entries.toSorted(([a], [b]) => compareBytes(a, b)));
    }
    case 'i':
      if (!/^[+-]?\d+$/.test(rest)) throw new PathElementError(`not an index: ${text}`);
      return `i:${Number(rest)}`;
    default:
      return undefined;
  }
}

function parseJson(text: string): Json {
  let value: Json;
  try {
    value = JSON.parse(text) as Json;
  } catch {
    throw new PathElementError(`not JSON: ${text}`);
  }
  if (!isWithinDepth(value, maxElementDepth)) throw new PathElementError('nested too deeply');
  return value;
}

const kindOrder = 'fkvi';

interface ParsedElement {
  readonly element: PathElement;
  readonly content: Json;
}

/** The name of a field, the keys or the value of an item, or an index. */
function contentOf(element: PathElement): Json {
  if (element.startsWith('f:')) return element.slice(2);
  // Most items of sets are plain strings, and large sets are sorted whole.
  if (element.startsWith('v:"') && !element.includes('\\')) return element.slice(3, -1);
  return parseJson(element.slice(2));
}

/** Fields, keys, values, indices; keys compare as the objects that they are: field by field, in the order of their names. */
function compareParsed(a: ParsedElement, b: ParsedElement): number {
  const kinds = kindOrder.indexOf(a.element.charAt(0)) - kindOrder.indexOf(b.element.charAt(0));
  return kinds === 0 ? compareValues(a.content, b.content) : kinds;
}

/** The elements of one level in the order of FieldsV1. Each is parsed once at most; fields not at all. */
export function sortPathElements(elements: readonly PathElement[]): readonly PathElement[] {
  if (elements.length < 2) return elements;
  if (elements.every((element) => element.charCodeAt(0) === 0x66)) {
    return elements.toSorted(compareBytes);
  }
  return elements
    .map((element) => ({ element, content: contentOf(element) }))
    .toSorted(compareParsed)
    .map(({ element }) => element);
}

function compareFieldLists(
  a: readonly (readonly [string, Json])[],
  b: readonly (readonly [string, Json])[],
): number {
  for (let i = 0; ; i++) {
    const x = a[i];
    const y = b[i];
    if (x === undefined || y === undefined) return a.length - b.length;
    const order = compareBytes(x[0], y[0]) || compareValues(x[1], y[1]);
    if (order !== 0) return order;
  }
}

/** Numbers before strings before booleans before lists before objects before null. */
function compareValues(a: Json, b: Json): number {
  const rankA = valueRank(a);
  const rankB = valueRank(b);
  if (rankA !== rankB) return rankA - rankB;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a === 'string' && typeof b === 'string') return compareBytes(a, b);
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  if (isJsonArray(a) && isJsonArray(b)) {
    for (let i = 0; ; i++) {
      const x = a[i];
      const y = b[i];
      if (x === undefined || y === undefined) return a.length - b.length;
      const order = compareValues(x, y);
      if (order !== 0) return order;
    }
  }
  if (isJsonObject(a) && isJsonObject(b)) {
    return compareFieldLists(sortedEntries(a), sortedEntries(b));
  }
  return 0;
}

function sortedEntries(value: Json): [string, Json][] {
  if (!isJsonObject(value)) return [];
  return Object.entries(value).toSorted(([a], [b]) => compareBytes(a, b));
}

function valueRank(value: Json): number {
  if (typeof value === 'number') return 0;
  if (typeof value === 'string') return 1;
  if (typeof value === 'boolean') return 2;
  if (isJsonArray(value)) return 3;
  return value === null ? 5 : 4;
}

/** As conflict messages print it: `.name`, `[name="x"]`, `[="x"]`, `[0]`. */
export function printPathElement(element: PathElement): string {
  const rest = element.slice(2);
  switch (element[0]) {
    case 'f':
      return `.${rest}`;
    case 'k': {
      const fields = Object.entries(parseJson(rest) as Record<string, Json>);
      return `[${fields.map(([name, value]) => `${name}=${printValue(value)}`).join(',')}]`;
    }
    case 'v':
      return `[=${printValue(parseJson(rest))}]`;
    default:
      return `[${rest}]`;
  }
}

export function printPath(path: readonly PathElement[]): string {
  return path.map(printPathElement).join('');
}

function printValue(value: Json): string {
  if (typeof value === 'string') return quoteGo(value);
  if (isJsonArray(value)) return `[${value.map(printValue).join(',')}]`;
  if (isJsonObject(value)) {
    return Object.entries(value)
      .map(([key, item]) => `${key}=${printValue(item)}`)
      .join('');
  }
  return String(value);
}

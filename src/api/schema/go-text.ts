// Formats values as Go does. Messages of kube-apiserver contain values formatted with %q, %v and
// json.Marshal, and ours are the same byte for byte.

import { isInt64, isObject } from './json.ts';

const shortEscapes: ReadonlyMap<string, string> = new Map(
  Object.entries<string>({
    '\u0007': '\\a',
    '\b': '\\b',
    '\f': '\\f',
    '\n': '\\n',
    '\r': '\\r',
    '\t': '\\t',
    '\v': '\\v',
    '"': '\\"',
    '\\': '\\\\',
  }),
);

/** What strconv.Quote escapes: quotes, backslashes, and all that unicode.IsPrint denies. */
const unprintable = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;
const printable = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;
const plain = /^[ !#-[\]-~]*$/;

function escapeRune(rune: string): string {
  const short = shortEscapes.get(rune);
  if (short !== undefined) return short;
  const code = rune.codePointAt(0) ?? 0;
  if (code < 0x80) return `\\x${code.toString(16).padStart(2, '0')}`;
  // A lone surrogate cannot be in a Go string: its JSON decoder puts U+FFFD there.
  if (code >= 0xd800 && code <= 0xdfff) return '\ufffd';
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, '0')}`;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}

/** unicode.IsPrint of one character: letters, marks, numbers, punctuation, symbols and the ASCII space. */
export function isPrintable(character: string): boolean {
  return printable.test(character);
}

/** strconv.Quote, that is %q. */
export function quoteGo(text: string): string {
  if (plain.test(text)) return `"${text}"`;
  return `"${text.replace(unprintable, escapeRune)}"`;
}

/** The word of Go's JSON decoder for the kind of a value. */
export function goKind(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}

/** %v of what Go's JSON decoder made of a number: an int64, or else a float64. */
export function printNumber(value: number): string {
  if (isInt64(value)) return BigInt(value).toString();
  const [digits = '', exponent = '0'] = value.toExponential().split('e');
  const power = Number(exponent);
  if (power >= -4 && power < 6) return String(value);
  const sign = power < 0 ? '-' : '+';
  return `${digits}e${sign}${String(Math.abs(power)).padStart(2, '0')}`;
}

const jsonEscaped = /[<>&\u2028\u2029]/g;

/** json.Marshal: keys in order of their bytes, and what could end a script element escaped. */
export function stringifyGo(value: unknown): string {
  return escapeJson(sortedJson(value));
}

/** JSON text with what could end a script element escaped. */
export function escapeJson(text: string): string {
  return text.replace(
    jsonEscaped,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Written key by key: an object of ours would put keys such as "10" first, in the order of numbers. */
function sortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson).join(',')}]`;
  if (!isObject(value)) return JSON.stringify(value ?? null);
  const members = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .toSorted(compareBytes)
    .map((key) => `${JSON.stringify(key)}:${sortedJson(value[key])}`);
  return `{${members.join(',')}}`;
}

/** The order of the UTF-8 bytes, in which Go sorts strings. */
export function compareBytes(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) continue;
    // UTF-16 differs from it only here: half of an astral character is less than U+E000 and above.
    if (isSurrogate(x) !== isSurrogate(y)) return isSurrogate(x) ? 1 : -1;
    return x - y;
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

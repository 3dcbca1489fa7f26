// Text exactly as Go writes it: the order of strings, quoting, and JSON. Field sets, conflict
// messages and the last-applied annotation are compared byte for byte by clients.

import type { Json } from '../object.ts';
import { isJsonArray } from './json-value.ts';

/** The order of Go strings (bytes of UTF-8). UTF-16 order differs where surrogates meet U+E000–U+FFFF. */
export function compareUtf8(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) continue;
    if (x >= 0xd800 && y >= 0xd800) return rank(x) - rank(y);
    return x - y;
  }
  return a.length - b.length;
}

/** Surrogates stand for code points above U+FFFF, so they sort behind U+E000–U+FFFF. */
function rank(unit: number): number {
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}

// eslint-disable-next-line no-control-regex -- control characters are what must be escaped
const unsafeInJson = /[\u0000-\u001f"\\<>&\u2028\u2029]/;

/** A JSON string as Go's encoders write it: HTML-safe, with `\b` and `\f` as \u escapes when `shortEscapes` is false. */
export function goJsonString(text: string, shortEscapes = false): string {
  if (!unsafeInJson.test(text)) return `"${text}"`;
  let out = '"';
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0x22) out += '\\"';
    else if (unit === 0x5c) out += '\\\\';
    else if (unit === 0x0a) out += '\\n';
    else if (unit === 0x0d) out += '\\r';
    else if (unit === 0x09) out += '\\t';
    else if (shortEscapes && unit === 0x08) out += '\\b';
    else if (shortEscapes && unit === 0x0c) out += '\\f';
    else if (
      unit < 0x20 ||
      unit === 0x3c ||
      unit === 0x3e ||
      unit === 0x26 ||
      unit === 0x2028 ||
      unit === 0x2029
    ) {
      out += `\\u${unit.toString(16).padStart(4, '0')}`;
    } else out += text[i];
  }
  return `${out}"`;
}

/** JSON as `encoding/json` writes a map: keys sorted, HTML-safe. */
export function goJson(value: Json): string {
  if (typeof value === 'string') return goJsonString(value, true);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (isJsonArray(value)) return `[${value.map(goJson).join(',')}]`;
  const fields: string[] = [];
  for (const key of Object.keys(value).sort(compareUtf8)) {
    fields.push(`${goJsonString(key, true)}:${goJson(value[key] ?? null)}`);
  }
  return `{${fields.join(',')}}`;
}

/** What Go's unicode.IsPrint accepts: letters, marks, numbers, punctuation, symbols and the ASCII space. */
export function isPrintable(character: string): boolean {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character);
}

const shortQuoteEscapes: Readonly<Record<string, string>> = {
  '\u0007': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '"': '\\"',
  '\\': '\\\\',
};

/** Go's `%q`. */
export function goQuote(text: string): string {
  if (/^[ !#-[\]-~]*$/.test(text)) return `"${text}"`;
  let out = '"';
  for (const character of text) {
    const short = shortQuoteEscapes[character];
    if (short !== undefined) out += short;
    else if (isPrintable(character)) out += character;
    else {
      const point = character.codePointAt(0) ?? 0;
      if (point < 0x80) out += `\\x${point.toString(16).padStart(2, '0')}`;
      else if (point < 0x10000) out += `\\u${point.toString(16).padStart(4, '0')}`;
      else out += `\\U${point.toString(16).padStart(8, '0')}`;
    }
  }
  return `${out}"`;
}

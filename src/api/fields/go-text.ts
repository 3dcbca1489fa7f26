// Text exactly as Go writes it where field sets need it: the order of strings, JSON strings as in
// path elements, and what can be printed. Quoting and whole JSON values are in ../schema/go-text.ts.

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

/** A JSON string as the encoder of path elements (jsoniter) writes it: HTML-safe, and without `\b` and `\f`. */
export function goJsonString(text: string): string {
  if (!unsafeInJson.test(text)) return `"${text}"`;
  let out = '"';
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === 0x22) out += '\\"';
    else if (unit === 0x5c) out += '\\\\';
    else if (unit === 0x0a) out += '\\n';
    else if (unit === 0x0d) out += '\\r';
    else if (unit === 0x09) out += '\\t';
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

/** What Go's unicode.IsPrint accepts: letters, marks, numbers, punctuation, symbols and the ASCII space. */
export function isPrintable(character: string): boolean {
  return /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u.test(character);
}

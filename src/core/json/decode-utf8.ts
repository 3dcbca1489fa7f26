// Decodes UTF-8 as Go does: each byte that belongs to no character becomes U+FFFD. Node replaces all bytes
// of a character that is cut short by a single U+FFFD, so texts would differ from those of kube-apiserver.

const replacement = '\ufffd';

export function decodeUtf8(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  return text.includes(replacement) ? decodeByteByByte(bytes) : text;
}

function decodeByteByByte(bytes: Buffer): string {
  let text = '';
  let start = 0;
  for (let at = 0; at < bytes.length; ) {
    const length = characterLength(bytes, at);
    at += Math.max(length, 1);
    if (length > 0) continue;
    text += bytes.toString('utf8', start, at - 1) + replacement;
    start = at;
  }
  return text + bytes.toString('utf8', start);
}

/** The number of bytes of the character at `at` (RFC 3629 §4), or 0 if there is none. */
function characterLength(bytes: Buffer, at: number): number {
  const first = bytes[at] as number;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const second = bytes[at + 1] ?? 0;
  // No overlong forms, no surrogates, nothing beyond U+10FFFF.
  if (second < (lowest.get(first) ?? 0x80) || second > (highest.get(first) ?? 0xbf)) return 0;
  for (let index = 2; index < length; index += 1)
    if (((bytes[at + index] ?? 0) & 0xc0) !== 0x80) return 0;
  return length;
}

/** The limits of the second byte after these first ones. */
const lowest: ReadonlyMap<number, number> = new Map([
  [0xe0, 0xa0],
  [0xf0, 0x90],
]);
const highest: ReadonlyMap<number, number> = new Map([
  [0xed, 0x9f],
  [0xf4, 0x8f],
]);

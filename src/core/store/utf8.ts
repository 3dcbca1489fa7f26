// Orders names by their UTF-8 bytes, as etcd and SQLite do, so that lists have the same order with
// every driver.

/**
 * UTF-16 code units compare like UTF-8 bytes, except that a surrogate pair (U+10000 and above)
 * must come after the units U+E000 to U+FFFF.
 */
export function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at++) {
    const x = a.charCodeAt(at);
    const y = b.charCodeAt(at);
    if (x !== y) return x >= 0xd800 && y >= 0xd800 ? rank(x) - rank(y) : x - y;
  }
  return a.length - b.length;
}

function rank(unit: number): number {
  return unit < 0xe000 ? unit + 0x10000 : unit;
}

/** The names in this order, where possible at the speed of the engine's own comparison. */
export function sortUtf8(names: readonly string[]): string[] {
  // Only a surrogate makes the order of UTF-16 another than that of UTF-8.
  const special = names.some((name) => /[\ud800-\udfff]/.test(name));
  return special ? names.toSorted(compareUtf8) : names.toSorted();
}

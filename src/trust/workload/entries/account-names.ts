// Parses /etc/passwd and /etc/group into names by number (passwd(5), group(5)). If a number has several
// names, the first one counts, as with getpwuid. Pure.

/** Enough for ten thousand accounts, parsed in milliseconds. A larger file is ignored. */
export const maxAccountFileBytes = 1024 * 1024;

const line = /^([a-zA-Z0-9_.][a-zA-Z0-9_.@-]*\$?):[^:]*:(0|[1-9][0-9]{0,9})(?::|$)/;
const maxNumber = 2 ** 32 - 1;

/** By uid, or by gid: in both files the number is the third field. */
export function accountNames(text: string): ReadonlyMap<number, string> {
  const names = new Map<number, string>();
  for (const one of text.split('\n')) {
    const found = line.exec(one);
    if (found === null) continue;
    const [, name, digits] = found as unknown as [string, string, string];
    const number = Number(digits);
    if (number <= maxNumber && !names.has(number)) names.set(number, name);
  }
  return names;
}

// Recognizes mounts whose access may block forever: FUSE, which a user's program serves, and autofs,
// which may mount a remote file system at the first access.

import { readFileSync } from 'node:fs';

/** Whether a path leads through one of them, as far as the kernel tells; true where it does not. Rarely asked. */
export function isServedByUsers(path: string): boolean {
  try {
    return leadsThroughServed(path, readFileSync('/proc/self/mountinfo', 'utf8'));
  } catch {
    return true;
  }
}

/** `mountinfo` is as of proc(5). Pure. */
export function leadsThroughServed(path: string, mountinfo: string): boolean {
  return mountinfo.split('\n').some((line) => {
    const [fields = '', source = ''] = line.split(' - ', 2);
    const point = fields.split(' ')[4];
    if (point === undefined || !/^(?:fuse|autofs)/.test(source)) return false;
    const place = unescaped(point);
    // Where everything is served so, as in some containers, we are ourselves.
    return place !== '/' && (path === place || path.startsWith(`${place}/`));
  });
}

/** The kernel writes blanks, line breaks and backslashes in octal. */
function unescaped(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_all, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

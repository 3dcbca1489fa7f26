// Finds where an object in a cluster differs from the wanted one. Fields that the wanted one does not name, such
// as defaults of the API server, are no difference. Pure.

import { isObject } from '../../api/schema/json.ts';

/** Paths, at most this many: they are for a message. */
const mostPaths = 5;

/** Returns the paths of wanted fields with another value. Empty if the object is as wanted. */
export function differences(wanted: unknown, live: unknown): readonly string[] {
  const found: string[] = [];
  compare(wanted, live, '', found);
  return found;
}

function compare(wanted: unknown, live: unknown, path: string, found: string[]): void {
  if (found.length >= mostPaths) return;
  if (Array.isArray(wanted)) {
    if (!Array.isArray(live) || live.length !== wanted.length) {
      found.push(path);
      return;
    }
    wanted.forEach((item, at) => compare(item, live[at], `${path}[${at}]`, found));
  } else if (isObject(wanted)) {
    // The API server leaves empty objects out.
    if (live === undefined && Object.keys(wanted).length === 0) return;
    if (!isObject(live)) {
      found.push(path);
      return;
    }
    for (const [key, value] of Object.entries(wanted)) {
      const part = /^[A-Za-z]\w*$/.test(key) ? `.${key}` : `[${key}]`;
      compare(value, live[key], path === '' ? part.replace(/^\./, '') : `${path}${part}`, found);
    }
  } else if (wanted !== live) {
    found.push(path);
  }
}

// Records the responses of one server in a comparison. Each server chooses its own uids,
// resourceVersions and times. The ledger replaces them with names that are equal on both sides
// ("the third resourceVersion seen"), and resolves such names in requests.

import type { Json } from '../../src/api/object.ts';
import type { Base } from './transcript.ts';

type Tree = { [key: string]: Json };

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const seconds = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/**
 * Some refusals quote the object as it would have become, with its times and versions and the
 * managers in the order of those times.
 */
const quotedObject = /"\{(?:[^"\\]|\\.)*\}"|'\{"apiVersion"[^']*\}'/g;

/** How far back a history reaches is each server's own. */
const tooOld = /(too old resource version: )\d+ \(\d+\)/g;

export class Ledger {
  readonly #uids = new Map<string, string>();
  readonly #versions = new Map<string, string>();
  readonly #objects = new Map<string, Tree[]>();
  /** The resourceVersion at which a transcript began, by plural name. */
  readonly marks = new Map<string, string>();
  /** What is wrong with this side's answers by themselves: rules that need no other side. */
  readonly complaints: string[] = [];

  /** Remembers an object that exists (or was just deleted) as this answer shows it. */
  remember(key: string, object: Tree): void {
    const seen = this.#objects.get(key) ?? [];
    if (seen.at(-1)?.['metadata'] === undefined || versionOf(seen.at(-1)) !== versionOf(object))
      seen.push(object);
    this.#objects.set(key, seen);
  }

  object(key: string, base: Base): Tree | undefined {
    const seen = this.#objects.get(key) ?? [];
    return structuredClone(base === 'stale' ? (seen.at(-2) ?? seen.at(-1)) : seen.at(-1));
  }

  /** The resourceVersion for a request. One that was never seen is a number that cannot be current. */
  version(key: string, base: 'current' | 'stale'): string {
    return versionOf(this.object(key, base)) ?? '1';
  }

  uid(key: string, which: 'right' | 'wrong'): string {
    const known = (this.object(key, 'current')?.['metadata'] as Tree | undefined)?.['uid'];
    return which === 'right' && typeof known === 'string'
      ? known
      : '00000000-0000-4000-8000-000000000000';
  }

  /** The answer with everything that a server chooses replaced by its name. */
  normalise(value: Json): Json {
    return this.#walk(value, undefined);
  }

  /** Uids and resourceVersions inside messages. Objects that a message quotes whole are cut out. */
  text(text: string): string {
    return text
      .replaceAll(quotedObject, '<object>')
      .replaceAll(/(Too large resource version: \d+, current: )\d+/g, '$1<revision>')
      .replaceAll(tooOld, '$1<revision> (<revision>)')
      .replaceAll(uuid, (found) => this.#name(this.#uids, 'uid', found))
      .replaceAll(
        /(ResourceVersion in [a-z ]+(?:: |\())(\d+)/gi,
        (_, before: string, found: string) => before + this.#name(this.#versions, 'version', found),
      );
  }

  #walk(value: Json, parent: string | undefined): Json {
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((item: Json) => this.#walk(item, parent));
    const tree =
      (value as Tree)['kind'] === 'Status' ? this.#status(value as Tree) : (value as Tree);
    const result: Tree = {};
    // Sorted, so that names are given in the same order whatever order a server writes in.
    for (const key of Object.keys(tree).toSorted()) {
      const field = tree[key] as Json;
      if (key === 'metadata' && isTree(field)) result[key] = this.#metadata(field);
      else if (key === 'cells' && Array.isArray(field)) result[key] = field.map(age);
      else result[key] = this.#walk(field, key);
    }
    return result;
  }

  #metadata(metadata: Tree): Tree {
    const isObject = typeof metadata['uid'] === 'string';
    const result: Tree = {};
    for (const key of Object.keys(metadata).toSorted()) {
      const value = metadata[key] as Json;
      if (key === 'managedFields' && Array.isArray(value)) result[key] = this.#managers(value);
      else if (key === 'resourceVersion' && typeof value === 'string')
        // A list is as new as its store, which on either side also holds other things.
        result[key] = isObject ? this.#name(this.#versions, 'version', value) : '<of the store>';
      else if (key === 'continue' && typeof value === 'string') result[key] = '<token>';
      else if (key.endsWith('Timestamp')) result[key] = time(value);
      else result[key] = this.#walk(value, key);
    }
    return result;
  }

  /**
   * kube-apiserver sorts by operation, then time (in seconds), then name. Times differ between
   * sides, so the order is judged here and taken out of the comparison.
   */
  #managers(entries: readonly Json[]): Json {
    const keys = entries.map((entry) => {
      const { operation, time: at, manager }: Tree = isTree(entry) ? entry : {};
      // An entry without a time, of a manager that only took over what was there, is older than all.
      return JSON.stringify([operation, at ?? '', manager]);
    });
    if (keys.some((key, index) => index > 0 && key < (keys[index - 1] as string)))
      this.complaints.push(`managedFields are not sorted: ${JSON.stringify(keys)}`);
    return entries
      .map((entry) =>
        isTree(entry)
          ? { ...(this.#walk(entry, undefined) as Tree), time: time(entry['time']) }
          : entry,
      )
      .toSorted((one, other) => (rank(one) < rank(other) ? -1 : 1));
  }

  /**
   * kube-apiserver reports causes in the random order of a Go map, and some of them twice. So their
   * order is none of ours, and the message, which repeats them, is only held to be made of them.
   */
  #status(status: Tree): Tree {
    const details = status['details'];
    const causes = isTree(details) ? details['causes'] : undefined;
    const message = status['message'];
    if (!isTree(details) || !Array.isArray(causes) || typeof message !== 'string') return status;
    const texts = new Set(causes.map((cause: Json) => JSON.stringify(cause)));
    const once = [...texts].toSorted().map((text) => JSON.parse(text) as Tree);
    const list = /^(.*? is invalid: )\[.*\]$/s.exec(message)?.[1];
    if (list === undefined) return { ...status, details: { ...details, causes: once } };
    for (const { field, message: text } of once)
      if (typeof field !== 'string' || !message.includes(`${field}: ${text as string}`))
        this.complaints.push(`the message leaves out ${JSON.stringify({ field, text })}`);
    return { ...status, message: `${list}<causes>`, details: { ...details, causes: once } };
  }

  #name(names: Map<string, string>, prefix: string, value: string): string {
    const known = names.get(value);
    if (known !== undefined) return known;
    const name = value === '' ? '' : `<${prefix} ${names.size + 1}>`;
    names.set(value, name);
    return name;
  }
}

function rank(entry: Json): string {
  const { operation, manager, apiVersion, subresource }: Tree = isTree(entry) ? entry : {};
  return JSON.stringify([operation, manager, apiVersion, subresource]);
}

/** How old an object is depends on when one asks. */
function age(cell: Json): Json {
  return typeof cell === 'string' && /^\d+s$/.test(cell) ? '<age>' : cell;
}

function time(value: Json | undefined): Json {
  return typeof value === 'string' && seconds.test(value) ? '<time>' : (value ?? null);
}

function versionOf(object: Tree | undefined): string | undefined {
  const version = (object?.['metadata'] as Tree | undefined)?.['resourceVersion'];
  return typeof version === 'string' ? version : undefined;
}

export function isTree(value: Json | undefined): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// The annotations of a copy that ExternalDNS reads. A mark on the copy says which of them the plane wrote, so
// that those of users stay as they are. Pure.

import { createHash } from 'node:crypto';
import { dnsAnnotation } from '../names.ts';

export type Annotations = Readonly<Record<string, string>>;

/** What the plane wants to write. Undefined: nothing. */
export interface WantedNames {
  readonly hostname: string | undefined;
  readonly target: string | undefined;
}

export const parts = ['hostname', 'target'] as const;
type Part = (typeof parts)[number];

interface Mark {
  readonly prefix: string;
  /** Digests of what was written; empty where nothing was. */
  readonly digests: Readonly<Record<Part, string>>;
}

/** Enough to tell a value of a user from ours; nothing depends on its secrecy. */
const digestLength = 16;

/** The annotations of the copy as they should be; the same object where they are. */
export function compileNames(live: Annotations, prefix: string, wanted: WantedNames): Annotations {
  const mark = markOf(live);
  const result: Record<string, string> = { ...live };
  for (const part of parts) {
    if (mark !== undefined && isOurs(live, mark, part)) delete result[`${mark.prefix}/${part}`];
  }
  const digests = { hostname: '', target: '' };
  for (const part of parts) {
    const value = wanted[part];
    const key = `${prefix}/${part}`;
    if (value === undefined || result[key] !== undefined) continue;
    result[key] = value;
    digests[part] = digestOf(value);
  }
  delete result[dnsAnnotation];
  if (digests.hostname !== '' || digests.target !== '') {
    result[dnsAnnotation] = [prefix, digests.hostname || '-', digests.target || '-'].join(' ');
  }
  return isEqual(live, result) ? live : result;
}

/** What the plane wrote and nobody changed since. */
export function writtenNames(live: Annotations): WantedNames {
  const mark = markOf(live);
  const valueOf = (part: Part): string | undefined =>
    mark !== undefined && isOurs(live, mark, part) ? live[`${mark.prefix}/${part}`] : undefined;
  return { hostname: valueOf('hostname'), target: valueOf('target') };
}

/** The value that a user wrote. Undefined where it is ours, or there is none. */
export function byHand(live: Annotations, prefix: string, part: Part): string | undefined {
  const mark = markOf(live);
  const isOwn = mark?.prefix === prefix && isOurs(live, mark, part);
  return isOwn ? undefined : live[`${prefix}/${part}`];
}

function isOurs(live: Annotations, { prefix, digests }: Mark, part: Part): boolean {
  const value = live[`${prefix}/${part}`];
  return value !== undefined && digestOf(value) === digests[part];
}

function markOf(live: Annotations): Mark | undefined {
  const [prefix = '', hostname = '', target = ''] = (live[dnsAnnotation] ?? '').split(' ');
  return prefix === '' ? undefined : { prefix, digests: { hostname, target } };
}

function digestOf(value: string): string {
  return createHash('sha256').update(value).digest('hex').slice(0, digestLength);
}

function isEqual(a: Annotations, b: Annotations): boolean {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}

// Reads single fields of objects that a cluster sent. A value of the wrong type, or one that is too long,
// counts as absent, so that no cluster can break the work on others. Pure.

import { isRecord, type JsonRecord } from '../../core/json/is-record.ts';

/** Names, hosts and addresses of Kubernetes are shorter. */
const maxTextLength = 1024;

export function recordIn(value: unknown): JsonRecord {
  return isRecord(value) ? value : {};
}

export function textIn(value: unknown, maxLength = maxTextLength): string | undefined {
  return typeof value === 'string' && value.length <= maxLength ? value : undefined;
}

/** Names of ports and hosts, which the API server checks. Empty is no name. */
export function labelIn(value: unknown): string | undefined {
  const text = textIn(value, 63);
  return text !== undefined && /^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$/.test(text) ? text : undefined;
}

/** A label key, such as http or kubernetes.io/h2c. */
export function protocolNameIn(value: unknown): string | undefined {
  const text = textIn(value, 253);
  const isName =
    text !== undefined &&
    /^([a-z0-9]([-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/.test(text);
  return isName ? text : undefined;
}

/** RFC 3339 in UTC, as the API server writes it. */
export function timeIn(value: unknown): string | undefined {
  const text = textIn(value, 32);
  return text !== undefined && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(text)
    ? text
    : undefined;
}

export function flagIn(value: unknown): boolean | undefined {
  return typeof value === 'boolean' ? value : undefined;
}

export function portIn(value: unknown): number | undefined {
  const isPort = Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 65_535;
  return isPort ? (value as number) : undefined;
}

export function oneOf<T extends string>(value: unknown, values: readonly T[]): T | undefined {
  return values.find((each) => each === value);
}

/** What `read` makes of the first `most` items; it leaves out those for which it returns undefined. */
export function itemsIn<T>(
  value: unknown,
  most: number,
  read: (item: unknown) => T | undefined,
): readonly T[] {
  if (!Array.isArray(value)) return [];
  return value.slice(0, most).flatMap((item: unknown) => {
    const found = read(item);
    return found === undefined ? [] : [found];
  });
}

/** Drops fields that are undefined or empty lists, so that a cached object has only what it says. */
export function compact<T extends object>(
  fields: { readonly [K in keyof T]: T[K] | undefined },
): T {
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined || (Array.isArray(value) && value.length === 0)) continue;
    kept[key] = value;
  }
  return kept as T;
}

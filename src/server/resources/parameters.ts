// Parses single query parameters as kube-apiserver does.

import { badRequest } from './errors.ts';

/** Every value except `false` and `0` is true. */
export function booleanParameter(query: URLSearchParams, name: string): boolean | undefined {
  const value = query.get(name)?.toLowerCase();
  return value === undefined ? undefined : value !== 'false' && value !== '0';
}

export function integerParameter(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name);
  if (value === null || value === '') return undefined;
  if (!/^[+-]?\d+$/.test(value))
    throw badRequest(`strconv.ParseInt: parsing "${value}": invalid syntax`);
  if (!Number.isSafeInteger(Number(value))) {
    throw badRequest(`strconv.ParseInt: parsing "${value}": value out of range`);
  }
  return Number(value);
}

/** A resourceVersion is an unsigned decimal. Callers handle '' and '0' before. */
export function parseResourceVersion(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const quoted = JSON.stringify(text);
  throw badRequest(
    `resourceVersion: Invalid value: ${quoted}: strconv.ParseUint: parsing ${quoted}: invalid syntax`,
  );
}

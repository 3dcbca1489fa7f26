// Single query parameters, read as kube-apiserver reads them.

import { badRequest } from './errors.ts';

/** Whatever is not a no is a yes. */
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

/** A resourceVersion is a decimal without sign; '' and '0' have meanings of their own. */
export function parseResourceVersion(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  const quoted = JSON.stringify(text);
  throw badRequest(
    `resourceVersion: Invalid value: ${quoted}: strconv.ParseUint: parsing ${quoted}: invalid syntax`,
  );
}

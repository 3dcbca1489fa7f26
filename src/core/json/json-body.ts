// Parses the JSON body of a request, with limits on depth and number of values, and shows excerpts of
// bodies that are malformed.

import { HansaError } from '../errors/error.ts';
import { decodeUtf8 } from './decode-utf8.ts';
import { parseBoundedJson } from './strict-json.ts';

/** Undefined where the body is empty. Throws HANSA_BAD_REQUEST. */
export function parseJsonBody(bytes: Buffer): unknown {
  if (bytes.byteLength === 0) return undefined;
  try {
    return parseBoundedJson(bytes);
  } catch (cause) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `Cannot read the body: it is not JSON (${(cause as Error).message}).`,
      { cause },
    );
  }
}

/** Of an empty body: no fields. Throws HANSA_BAD_REQUEST where the value is not an object. */
export function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (value === undefined) return {};
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>;
  }
  throw new HansaError('HANSA_BAD_REQUEST', 'Cannot read the body: it is not a JSON object.');
}

const summaryBytes = 30;

/** The excerpt that kube-apiserver shows of an unrecognized body: text if it looks like JSON, otherwise hex. */
export function summaryOf(body: Buffer): string {
  if (body.length === 0) return '<empty>';
  const start = body.subarray(0, summaryBytes);
  const shown = body[0] === 0x7b ? decodeUtf8(start) : start.toString('hex');
  return body.length > summaryBytes ? `${shown} ...` : shown;
}

// Reads the page that a caller asks for from the query of a list, as in lists of resources. Pure.

import { excerpt } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';

export interface Page {
  /** The key after which it begins. */
  readonly after: string;
  readonly limit?: number;
}

/** `limit` and `continue` as in lists of resources. A limit of 0 is none. `of` names the items. */
export function pageOf(query: URLSearchParams, of: string): Page {
  const limit = query.get('limit') ?? '';
  if (!/^\d{0,9}$/.test(limit)) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      `The parameter limit is ${JSON.stringify(excerpt(limit))}. It must be a number of ${of}.`,
    );
  }
  const token = query.get('continue') ?? '';
  const after = Buffer.from(token, 'base64url').toString();
  if (tokenOf(after) !== token) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      'The parameter continue is not from an answer of this route. Leave it out to begin again.',
    );
  }
  return { after, ...(Number(limit) > 0 && { limit: Number(limit) }) };
}

/** The metadata of a page whose last key is `last`, where there are more. */
export const metadataOf = (last: string | undefined): { readonly continue?: string } =>
  last === undefined ? {} : { continue: tokenOf(last) };

const tokenOf = (key: string): string => Buffer.from(key).toString('base64url');

export function json(value: unknown) {
  return { status: 200, contentType: 'application/json', body: JSON.stringify(value) };
}

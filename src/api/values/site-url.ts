// The URL at which other sites reach a site. Invitations, `--advertise`, Site.spec.advertiseURL and
// FederationPeers contain it.

import { group } from '../object.ts';
import { invalid, invalidObject } from '../schema/field-error.ts';

/** In characters, as written and as parsed: percent-encoding makes a URL longer. */
export const maxSiteURLLength = 2048;

/** For messages. */
export const siteURLRule = `an https URL with a host, for example https://lubeck.example:8443, of at most ${maxSiteURLLength} characters, with no user, query or fragment`;

/** What the parser of the platform would repair or ignore silently: white space, backslashes, an empty user or query. */
const shape = /^https:\/\/[^\s\\/?#@]+(?:\/[^\s\\?#]*)?$/i;

/** Undefined where the text is not such a URL. */
export function parseSiteURL(text: string): URL | undefined {
  if (text.length > maxSiteURLLength || !shape.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.href.length <= maxSiteURLLength && url.port !== '0' ? url : undefined;
}

/**
 * Refuses with HANSA_INVALID a new value of a field that a schema's pattern let through. A value that
 * is stored already passes: it must not keep the rest of the object from being changed.
 */
export function checkSiteURL(
  object: { readonly kind: string; readonly name: string },
  field: string,
  next: string | undefined,
  live: string | undefined,
): void {
  if (next === undefined || next === live || parseSiteURL(next) !== undefined) return;
  throw invalidObject({ group, ...object }, [invalid(field, next, `must be ${siteURLRule}`)]);
}

// Bounds on selectors. kube-apiserver bounds only the URL. A site also bounds each selector, because it parses
// the selector before it looks at any object, and keeps it with a watch.

import { HansaError } from '../../core/errors/error.ts';

const maxLength = 16 * 1024;
/** Requirements, and values of sets such as `in (a,b)`, together. */
const maxTerms = 512;

export type SelectorType = 'label' | 'field';

/** Throws HANSA_BAD_REQUEST. */
export function refuseLongSelector(type: SelectorType, text: string): void {
  if (text.length <= maxLength) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `The ${type} selector has ${text.length} characters. It may have ${maxLength}. Select in several requests.`,
  );
}

/** Throws HANSA_BAD_REQUEST. */
export function refuseManyTerms(type: SelectorType, terms: number): void {
  if (terms <= maxTerms) return;
  throw new HansaError(
    'HANSA_BAD_REQUEST',
    `The ${type} selector has ${terms} terms and values. It may have ${maxTerms}. Select in several requests.`,
  );
}

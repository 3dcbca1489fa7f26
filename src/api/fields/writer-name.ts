// The field manager name of a client.

import { type FieldError, forbidden, invalid, required, tooLong } from '../schema/field-error.ts';
import { isPrintable } from '../schema/go-text.ts';

/** metav1's FieldManagerMaxLength, in bytes of UTF-8. */
const maxManagerBytes = 128;

/**
 * The manager of a client that names none: its User-Agent up to the first slash, as far as it can be
 * printed. Takes the header as Node gives it, one character a byte; what it means is UTF-8.
 */
export function managerFromUserAgent(userAgent: string): string {
  const [product = ''] = Buffer.from(userAgent, 'latin1').toString('utf8').split('/', 1);
  let name = '';
  let bytes = 0;
  for (const character of product) {
    if (!isPrintable(character)) continue;
    const size = Buffer.byteLength(character);
    if (bytes + size > maxManagerBytes) break;
    bytes += size;
    name += character;
  }
  return name;
}

/** What is wrong with the name of a manager, wherever it stands; `path` says where. */
export function checkManagerName(manager: string, path: string): FieldError[] {
  const errors: FieldError[] = [];
  if (Buffer.byteLength(manager) > maxManagerBytes) errors.push(tooLong(path, maxManagerBytes));
  let position = 0;
  for (const character of manager) {
    if (!isPrintable(character)) {
      const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
      const detail = `invalid character U+${code} (at position ${position})`;
      errors.push(invalid(path, manager, detail));
    }
    position += Buffer.byteLength(character);
  }
  return errors;
}

/**
 * What is wrong with the `fieldManager` and `force` parameters of a request. The caller answers
 * with `PatchOptions.meta.k8s.io "" is invalid: …` (or CreateOptions, UpdateOptions).
 */
export function validateManagerOptions(options: {
  readonly fieldManager: string;
  readonly patch?: 'apply' | 'other';
  readonly force?: boolean;
}): FieldError[] {
  const errors: FieldError[] = [];
  if (options.patch === 'apply' && options.fieldManager === '') {
    errors.push(required('fieldManager', 'is required for apply patch'));
  }
  if (options.patch === 'other' && options.force !== undefined) {
    errors.push(forbidden('force', 'may not be specified for non-apply patch'));
  }
  errors.push(...checkManagerName(options.fieldManager, 'fieldManager'));
  return errors;
}

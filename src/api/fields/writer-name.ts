// The name under which a client manages fields.

import type { Cause } from '../../core/errors/error.ts';
import { quoteGo } from '../schema/go-text.ts';
import { isPrintable } from './go-text.ts';

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

/**
 * What is wrong with the `fieldManager` and `force` parameters of a request. The caller answers
 * with `PatchOptions.meta.k8s.io "" is invalid: …` (or CreateOptions, UpdateOptions).
 */
export function validateManagerOptions(options: {
  readonly fieldManager: string;
  readonly patch?: 'apply' | 'other';
  readonly force?: boolean;
}): readonly Cause[] {
  const causes: Cause[] = [];
  const { fieldManager } = options;
  if (options.patch === 'apply' && fieldManager === '') {
    causes.push(required('fieldManager', 'is required for apply patch'));
  }
  if (options.patch === 'other' && options.force !== undefined) {
    causes.push({
      reason: 'FieldValueForbidden',
      message: 'Forbidden: may not be specified for non-apply patch',
      field: 'force',
    });
  }
  if (Buffer.byteLength(fieldManager) > maxManagerBytes) {
    causes.push({
      reason: 'FieldValueTooLong',
      message: `Too long: may not be more than ${maxManagerBytes} bytes`,
      field: 'fieldManager',
    });
  }
  let position = 0;
  for (const character of fieldManager) {
    if (!isPrintable(character)) {
      const point = character.codePointAt(0) ?? 0;
      const code = `U+${point.toString(16).toUpperCase().padStart(4, '0')}`;
      causes.push({
        reason: 'FieldValueInvalid',
        message: `Invalid value: ${quoteGo(fieldManager)}: invalid character ${code} (at position ${position})`,
        field: 'fieldManager',
      });
    }
    position += Buffer.byteLength(character);
  }
  return causes;
}

function required(field: string, detail: string): Cause {
  return { reason: 'FieldValueRequired', message: `Required value: ${detail}`, field };
}

// Errors of single fields, in exactly the words of kube-apiserver
// (k8s.io/apimachinery/pkg/util/validation/field), because clients match on them.

import { type Cause, HansaError } from '../../core/errors/error.ts';
import { printNumber, quoteGo, stringifyGo } from './go-text.ts';

const typeWords = {
  FieldValueRequired: 'Required value',
  FieldValueDuplicate: 'Duplicate value',
  FieldValueInvalid: 'Invalid value',
  FieldValueTypeInvalid: 'Invalid value',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
} as const;

export type FieldErrorType = keyof typeof typeWords;

export interface FieldError {
  readonly type: FieldErrorType;
  /** The path from the root of the object; `<nil>` where it is about the object as a whole. */
  readonly field: string;
  /** What `causes[].message` carries: everything but the path. */
  readonly message: string;
}

/** Bounds the response to a small request with many errors. kube-apiserver has no limit. */
export const mostErrors = 1000;

/** How kube-apiserver prints the path of an error that has none. */
export const wholeObject = '<nil>';

function printed(value: unknown): string {
  if (typeof value === 'string') return quoteGo(value);
  return typeof value === 'number' ? printNumber(value) : stringifyGo(value);
}

function withValue(
  type: FieldErrorType,
  field: string,
  value: unknown,
  detail: string,
): FieldError {
  const tail = detail === '' ? '' : `: ${detail}`;
  return { type, field, message: `${typeWords[type]}: ${printed(value)}${tail}` };
}

export function invalid(field: string, value: unknown, detail: string): FieldError {
  return withValue('FieldValueInvalid', field, value, detail);
}

export function typeInvalid(field: string, value: unknown, detail: string): FieldError {
  return withValue('FieldValueTypeInvalid', field, value, detail);
}

export function duplicate(field: string, value: unknown): FieldError {
  return withValue('FieldValueDuplicate', field, value, '');
}

export function notSupported(
  field: string,
  value: unknown,
  supported: readonly string[],
): FieldError {
  const detail = `supported values: ${supported.map(quoteGo).join(', ')}`;
  return withValue('FieldValueNotSupported', field, value, detail);
}

export function required(field: string, detail = ''): FieldError {
  const tail = detail === '' ? '' : `: ${detail}`;
  return { type: 'FieldValueRequired', field, message: `${typeWords.FieldValueRequired}${tail}` };
}

export function forbidden(field: string, detail: string): FieldError {
  return { type: 'FieldValueForbidden', field, message: `Forbidden: ${detail}` };
}

/** kube-apiserver says bytes here even where it counted characters. */
export function tooLong(field: string, maximum: number): FieldError {
  const unit = maximum === 1 ? 'byte' : 'bytes';
  return {
    type: 'FieldValueTooLong',
    field,
    message: `Too long: may not be more than ${maximum} ${unit}`,
  };
}

export function tooMany(field: string, actual: number, maximum: number): FieldError {
  const unit = maximum === 1 ? 'item' : 'items';
  return withValue('FieldValueTooMany', field, actual, `must have at most ${maximum} ${unit}`);
}

function causeOf(error: FieldError): Cause {
  return { reason: error.type, message: error.message, field: error.field };
}

/** The 422 of kube-apiserver for an object of `kind` in `group`: one sentence, and a cause a field. */
export function invalidObject(
  what: { readonly group: string; readonly kind: string; readonly name: string },
  errors: readonly FieldError[],
): HansaError {
  const sentences = [...new Set(errors.map((error) => `${error.field}: ${error.message}`))];
  const qualified = what.group === '' ? what.kind : `${what.kind}.${what.group}`;
  const list = sentences.length === 1 ? sentences[0] : `[${sentences.join(', ')}]`;
  const message = `${qualified} ${quoteGo(what.name)} is invalid: ${list}`;
  return new HansaError('HANSA_INVALID', message, {
    details: { ...what, causes: errors.map(causeOf) },
  });
}

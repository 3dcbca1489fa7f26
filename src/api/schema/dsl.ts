// The functions that declare schemas. Each keeps the literal type of its argument, so that `Infer`
// returns the exact TypeScript type of a value.

import type {
  AnySchema,
  BooleanSchema,
  IntegerSchema,
  ListSchema,
  MapSchema,
  ObjectSchema,
  Schema,
  StringSchema,
} from './schema.ts';

type Options<S extends Schema> = Omit<S, 'type'>;

export const s = {
  string: <const O extends Options<StringSchema>>(options: O): O & { readonly type: 'string' } => ({
    ...options,
    type: 'string',
  }),

  integer: <const O extends Options<IntegerSchema>>(
    options: O,
  ): O & { readonly type: 'integer' } => ({ ...options, type: 'integer' }),

  boolean: <const O extends Options<BooleanSchema>>(
    options: O,
  ): O & { readonly type: 'boolean' } => ({ ...options, type: 'boolean' }),

  list: <const O extends Options<ListSchema>>(options: O): O & { readonly type: 'list' } => ({
    ...options,
    type: 'list',
  }),

  object: <const O extends Options<ObjectSchema>>(options: O): O & { readonly type: 'object' } => ({
    ...options,
    type: 'object',
  }),

  map: <const O extends Options<MapSchema>>(options: O): O & { readonly type: 'map' } => ({
    ...options,
    type: 'map',
  }),

  any: <const O extends Options<AnySchema>>(options: O): O & { readonly type: 'any' } => ({
    ...options,
    type: 'any',
  }),

  /** A moment in RFC 3339. */
  time: <const O extends Options<StringSchema>>(
    options: O,
  ): O & { readonly type: 'string'; readonly format: 'date-time' } => ({
    ...options,
    type: 'string',
    format: 'date-time',
  }),
};

export function required<const S extends Schema>(
  schema: S,
): { readonly schema: S; readonly required: true } {
  return { schema, required: true };
}

export function optional<const S extends Schema>(
  schema: S,
): { readonly schema: S; readonly required: false } {
  return { schema, required: false };
}

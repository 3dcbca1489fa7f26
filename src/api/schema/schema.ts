// The schema language in which kinds are declared: a small, typed subset of the structural schemas
// of Kubernetes. One declaration gives validation, defaults, pruning, OpenAPI, CRDs, field sets
// for server-side apply, documentation, and by `Infer` the TypeScript type.

export interface Described {
  readonly description: string;
}

export interface StringSchema extends Described {
  readonly type: 'string';
  readonly enum?: readonly string[];
  /** An ECMA 262 expression that RE2 understands too; it is not anchored by itself. */
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  /** 'date-time' is the only format that is validated. */
  readonly format?: 'date-time';
  readonly default?: string;
  readonly nullable?: false;
}

export interface IntegerSchema extends Described {
  readonly type: 'integer';
  readonly format?: 'int32' | 'int64';
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: number;
}

export interface BooleanSchema extends Described {
  readonly type: 'boolean';
  readonly default?: boolean;
}

/** Lists say how they merge (server-side apply): as one value, as a set, or by the keys of their items. */
export interface ListSchema extends Described {
  readonly type: 'list';
  readonly items: Schema;
  readonly listType: 'atomic' | 'set' | 'map';
  /** The fields that identify an item of a list of type 'map'; strings, integers or booleans. */
  readonly keys?: readonly string[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly default?: readonly unknown[];
}

/** An object with known fields. Unknown ones are pruned (and reported, by the request's field validation). */
export interface ObjectSchema extends Described {
  readonly type: 'object';
  readonly fields: Readonly<Record<string, Field>>;
  readonly default?: Readonly<Record<string, unknown>>;
  readonly rules?: readonly Rule[];
  /** 'atomic' makes the whole object one value for server-side apply. */
  readonly mapType?: 'granular' | 'atomic';
}

/** String keys to values of one schema: labels, matchers. */
export interface MapSchema extends Described {
  readonly type: 'map';
  readonly values: Schema;
  readonly maxProperties?: number;
  readonly mapType?: 'granular' | 'atomic';
}

/** Any JSON: kept as it comes. One value for server-side apply. */
export interface AnySchema extends Described {
  readonly type: 'any';
}

export type Schema =
  | StringSchema
  | IntegerSchema
  | BooleanSchema
  | ListSchema
  | ObjectSchema
  | MapSchema
  | AnySchema;

export interface Field {
  readonly schema: Schema;
  readonly required: boolean;
}

/**
 * A rule across fields, said twice: `holds` for our server, `cel` for the CRD that a Kubernetes
 * cluster is given. The oracle test checks that both say the same. A rule is only asked where the
 * value is structurally sound.
 */
export interface Rule {
  readonly cel: string;
  readonly message: string;
  readonly holds: (value: never, old: never) => boolean;
}

type InferField<F extends Field> = Infer<F['schema']>;
type RequiredKeys<F extends Readonly<Record<string, Field>>> = {
  [K in keyof F]: F[K]['required'] extends true
    ? K
    : F[K]['schema'] extends { readonly default: unknown }
      ? K
      : never;
}[keyof F];

/** The TypeScript type of a value that passed defaulting and validation. */
export type Infer<S extends Schema> = S extends {
  readonly type: 'string';
  readonly enum: infer E extends readonly string[];
}
  ? E[number]
  : S extends StringSchema
    ? string
    : S extends IntegerSchema
      ? number
      : S extends BooleanSchema
        ? boolean
        : S extends { readonly type: 'list'; readonly items: infer I extends Schema }
          ? readonly Infer<I>[]
          : S extends {
                readonly type: 'object';
                readonly fields: infer F extends Readonly<Record<string, Field>>;
              }
            ? { readonly [K in RequiredKeys<F>]: InferField<F[K]> } & {
                readonly [K in Exclude<keyof F, RequiredKeys<F>>]?: InferField<F[K]>;
              }
            : S extends { readonly type: 'map'; readonly values: infer V extends Schema }
              ? Readonly<Record<string, Infer<V>>>
              : unknown;

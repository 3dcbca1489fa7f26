// The schema language in which kinds are declared: a small, typed subset of the structural schemas
// of Kubernetes. One declaration gives validation, defaults, pruning, OpenAPI, CRDs, field sets for
// server-side apply, documentation, and the TypeScript type (`Infer`).

export interface Described {
  readonly description: string;
}

export interface StringSchema extends Described {
  readonly type: 'string';
  readonly enum?: readonly string[];
  /** An ECMA 262 expression that RE2 understands too; it is not anchored by itself. */
  readonly pattern?: string;
  /** What to write, in a few words: said instead of the pattern where a value does not match it. Here only: a CRD has no place for it. */
  readonly hint?: string;
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

/**
 * Any JSON: kept as it comes. Server-side apply tracks an object in it field by field and a list as
 * one value, as kube-apiserver does with `x-kubernetes-preserve-unknown-fields`.
 */
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
 * A rule across fields, declared twice: `holds` for our server, and `cel` for the CRD. The oracle
 * test checks that both have the same result. A rule runs only if the value is structurally valid.
 */
export interface Rule {
  readonly cel: string;
  readonly message: string;
  readonly holds: (value: never, old: never) => boolean;
}

/**
 * The TypeScript type of a value that passed defaulting and validation. A field is optional where
 * it is neither required nor has a default.
 */
export type Infer<S extends Schema> = ValueOf<S>;

// Below `Infer` nothing is constrained to be a Schema: to check that again at each level of a deep
// declaration would cost the compiler more than it can spend.
type ValueOf<S> = S extends { readonly type: 'string' }
  ? S extends { readonly enum: readonly (infer E)[] }
    ? E
    : string
  : S extends { readonly type: 'integer' }
    ? number
    : S extends { readonly type: 'boolean' }
      ? boolean
      : S extends { readonly type: 'list'; readonly items: infer I }
        ? readonly ValueOf<I>[]
        : S extends { readonly type: 'object'; readonly fields: infer F }
          ? ObjectOf<F>
          : S extends { readonly type: 'map'; readonly values: infer V }
            ? Readonly<Record<string, ValueOf<V>>>
            : unknown;

type ObjectOf<F> = {
  readonly [K in keyof F as IsPresent<F[K]> extends true ? K : never]: FieldValue<F[K]>;
} & {
  readonly [K in keyof F as IsPresent<F[K]> extends true ? never : K]?: FieldValue<F[K]>;
};

type FieldValue<F> = F extends { readonly schema: infer S } ? ValueOf<S> : unknown;

type IsPresent<F> = F extends { readonly required: true }
  ? true
  : F extends { readonly schema: { readonly default: unknown } }
    ? true
    : false;

// Declarations of configuration keys. The site declares its own keys (server/config/keys.ts) and
// every plane declares the keys that it reads. This folder contains the types of these declarations
// and the parsers of values, and no keys.

/** One key of the configuration: a flag, a variable and an entry of the YAML file. */
export interface ConfigKey<T = unknown> {
  /** Placeholder for the value in help texts. */
  readonly placeholder: string;
  readonly meaning: string;
  /** As a user would write it; parsed like any other value. Undefined: see `withoutIt`. */
  readonly default?: string;
  /** What happens where there is neither a value nor a default. */
  readonly withoutIt?: string;
  /** A variable that another program uses for the same setting. Read where ours is not set. */
  readonly otherVariable?: string;
  /** The flag applies to one run: the data folder does not store it. */
  readonly oneRun?: true;
  /** For keys of planes: the site's key that it follows in help texts. Default: the previous key of the plane. */
  readonly after?: string;
  parse(text: string, baseFolder: string): T;
  format(value: T): string;
}

/** By name, for example `ca.ttlSeconds`. A name with a dot is nested in the YAML file. */
export type ConfigKeys = Readonly<Record<string, ConfigKey>>;

export type ValuesOf<Keys extends ConfigKeys> = {
  readonly [Name in keyof Keys]: ReturnType<Keys[Name]['parse']>;
};

type Declaration<T> = Pick<
  ConfigKey,
  'placeholder' | 'meaning' | 'otherVariable' | 'oneRun' | 'after'
> & {
  readonly parse: (text: string, baseFolder: string) => T;
  /** `String` unless given. */
  readonly format?: (value: T) => string;
};

/** A key that always has a value. */
export function configKey<T>(
  declaration: Declaration<T> & { readonly default: string },
): ConfigKey<T> {
  return { format: String, ...declaration };
}

/** A key whose value is undefined where a user sets none. */
export function optionalConfigKey<T>(
  declaration: Declaration<T> & { readonly withoutIt: string },
): ConfigKey<T | undefined> {
  const { format = String, ...rest } = declaration;
  return { ...rest, format: (value) => (value === undefined ? '' : format(value)) };
}

/** One problem where `given` is set and `other` is not. */
export function needs<Values extends Readonly<Record<string, unknown>>>(
  values: Values,
  given: keyof Values & string,
  other: keyof Values & string,
): readonly string[] {
  return values[given] !== undefined && values[other] === undefined
    ? [`${given} needs ${other}`]
    : [];
}

// The objects that the in-memory API server stores. They are JSON, and are never changed in place.

export type Fields = Readonly<Record<string, unknown>>;

export interface StoredOwner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

export interface StoredMeta extends Fields {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly generation?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly StoredOwner[];
}

export interface StoredObject extends Fields {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: StoredMeta;
}

/** Before the server has set what it sets. */
export interface SentObject extends Fields {
  readonly metadata: Fields;
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Fields)
    : {};
}

/** Without fields that are undefined, as JSON has none. */
export function defined(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** Of a value that should be a text. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

// Reads the manifest of another program field by field. A converter that ends with `end` drops no field
// silently, because a dropped field would seem to take effect.

import { apiVersion, type Json, type JsonObject } from '../../api/object.ts';
import type { Refuse } from './command-line.ts';

/** Reads an object field by field. `end` rejects the fields that were not read. */
export class ManifestReader {
  readonly #value: JsonObject;
  readonly #path: string;
  readonly #refuse: Refuse;
  readonly #taken = new Set<string>();

  constructor(value: JsonObject, path: string, refuse: Refuse) {
    this.#value = value;
    this.#path = path;
    this.#refuse = refuse;
  }

  has(field: string): boolean {
    const value = this.#own(field);
    return value !== undefined && value !== null;
  }

  take(field: string): Json | undefined {
    this.#taken.add(field);
    return this.has(field) ? this.#own(field) : undefined;
  }

  text(field: string): string {
    const value = this.take(field);
    // YAML reads a bare 2027-01-01T00:00:00Z as text in its core schema, so text it is.
    return typeof value === 'string' && value !== '' ? value : this.#wrong(field, 'a text', value);
  }

  empty(field: string): void {
    const value = this.take(field);
    if (value !== undefined && value !== '') this.#wrong(field, 'empty', value);
  }

  object(field: string): ManifestReader {
    const value = this.take(field);
    return isRecord(value)
      ? new ManifestReader(value, this.#at(field), this.#refuse)
      : this.#wrong(field, 'an object', value);
  }

  /** The names of the fields, in their order. */
  get fields(): readonly string[] {
    return Object.keys(this.#value);
  }

  texts(field: string): readonly string[] {
    const value = this.take(field);
    return Array.isArray(value) && value.every((each) => typeof each === 'string')
      ? value
      : this.#wrong(field, 'a list of texts', value);
  }

  objects(field: string): readonly ManifestReader[] {
    const value = this.take(field);
    if (!Array.isArray(value)) return this.#wrong(field, 'a list', value);
    return value.map((each: Json, index) =>
      isRecord(each)
        ? new ManifestReader(each, `${this.#at(field)}[${index}]`, this.#refuse)
        : this.#wrong(`${field}[${index}]`, 'an object', each),
    );
  }

  end(): void {
    const unknown = Object.keys(this.#value).find((field) => !this.#taken.has(field));
    if (unknown !== undefined) {
      this.#refuse(
        `${this.#at(unknown)} has no counterpart here: remove it, or write the manifest with apiVersion ${apiVersion}.`,
      );
    }
  }

  #own(field: string): Json | undefined {
    return Object.hasOwn(this.#value, field) ? this.#value[field] : undefined;
  }

  #at(field: string): string {
    return this.#path === '' ? field : `${this.#path}.${field}`;
  }

  #wrong(field: string, wanted: string, value: Json | undefined): never {
    const what = value === undefined ? 'is missing' : `must be ${wanted}`;
    return this.#refuse(`${this.#at(field)} ${what}.`);
  }
}

function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

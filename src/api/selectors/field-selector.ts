// Field selectors: `metadata.name=x,spec.role!=y`, over the few fields that a kind declares. The
// grammar and the error messages are those of Kubernetes; in a value, a backslash escapes `\`, `,`
// and `=`.

import { HansaError } from '../../core/errors/error.ts';
import type { Kind } from '../kind.ts';
import { compareBytes } from '../schema/go-text.ts';
import { isObject } from '../schema/json.ts';
import { refuseLongSelector, refuseManyTerms } from './selector-bounds.ts';

export interface FieldSelector {
  /** Whether it selects everything. */
  readonly empty: boolean;
  /** The one name that it asks for, if it does: the server then need not look at all objects. */
  readonly name: string | undefined;
  matches(object: unknown): boolean;
}

interface Term {
  readonly field: string;
  readonly path: readonly string[];
  readonly equal: boolean;
  readonly value: string;
}

function fail(message: string): never {
  throw new HansaError('HANSA_BAD_REQUEST', message);
}

/** Throws HANSA_BAD_REQUEST. */
export function parseFieldSelector(kind: Kind, text: string): FieldSelector {
  refuseLongSelector('field', text);
  const parts = splitTerms(text);
  refuseManyTerms('field', parts.length);
  const terms = parts
    .toSorted(compareBytes)
    .filter((part) => part !== '')
    .map((part) => parseTerm(part, text))
    // A bare operator says nothing, and is taken so.
    .filter((term) => term.field !== '' || term.value !== '');
  const supported = new Set(['metadata.name', ...(kind.selectableFields ?? [])]);
  for (const { field } of terms) {
    if (!supported.has(field)) fail(`field label not supported: ${field}`);
  }
  return {
    empty: terms.length === 0,
    name: terms.find((term) => term.equal && term.field === 'metadata.name')?.value,
    matches: matcherOf(terms),
  };
}

/** Each field is read once an object, however many terms are about it: there may be hundreds. */
function matcherOf(terms: readonly Term[]): FieldSelector['matches'] {
  const equal = new Map<string, Term>();
  const unequal = new Map<string, { readonly path: readonly string[]; values: Set<string> }>();
  let contradicts = false;
  for (const term of terms) {
    if (term.equal) {
      contradicts ||= (equal.get(term.field) ?? term).value !== term.value;
      equal.set(term.field, term);
    } else {
      const known = unequal.get(term.field) ?? { path: term.path, values: new Set() };
      known.values.add(term.value);
      unequal.set(term.field, known);
    }
  }
  return (object) => {
    if (contradicts) return false;
    for (const { path, value } of equal.values()) if (valueAt(object, path) !== value) return false;
    for (const { path, values } of unequal.values())
      if (values.has(valueAt(object, path))) return false;
    return true;
  };
}

function parseTerm(part: string, whole: string): Term {
  const operator = /!=|==|=/.exec(part);
  if (operator === null) fail(`invalid selector: '${whole}'; can't understand '${part}'`);
  const field = part.slice(0, operator.index);
  const value = unescapeValue(part.slice(operator.index + operator[0].length));
  return { field, path: field.split('.'), equal: operator[0] !== '!=', value };
}

function splitTerms(text: string): string[] {
  const terms: string[] = [];
  let start = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '\\') i++;
    else if (text[i] === ',') {
      terms.push(text.slice(start, i));
      start = i + 1;
    }
  }
  terms.push(text.slice(start));
  return terms;
}

function unescapeValue(text: string): string {
  if (!/[\\,=]/.test(text)) return text;
  let value = '';
  let escaped = false;
  for (const rune of text) {
    if (escaped) {
      if (rune !== '\\' && rune !== ',' && rune !== '=') {
        fail(`invalid field selector: invalid escape sequence: \\${rune}`);
      }
      value += rune;
      escaped = false;
    } else if (rune === '\\') {
      escaped = true;
    } else if (rune === ',' || rune === '=') {
      // Go prints the number of the character here.
      fail(`invalid field selector: unescaped character in value: ${rune.charCodeAt(0)}`);
    } else {
      value += rune;
    }
  }
  if (escaped) fail('invalid field selector: invalid escape sequence: \\');
  return value;
}

/** A field that is not there counts as empty. */
function valueAt(object: unknown, path: readonly string[]): string {
  let value = object;
  for (const name of path) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return '';
    value = value[name];
  }
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

// Checks a value against its schema as far as field ownership needs: types, declared fields, and
// distinct list items. The messages are those of kube-apiserver, because tools match on them (`field
// not declared in schema`).

import type { Json } from '../object.ts';
import { mostErrors } from '../schema/field-error.ts';
import { compareBytes, quoteGo } from '../schema/go-text.ts';
import type { ListSchema, Schema } from '../schema/schema.ts';
import { isJsonArray, isJsonObject } from './json-value.ts';
import { type PathElement, fieldElement, printPathElement } from './path-element.ts';
import { SchemaMismatch, fieldSchema, itemElement, printGo } from './shape.ts';

interface Finding {
  path: string;
  readonly message: string;
}

/** Throws a SchemaMismatch that lists every finding, or the first thousand. */
export function checkTyped(schema: Schema, value: Json, allowDuplicates: boolean): void {
  const findings = check(schema, value, allowDuplicates);
  if (findings.length === 0) return;
  const lines = findings.map(({ path, message }) =>
    path === '' ? message : `${path}: ${message}`,
  );
  throw new SchemaMismatch(
    lines.length === 1
      ? String(lines[0])
      : ['errors:', ...lines.map((line) => `  ${line}`)].join('\n'),
  );
}

function finding(message: string): Finding[] {
  return [{ path: '', message }];
}

function below(element: PathElement, findings: Finding[]): Finding[] {
  for (const item of findings) item.path = printPathElement(element) + item.path;
  return findings;
}

function check(schema: Schema, value: Json, allowDuplicates: boolean): Finding[] {
  if (value === null) return [];
  switch (schema.type) {
    case 'string':
      if (schema.format !== undefined) {
        return typeof value === 'object'
          ? finding(`expected any scalar, got &{${printGo(value)}}`)
          : [];
      }
      if (typeof value === 'string') return [];
      return finding(
        `expected string, got &value.valueUnstructured{Value:${printGoSyntax(value)}}`,
      );
    case 'integer':
      return typeof value === 'number'
        ? []
        : finding(`expected numeric (int or float), got ${goTypeName(value)}`);
    case 'boolean':
      return typeof value === 'boolean'
        ? []
        : finding(`expected boolean, got &{${printGo(value)}}`);
    case 'list':
      return isJsonArray(value)
        ? checkItems(schema, value, allowDuplicates)
        : finding(`expected list, got &{${printGo(value)}}`);
    case 'any':
      return [];
    default: {
      if (!isJsonObject(value)) return finding(`expected map, got &{${printGo(value)}}`);
      const findings: Finding[] = [];
      // kube-apiserver goes through the fields in a random order and stops at the first undeclared
      // one; we name them all, in the order of their names.
      for (const name of Object.keys(value).toSorted(compareBytes)) {
        const inner = fieldSchema(schema, name);
        const found =
          inner === undefined
            ? finding('field not declared in schema')
            : check(inner, value[name] as Json, allowDuplicates);
        findings.push(...below(fieldElement(name), found));
        if (findings.length >= mostErrors) break;
      }
      return findings;
    }
  }
}

function checkItems(list: ListSchema, items: readonly Json[], allowDuplicates: boolean): Finding[] {
  const findings: Finding[] = [];
  const seen = new Set<PathElement>();
  for (const [i, item] of items.entries()) {
    let element: PathElement = `i:${i}`;
    if (list.listType !== 'atomic') {
      try {
        element = itemElement(list, item);
      } catch (mismatch) {
        if (!(mismatch instanceof SchemaMismatch)) throw mismatch;
        findings.push(...finding(`element ${i}: ${mismatch.message}`));
        return findings;
      }
      if (seen.has(element) && !allowDuplicates) {
        findings.push(...finding(`duplicate entries for key ${printPathElement(element)}`));
      }
      seen.add(element);
    }
    findings.push(...below(element, check(list.items, item, allowDuplicates)));
    if (findings.length >= mostErrors) break;
  }
  return findings;
}

/** Go's `%T` of a decoded JSON value. */
function goTypeName(value: Json): string {
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int64' : 'float64';
  return isJsonArray(value) ? '[]interface {}' : 'map[string]interface {}';
}

/** Go's `%#v` of a decoded JSON value. */
function printGoSyntax(value: Json): string {
  if (typeof value === 'string') return quoteGo(value);
  if (value === null) return 'interface {}(nil)';
  if (isJsonArray(value)) return `[]interface {}{${value.map(printGoSyntax).join(', ')}}`;
  if (isJsonObject(value)) {
    const fields = Object.keys(value)
      .toSorted(compareBytes)
      .map((key) => `${quoteGo(key)}:${printGoSyntax(value[key] ?? null)}`);
    return `map[string]interface {}{${fields.join(', ')}}`;
  }
  return String(value);
}

// The order of `--sort-by PATH`, as in kubectl: numbers by value, text in natural order (a2 before a10),
// and objects without the field first.

import { compilePath } from './jsonpath.ts';

export type Compare = (a: unknown, b: unknown) => number;

const collator = new Intl.Collator('en', { numeric: true });

export function compareBy(path: string): Compare {
  const read = compilePath(path.replace(/^=/, ''));
  return (a, b) => compareValues(read(a), read(b));
}

function compareValues(a: unknown, b: unknown): number {
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined);
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return collator.compare(textOf(a), textOf(b));
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

// The text of `hansa describe`, as in kubectl: indented, with field names as words. Pure.

import type { Resource } from '../../api/object.ts';
import { conditionsOf } from '../commands/wait-goal.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';

/** Omits the copy of the whole object that kubectl stores, as kubectl describe does. */
function withoutLastApplied(
  annotations: Resource['metadata']['annotations'],
): Resource['metadata']['annotations'] {
  const { 'kubectl.kubernetes.io/last-applied-configuration': _lastApplied, ...shown } =
    annotations ?? {};
  return shown;
}

export function describeObject(object: Resource): string {
  const { metadata } = object;
  const lines = [
    ...head('Name', metadata.name),
    ...head('Labels', pairs(metadata.labels)),
    ...head('Annotations', pairs(withoutLastApplied(metadata.annotations))),
    ...head('API Version', object.apiVersion),
    ...head('Kind', object.kind),
    ...head('Created', metadata.creationTimestamp),
    ...(metadata.deletionTimestamp === undefined
      ? []
      : head('Deleting since', metadata.deletionTimestamp)),
    ...(metadata.finalizers === undefined
      ? []
      : head('Finalizers', metadata.finalizers.join(', '))),
    ...head('Revision', metadata.resourceVersion),
    ...head('Generation', String(metadata.generation)),
    ...head('Managers', managersOf(object)),
  ];
  for (const part of ['spec', 'status'] as const) {
    const value = object[part];
    if (value === undefined) continue;
    lines.push(`${words(part)}:`);
    lines.push(...tree(withoutConditions(value), 2));
  }
  const conditions = conditionsOf(object);
  if (conditions.length > 0) {
    const rows = conditions.map(({ type, status, reason, lastTransitionTime, message }) =>
      [type, status, reason, lastTransitionTime, message].map((cell) => printable(cell)),
    );
    const table = renderColumns([['Type', 'Status', 'Reason', 'Since', 'Message'], ...rows]);
    lines.push('Conditions:', ...table.split('\n').map((line) => `  ${line}`));
  }
  return lines.join('\n');
}

/** Fits the longest heading and three spaces. */
const headWidth = 17;

function head(name: string, value: string | readonly string[]): string[] {
  const values = typeof value === 'string' ? [value] : value;
  return (values.length === 0 ? ['<none>'] : values).map((text, index) =>
    `${(index === 0 ? `${name}:` : '').padEnd(headWidth)}${printable(text)}`.trimEnd(),
  );
}

function pairs(map: Readonly<Record<string, string>> | undefined): string[] {
  return Object.entries(map ?? {}).map(([key, value]) => `${key}=${value}`);
}

function managersOf(object: Resource): string[] {
  return (object.metadata.managedFields ?? []).map(({ manager, operation, subresource, time }) => {
    const what = subresource === undefined ? operation : `${operation} ${subresource}`;
    return `${manager} (${what}${time === undefined ? '' : `, ${time}`})`;
  });
}

function withoutConditions(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('conditions' in value)) return value;
  const { conditions: _conditions, ...rest } = value;
  return rest;
}

function tree(value: unknown, indent: number): string[] {
  const margin = ' '.repeat(indent);
  if (!isBranch(value)) return [`${margin}${leaf(value)}`];
  const entries = Array.isArray(value)
    ? value.map((item): [string, unknown] => ['-', item])
    : Object.entries(value).map(([key, item]): [string, unknown] => [`${words(key)}:`, item]);
  if (entries.length === 0) return [`${margin}<none>`];
  return entries.flatMap(([key, item]) => {
    if (!isBranch(item)) {
      // Further lines of a text are indented, so that none looks like a field.
      return `${key} ${leaf(item)}`
        .split('\n')
        .map((line, i) => `${margin}${i === 0 ? '' : '    '}${line}`);
    }
    const below = tree(item, indent + 2);
    if (key !== '-') return [`${margin}${key}`, ...below];
    // The first line of an item stands beside its dash.
    const [first = '', ...rest] = below;
    return [`${margin}- ${first.trimStart()}`, ...rest];
  });
}

function isBranch(value: unknown): value is Record<string, unknown> | unknown[] {
  return typeof value === 'object' && value !== null;
}

/** Longer values, such as bundles, are cut. */
const maxLeafCharacters = 256;

function leaf(value: unknown): string {
  const text = typeof value === 'string' ? value.trimEnd() : (JSON.stringify(value) ?? '');
  if (text.length <= maxLeafCharacters) return printable(text, false);
  const beginning = text.slice(0, 64).replaceAll(/\s+/g, ' ');
  return `${printable(beginning)}… (${text.length} characters; hansa get -o yaml shows all)`;
}

/** `spiffeID` → `Spiffe ID`, `advertiseURL` → `Advertise URL`. */
export function words(key: string): string {
  // Keys of maps come from users and stay as they are. Only field names become words.
  if (!/^[a-z][A-Za-z0-9]*$/.test(key)) return printable(key);
  const spaced = key.replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2');
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

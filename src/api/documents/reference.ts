// Generates the Markdown reference page of a kind for docs/reference from its declaration.

import type { Kind, NameRule } from '../kind.ts';
import { apiVersion } from '../object.ts';
import type { Field, ObjectSchema, Schema } from '../schema/schema.ts';
import { verbsOf } from './discovery.ts';

export function referencePage(kind: Kind): string {
  const lines = [
    `# ${kind.kind}`,
    '',
    kind.description,
    '',
    '| | |',
    '|---|---|',
    `| apiVersion | \`${apiVersion}\` |`,
    `| names | ${namesOf(kind)} |`,
    `| verbs | ${[...verbsOf(kind)].toSorted().join(', ')} |`,
    `| object names | ${nameRuleOf(kind)} |`,
  ];
  if (kind.selectableFields !== undefined && kind.selectableFields.length > 0) {
    const fields = ['metadata.name', ...kind.selectableFields].map((field) => `\`${field}\``);
    lines.push(`| field selectors | ${fields.join(', ')} |`);
  }
  lines.push('', ...fieldTable('spec', kind.spec, kind.specRequired));
  if (kind.status !== undefined) lines.push('', ...fieldTable('status', kind.status, false));
  lines.push('', ...columnTable(kind), '');
  return lines.join('\n');
}

function namesOf(kind: Kind): string {
  return [kind.plural, kind.singular, ...kind.shortNames].map((name) => `\`${name}\``).join(', ');
}

const nameRules: Readonly<Record<NameRule, string>> = {
  'trust-domain': 'a trust domain: lower-case letters, digits, `.`, `-` and `_`',
  'dns-subdomain': 'a DNS subdomain: lower-case letters, digits, `-` and `.`',
  'dns-label': 'a DNS label: at most 63 lower-case letters, digits and `-`',
  agent: 'at most 63 lower-case letters, digits, `.`, `-` and `_`',
};

function nameRuleOf(kind: Kind): string {
  if (kind.singleton !== undefined) return `only \`${kind.singleton}\``;
  return nameRules[kind.names];
}

function fieldTable(name: string, schema: ObjectSchema, required: boolean): string[] {
  const lines = [
    `## ${name}`,
    '',
    `${schema.description}${required ? ' Required.' : ''}`,
    '',
    '| field | type | | |',
    '|---|---|---|---|',
  ];
  collectRows('', schema, lines);
  for (const rule of rulesBelow(schema)) lines.push('', `Rule: ${rule}.`);
  return lines;
}

function rulesBelow(schema: Schema): string[] {
  if (schema.type === 'list') return rulesBelow(schema.items);
  if (schema.type === 'map') return rulesBelow(schema.values);
  if (schema.type !== 'object') return [];
  return [
    ...(schema.rules ?? []).map((rule) => rule.message),
    ...Object.values(schema.fields).flatMap((field) => rulesBelow(field.schema)),
  ];
}

function collectRows(prefix: string, schema: Schema, lines: string[]): void {
  if (schema.type === 'list') collectRows(`${prefix}[]`, schema.items, lines);
  else if (schema.type === 'map') collectRows(`${prefix}.*`, schema.values, lines);
  else if (schema.type === 'object') {
    for (const [name, field] of Object.entries(schema.fields)) {
      const path = prefix === '' ? name : `${prefix}.${name}`;
      lines.push(rowOf(path, field));
      collectRows(path, field.schema, lines);
    }
  }
}

function rowOf(path: string, { schema, required }: Field): string {
  const limits = limitsOf(schema);
  const facts = [...(required ? ['required'] : []), ...limits].join('; ');
  const cells = [`\`${path}\``, typeOf(schema), facts, schema.description];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

function typeOf(schema: Schema): string {
  if (schema.type === 'list') return `list of ${typeOf(schema.items)}`;
  if (schema.type === 'map') return `map to ${typeOf(schema.values)}`;
  if (schema.type === 'string' && schema.format === 'date-time') return 'time';
  return schema.type;
}

function limitsOf(schema: Schema): string[] {
  const limits: string[] = [];
  if ('default' in schema) limits.push(`default \`${JSON.stringify(schema.default)}\``);
  if (schema.type === 'string') {
    if (schema.enum !== undefined) {
      limits.push(`one of ${schema.enum.map((value) => `\`${value}\``).join(', ')}`);
    }
    if (schema.minLength !== undefined) limits.push(`at least ${schema.minLength} characters`);
    if (schema.maxLength !== undefined) limits.push(`at most ${schema.maxLength} characters`);
    if (schema.pattern !== undefined) limits.push(`matches \`${schema.pattern}\``);
  } else if (schema.type === 'integer') {
    if (schema.minimum !== undefined) limits.push(`at least ${schema.minimum}`);
    if (schema.maximum !== undefined) limits.push(`at most ${schema.maximum}`);
  } else if (schema.type === 'list') {
    if (schema.listType === 'set') limits.push('each item once');
    if (schema.keys !== undefined) limits.push(`one item per ${schema.keys.join(' and ')}`);
    if (schema.minItems !== undefined) limits.push(`at least ${schema.minItems} items`);
    if (schema.maxItems !== undefined) limits.push(`at most ${schema.maxItems} items`);
    limits.push(...limitsOf(schema.items).map((limit) => `each ${limit}`));
  }
  return limits;
}

function columnTable(kind: Kind): string[] {
  const lines = ['## Columns', '', '| column | | shows |', '|---|---|---|'];
  for (const column of kind.columns) {
    const wide = (column.priority ?? 0) > 0 ? '`-o wide`' : '';
    const cells = [
      column.name.toUpperCase(),
      wide,
      `${column.description} (\`${column.jsonPath}\`)`,
    ];
    lines.push(`| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`);
  }
  return lines;
}

// `hansa explain`: explains error codes, exit codes, kinds and their fields.

import { Command } from 'commander';
import type { Kind } from '../../api/kind.ts';
import { group, version } from '../../api/object.ts';
import { objectSchema } from '../../api/resource-schema.ts';
import type { Field, ObjectSchema, Schema } from '../../api/schema/schema.ts';
import type { ErrorCatalog } from '../../core/errors/plane-errors.ts';
import { nearest } from '../../server/config/nearest.ts';
import type { Cli } from '../cli.ts';
import { exitCodeOf, exitCodes } from '../exit-codes.ts';
import { findKind } from '../input/kind-argument.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { renderColumns } from '../../core/command/columns.ts';

export function explainCommand(cli: Cli): Command {
  return new Command('explain')
    .description('explain an error code, a kind or one of its fields')
    .argument(
      '[subject]',
      'HANSA_CODE, KIND, KIND.path.to.field, exit-codes or error-codes (default: list the kinds)',
    )
    .addHelpText(
      'after',
      `
Examples:
  hansa explain
  hansa explain HANSA_CONFLICT
  hansa explain role
  hansa explain rolebinding.spec.subjects
  hansa explain 5
  hansa explain exit-codes`,
    )
    .action((subject: string | undefined) => {
      if (subject === undefined) {
        cli.print(explainKinds(cli.registry.kinds));
        return;
      }
      const code = codeMeant(cli.errors, subject);
      if (subject === 'exit-codes') cli.print(explainExitCodes());
      else if (subject === 'error-codes') cli.print(explainErrorCodes(cli.errors));
      else if (/^\d+$/.test(subject)) cli.print(explainExitCode(cli.errors, Number(subject)));
      else if (code !== undefined) cli.print(explainError(cli.errors, code));
      else cli.print(explainField(...splitSubject(cli, subject)));
    });
}

function explainKinds(kinds: readonly Kind[]): string {
  const rows = kinds.map((kind) => [
    kind.plural,
    kind.shortNames.join(','),
    kind.kind,
    /^.*?[.:](?=\s|$)/.exec(kind.description)?.[0].replace(/:$/, '.') ?? kind.description,
  ]);
  return renderColumns([['NAME', 'SHORT', 'KIND', 'WHAT IT IS'], ...rows]);
}

function explainExitCodes(): string {
  return renderColumns(
    Object.values(exitCodes).map(({ code, meaning }) => [String(code), meaning]),
  );
}

function explainExitCode(errors: ErrorCatalog, number: number): string {
  const known = Object.values(exitCodes).find(({ code }) => code === number);
  if (known === undefined) {
    throw usageError(`There is no exit code ${number}. To list them: hansa explain exit-codes.`);
  }
  const rows = [...errors]
    .filter(([, { like }]) => exitCodeOf(like) === number)
    .map(([code, { meaning }]) => [code, meaning]);
  return [`${number}  ${known.meaning}`, ...(rows.length === 0 ? [] : [renderColumns(rows)])].join(
    '\n',
  );
}

function explainErrorCodes(errors: ErrorCatalog): string {
  return renderColumns([...errors].map(([code, { meaning }]) => [code, meaning]));
}

/** Accepts lower case, and the code without its prefix. Undefined if the text is not a code. */
function codeMeant(errors: ErrorCatalog, subject: string): string | undefined {
  const upper = subject.toUpperCase().replaceAll('-', '_');
  if (upper.startsWith('HANSA_')) return upper;
  return errors.has(`HANSA_${upper}`) ? `HANSA_${upper}` : undefined;
}

export function explainError(errors: ErrorCatalog, code: string): string {
  const found = errors.get(code);
  if (found === undefined) {
    const meant = nearest(code, [...errors.keys()]);
    const hint =
      meant === undefined ? ' To list them: hansa explain error-codes.' : ` Did you mean ${meant}?`;
    throw usageError(`There is no error code ${code}.${hint}`);
  }
  const { meaning, remedy, like } = found;
  const rows = [
    ['meaning', meaning],
    ['remedy', remedy],
    ['exit code', String(exitCodeOf(like))],
  ];
  return `${code}\n${renderColumns(rows)}`;
}

function splitSubject(cli: Cli, subject: string): [Kind, readonly string[]] {
  const [head = '', ...path] = subject.split('.');
  return [findKind(cli.registry, head), path];
}

export function explainField(kind: Kind, path: readonly string[]): string {
  let field: Field = { schema: objectSchema(kind), required: true };
  for (const [depth, name] of path.entries()) {
    const next = childOf(field.schema, name);
    if (next === undefined) {
      const known = Object.keys(objectOf(field.schema)?.fields ?? {});
      const meant = nearest(name, known);
      const hint =
        meant === undefined
          ? `Its fields: ${known.join(', ') || 'none'}.`
          : `Did you mean ${meant}?`;
      const where = [kind.kind, ...path.slice(0, depth)].join('.');
      throw usageError(`${where} has no field ${name}. ${hint}`);
    }
    field = next;
  }
  const lines = [
    `GROUP:      ${group}`,
    `KIND:       ${kind.kind}`,
    `VERSION:    ${version}`,
    '',
    ...(path.length === 0
      ? []
      : [`FIELD:      ${path.join('.')} <${typeName(field.schema)}>${mark(field)}`, '']),
    'DESCRIPTION:',
    ...wrap(field.schema.description, 4, 90),
    ...constraints(field.schema).map((line) => `    ${line}`),
  ];
  const object = objectOf(field.schema);
  if (object === undefined) return lines.join('\n');
  lines.push('', 'FIELDS:');
  for (const [name, child] of Object.entries(object.fields)) {
    lines.push(`  ${name} <${typeName(child.schema)}>${mark(child)}`);
    lines.push(...wrap(child.schema.description, 6, 90));
    lines.push(...constraints(child.schema).map((line) => `      ${line}`));
    lines.push('');
  }
  return lines.join('\n').trimEnd();
}

/** The object schema in which a path continues, inside lists and maps. */
function objectOf(schema: Schema): ObjectSchema | undefined {
  if (schema.type === 'object') return schema;
  if (schema.type === 'list') return objectOf(schema.items);
  return schema.type === 'map' ? objectOf(schema.values) : undefined;
}

function childOf(schema: Schema, name: string): Field | undefined {
  const object = objectOf(schema);
  return object !== undefined && Object.hasOwn(object.fields, name)
    ? object.fields[name]
    : undefined;
}

function mark(field: Field): string {
  return field.required ? ' -required-' : '';
}

export function typeName(schema: Schema): string {
  switch (schema.type) {
    case 'list':
      return `[]${typeName(schema.items)}`;
    case 'map':
      return `map[string]${typeName(schema.values)}`;
    case 'object':
      return 'Object';
    case 'any':
      return 'any';
    case 'string':
    case 'integer':
    case 'boolean':
      return schema.type;
  }
}

/** The constraints of a schema as text. */
export function constraints(schema: Schema): string[] {
  const lines: string[] = [];
  const say = (text: string, value: string | number | undefined): void => {
    if (value !== undefined) lines.push(`${text} ${value}`);
  };
  if (schema.type === 'string') {
    say('one of:', schema.enum?.join(', '));
    say('pattern:', schema.pattern);
    say('minimum number of characters:', schema.minLength);
    say('maximum number of characters:', schema.maxLength);
    if (schema.format === 'date-time')
      lines.push('a time in RFC 3339 format: 2027-01-01T00:00:00Z');
  } else if (schema.type === 'integer') {
    say('at least:', schema.minimum);
    say('at most:', schema.maximum);
  } else if (schema.type === 'list') {
    say('minimum number of items:', schema.minItems);
    say('maximum number of items:', schema.maxItems);
    say('unique by:', schema.keys?.join(', '));
  } else if (schema.type === 'object') {
    for (const rule of schema.rules ?? []) say('rule:', rule.message);
  }
  if ('default' in schema && schema.default !== undefined) {
    say(
      'default:',
      typeof schema.default === 'string' ? schema.default : JSON.stringify(schema.default),
    );
  }
  return lines;
}

export function wrap(text: string, indent: number, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + 1 + word.length > width - indent) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  if (line !== '') lines.push(line);
  return lines.map((content) => ' '.repeat(indent) + content);
}

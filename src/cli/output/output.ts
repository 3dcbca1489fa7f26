// The formats of `-o`: parses the option, and renders values as JSON, YAML, JSONPath or columns.

import { Option } from 'commander';
import { stringify } from 'yaml';
import { HansaError } from '../../core/errors/error.ts';
import { nearest } from '../../server/config/nearest.ts';
import { compileTemplate } from './jsonpath.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import type { CustomColumn, FormatName, OutputFormat } from '../../core/plane/command-kit.ts';

const allFormats: readonly FormatName[] = [
  'json',
  'yaml',
  'wide',
  'name',
  'jsonpath',
  'custom-columns',
];

/** The notation in the help, for formats that take an argument. */
const spelling: Partial<Record<FormatName, string>> = {
  jsonpath: 'jsonpath=TEMPLATE',
  'custom-columns': 'custom-columns=HEADING:PATH,…',
};

const formatsByOption = new WeakMap<Option, readonly FormatName[]>();

/** The formats of an option from `outputOption`; undefined for other options. */
export function outputFormatsOf(option: Option): readonly FormatName[] | undefined {
  return formatsByOption.get(option);
}

/** `-o FORMAT` for a command that supports these formats besides text. */
export function outputOption(formats: readonly FormatName[] = allFormats): Option {
  const shown = formats.map((format) => spelling[format] ?? format);
  const option = new Option('-o, --output <format>', `one of ${shown.join(', ')}`)
    .argParser((text) => parseFormat(text, formats))
    .default({ format: 'table' } satisfies OutputFormat, 'text');
  formatsByOption.set(option, formats);
  return option;
}

export function parseFormat(text: string, formats: readonly FormatName[]): OutputFormat {
  // For `-o=json`, which kubectl accepts, commander passes the value `=json`.
  const [name, template] = split(text.replace(/^=/, ''), '=');
  const format = formats.find((known) => known === name);
  if (format === 'jsonpath') {
    if (template === undefined || template === '') {
      throw new HansaError(
        'HANSA_USAGE',
        "-o jsonpath needs a template: -o jsonpath='{.metadata.name}'.",
      );
    }
    return { format, template: compileTemplate(template) };
  }
  if (format === 'custom-columns') return { format, columns: parseColumns(template ?? '') };
  if (format === undefined || template !== undefined) {
    const meant = nearest(name, formats);
    const hint = meant === undefined ? '' : ` Did you mean ${meant}?`;
    throw new HansaError(
      'HANSA_USAGE',
      `-o is ${JSON.stringify(text)}: expected ${formats.join(', ')}.${hint}`,
    );
  }
  return { format };
}

/** `NAME:.metadata.name,AGE:.metadata.creationTimestamp`. A comma or colon in brackets belongs to the path. */
function parseColumns(text: string): CustomColumn[] {
  const specs = text.split(/,(?![^[]*\])/);
  return specs.map((spec) => {
    const [heading, path] = split(spec.trim(), ':');
    if (heading === '' || path === undefined || path === '') {
      throw new HansaError(
        'HANSA_USAGE',
        `-o custom-columns is ${JSON.stringify(text.slice(0, 120))}: expected HEADING:PATH,…, such as NAME:.metadata.name,STATE:.status.state.`,
      );
    }
    return { heading, template: compileTemplate(path) };
  });
}

function split(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** Renders a value as JSON, YAML or JSONPath; undefined for the other formats. */
export function renderValue(value: unknown, output: OutputFormat): string | undefined {
  switch (output.format) {
    case 'json':
      return JSON.stringify(value, null, 2);
    case 'yaml':
      // YAML 1.1 parsers, such as those of Go, would misread an unquoted time or `on`.
      return stringify(value, {
        version: '1.1',
        lineWidth: 0,
        aliasDuplicateObjects: false,
      }).trimEnd();
    case 'jsonpath':
      // The caller adds the end of the line.
      return output.template(value).replace(/\n$/, '');
    case 'table':
    case 'wide':
    case 'name':
    case 'custom-columns':
      return undefined;
  }
}

/** The rows of `-o custom-columns`, after a row of headings if `headers` is true. */
export function renderCustomColumns(
  columns: readonly CustomColumn[],
  values: readonly unknown[],
  headers: boolean,
): string {
  const rows = values.map((value) =>
    columns.map(({ template }) => printable(template(value)) || '<none>'),
  );
  return renderColumns(headers ? [columns.map(({ heading }) => heading), ...rows] : rows);
}

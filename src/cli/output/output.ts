// The formats of `-o`: what a listing looks like for people, for scripts and for jsonpath.

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

/** How a format is written in help, where it takes more than its name. */
const spelling: Partial<Record<FormatName, string>> = {
  jsonpath: 'jsonpath=TEMPLATE',
  'custom-columns': 'custom-columns=HEADING:PATH,…',
};

const formatsByOption = new WeakMap<Option, readonly FormatName[]>();

/** What an option made by `outputOption` accepts; undefined for any other. */
export function outputFormatsOf(option: Option): readonly FormatName[] | undefined {
  return formatsByOption.get(option);
}

/** `-o FORMAT` for a command that has these formats beside its own text. */
export function outputOption(formats: readonly FormatName[] = allFormats): Option {
  const shown = formats.map((format) => spelling[format] ?? format);
  const option = new Option('-o, --output <format>', `one of ${shown.join(', ')}`)
    .argParser((text) => parseFormat(text, formats))
    .default({ format: 'table' } satisfies OutputFormat, 'text for people');
  formatsByOption.set(option, formats);
  return option;
}

export function parseFormat(text: string, formats: readonly FormatName[]): OutputFormat {
  // commander takes `-o=json` for the value `=json`; kubectl's users write it so.
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
      `-o is ${JSON.stringify(text)}: accepted is ${formats.join(', ')}.${hint}`,
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
        `-o custom-columns is ${JSON.stringify(text.slice(0, 120))}: accepted is HEADING:PATH,…, such as NAME:.metadata.name,STATE:.status.state.`,
      );
    }
    return { heading, template: compileTemplate(path) };
  });
}

function split(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** Renders a value in a format that needs no table; undefined for the others. */
export function renderValue(value: unknown, output: OutputFormat): string | undefined {
  switch (output.format) {
    case 'json':
      return JSON.stringify(value, null, 2);
    case 'yaml':
      // Readers of YAML 1.1, Go's among them, would take a bare time or `on` for something else.
      return stringify(value, {
        version: '1.1',
        lineWidth: 0,
        aliasDuplicateObjects: false,
      }).trimEnd();
    case 'jsonpath':
      // The line's end is added by whoever prints.
      return output.template(value).replace(/\n$/, '');
    case 'table':
    case 'wide':
    case 'name':
    case 'custom-columns':
      return undefined;
  }
}

/** Rows of `-o custom-columns`, the headings first where `headers` asks. */
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

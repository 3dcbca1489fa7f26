// Output templates of `-o jsonpath=…`, as in kubectl: text with expressions in braces, such as
// `{.metadata.name}`, `{.items[*].metadata.name}`, `{range .items[*]}{.metadata.name}{"\n"}{end}`
// and filters `[?(@.type=="Ready")]`.

import { HansaError } from '../core/errors/error.ts';

type Values = readonly unknown[];
type Step = (values: Values) => Values;
type Part =
  | { readonly text: string }
  | { readonly steps: readonly Step[] }
  | { readonly steps: readonly Step[]; readonly body: readonly Part[] };

export type Template = (value: unknown) => string;

export function compileTemplate(source: string): Template {
  const refuse = (why: string): never => {
    throw new HansaError(
      'HANSA_USAGE',
      `Cannot read the jsonpath ${JSON.stringify(source)}: ${why}.`,
    );
  };
  // A bare path, as in --for=jsonpath=.status.phase, is an expression too.
  const text = source.includes('{') ? source : `{${source}}`;
  const pieces = splitBraces(text, refuse);
  const stack: { steps: readonly Step[]; body: Part[] }[] = [{ steps: [], body: [] }];
  for (const piece of pieces) {
    const body = stack.at(-1)?.body ?? [];
    if ('literal' in piece) {
      body.push({ text: piece.literal });
      continue;
    }
    const expression = piece.expression.trim();
    const quoted = /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')$/.exec(expression);
    if (quoted !== null) {
      body.push({ text: unescape(quoted[1] ?? quoted[2] ?? '') });
    } else if (expression === 'end') {
      const range = stack.pop();
      const outer = stack.at(-1)?.body;
      if (range === undefined || outer === undefined) return refuse('{end} closes no {range}');
      outer.push({ steps: range.steps, body: range.body });
    } else if (/^range\s/.test(expression)) {
      stack.push({ steps: parseSteps(expression.slice(5).trim(), refuse), body: [] });
    } else {
      body.push({ steps: parseSteps(expression, refuse) });
    }
  }
  const [root] = stack;
  if (root === undefined || stack.length > 1) return refuse('a {range} has no {end}');
  return (value) => render(root.body, value);
}

/** The first value at a path such as `.metadata.name`, with or without braces; undefined where there is none. */
export function compilePath(source: string): (value: unknown) => unknown {
  const refuse = (why: string): never => {
    throw new HansaError('HANSA_USAGE', `Cannot read the path ${JSON.stringify(source)}: ${why}.`);
  };
  const steps = parseSteps(source.trim().replace(/^\{(.*)\}$/, '$1'), refuse);
  if (steps.length === 0) return refuse('it names no field');
  return (value) => run(steps, value)[0];
}

type Piece = { readonly literal: string } | { readonly expression: string };

/** Braces do not nest, but a string within them may hold one. */
function splitBraces(text: string, refuse: (why: string) => never): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  while (at < text.length) {
    const open = text.indexOf('{', at);
    if (open < 0) {
      pieces.push({ literal: text.slice(at) });
      break;
    }
    if (open > at) pieces.push({ literal: text.slice(at, open) });
    const close = closingBrace(text, open);
    if (close < 0) refuse('a { has no }');
    pieces.push({ expression: text.slice(open + 1, close) });
    at = close + 1;
  }
  return pieces;
}

function closingBrace(text: string, open: number): number {
  let quote = '';
  for (let i = open + 1; i < text.length; i += 1) {
    const char = text[i] ?? '';
    if (quote !== '' && char === '\\') i += 1;
    else if (quote !== '') quote = char === quote ? '' : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (char === '}') return i;
  }
  return -1;
}

const stepGrammar =
  /^(?:\.?\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(-?\d+)|(-?\d*):(-?\d*)|(\*)|\?\((.*?)\))\]|\.(\*)|\.((?:[^.[\]\\\s]|\\.)+))/;

function parseSteps(expression: string, refuse: (why: string) => never): Step[] {
  const steps: Step[] = [];
  let rest = expression.replace(/^[$@]/, '');
  if (rest === '' || rest === '.') return steps;
  if (!/^[.[]/.test(rest)) rest = `.${rest}`;
  while (rest !== '') {
    const found = stepGrammar.exec(rest);
    if (found === null) return refuse(`cannot understand ${JSON.stringify(rest)}`);
    rest = rest.slice(found[0].length);
    const [, single, double, index, from, to, star, filter, dotStar, name] = found;
    const field = single ?? double ?? name;
    if (field !== undefined) steps.push(fieldStep(field.replaceAll(/\\(.)/g, '$1')));
    else if (index !== undefined) steps.push((values) => values.flatMap(itemAt(Number(index))));
    else if (star !== undefined || dotStar !== undefined)
      steps.push((values) => values.flatMap(all));
    else if (filter !== undefined) steps.push(filterStep(filter.trim(), refuse));
    else steps.push(sliceStep(from ?? '', to ?? ''));
  }
  return steps;
}

function fieldStep(name: string): Step {
  return (values) =>
    values.flatMap((value) => (isRecord(value) && Object.hasOwn(value, name) ? [value[name]] : []));
}

function itemAt(index: number): (value: unknown) => Values {
  return (value) => {
    if (!Array.isArray(value)) return [];
    const at = index < 0 ? value.length + index : index;
    return at in value ? [value[at] as unknown] : [];
  };
}

function all(value: unknown): Values {
  if (Array.isArray(value)) return value as Values;
  return isRecord(value) ? Object.values(value) : [];
}

function sliceStep(from: string, to: string): Step {
  return (values) =>
    values.flatMap((value) =>
      Array.isArray(value)
        ? (value as Values).slice(Number(from), to === '' ? undefined : Number(to))
        : [],
    );
}

function filterStep(filter: string, refuse: (why: string) => never): Step {
  const found = /^@?(\.[^=!<>\s]+)\s*(?:(==|!=|<=|>=|<|>)\s*(.+))?$/.exec(filter);
  if (found === null) return refuse(`cannot understand the filter ${JSON.stringify(filter)}`);
  const [, path = '', operator, literal] = found;
  const steps = parseSteps(path, refuse);
  const wanted = literal === undefined ? undefined : parseLiteral(literal, refuse);
  return (values) =>
    values.flatMap(all).filter((item) => {
      const [value] = run(steps, item);
      if (operator === undefined) return value !== undefined;
      return compare(value, operator, wanted);
    });
}

function parseLiteral(text: string, refuse: (why: string) => never): unknown {
  const quoted = /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')$/.exec(text);
  if (quoted !== null) return unescape(quoted[1] ?? quoted[2] ?? '');
  if (text === 'true' || text === 'false') return text === 'true';
  const number = Number(text);
  return Number.isNaN(number) ? refuse(`${JSON.stringify(text)} is not a value`) : number;
}

function compare(value: unknown, operator: string, wanted: unknown): boolean {
  if (operator === '==') return value === wanted;
  if (operator === '!=') return value !== wanted;
  if (typeof value !== typeof wanted) return false;
  const [a, b] = [value as string | number, wanted as string | number];
  if (operator === '<') return a < b;
  if (operator === '<=') return a <= b;
  return operator === '>' ? a > b : a >= b;
}

function run(steps: readonly Step[], value: unknown): Values {
  return steps.reduce<Values>((values, step) => step(values), [value]);
}

function render(parts: readonly Part[], value: unknown): string {
  return parts
    .map((part) => {
      if ('text' in part) return part.text;
      const values = run(part.steps, value);
      if ('body' in part) return values.map((item) => render(part.body, item)).join('');
      return values.map(show).join(' ');
    })
    .join('');
}

function show(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function unescape(text: string): string {
  return text.replaceAll(/\\(.)/g, (_all, char: string) =>
    char === 'n' ? '\n' : char === 't' ? '\t' : char,
  );
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

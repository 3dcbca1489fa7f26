// Output templates of `-o jsonpath=…`, as in kubectl: text with expressions in braces, such as
// `{.metadata.name}`, `{.items[*].metadata.name}`, `{range .items[*]}{.metadata.name}{"\n"}{end}`
// and filters `[?(@.type=="Ready")]`. api/selectors/json-path.ts parses the paths.

import {
  allValues,
  firstValue,
  type JsonPathSteps,
  parseJsonPath,
  type Refuse,
  unquote,
} from '../../api/selectors/json-path.ts';
import { HansaError } from '../../core/errors/error.ts';

type Part =
  | { readonly text: string }
  | { readonly steps: JsonPathSteps }
  | { readonly steps: JsonPathSteps; readonly body: readonly Part[] };

export type Template = (value: unknown) => string;

export function compileTemplate(source: string): Template {
  const refuse = (why: string): never => {
    throw new HansaError(
      'HANSA_USAGE',
      `Cannot read the jsonpath ${JSON.stringify(source)}: ${why}.`,
    );
  };
  // A bare path, as in --for=jsonpath=.status.phase, is an expression too.
  const pieces = splitBraces(source.includes('{') ? source : `{${source}}`, refuse);
  const stack: { steps: JsonPathSteps; body: Part[] }[] = [{ steps: [], body: [] }];
  for (const piece of pieces) {
    const body = stack.at(-1)?.body ?? [];
    if ('literal' in piece) {
      body.push({ text: piece.literal });
      continue;
    }
    const expression = piece.expression.trim();
    const text = unquote(expression);
    if (text !== undefined) {
      body.push({ text });
    } else if (expression === 'end') {
      const range = stack.pop();
      const outer = stack.at(-1)?.body;
      if (range === undefined || outer === undefined) return refuse('{end} closes no {range}');
      outer.push({ steps: range.steps, body: range.body });
    } else if (/^range\s/.test(expression)) {
      stack.push({ steps: parseJsonPath(expression.slice(5).trim(), refuse), body: [] });
    } else {
      body.push({ steps: parseJsonPath(expression, refuse) });
    }
  }
  const [root] = stack;
  if (root === undefined || stack.length > 1) return refuse('a {range} has no {end}');
  return (value) => render(root.body, value);
}

/** Returns the first value at a path such as `.metadata.name`, with or without braces, or undefined. */
export function compilePath(source: string): (value: unknown) => unknown {
  const refuse = (why: string): never => {
    throw new HansaError('HANSA_USAGE', `Cannot read the path ${JSON.stringify(source)}: ${why}.`);
  };
  const steps = parseJsonPath(source.trim().replace(/^\{(.*)\}$/, '$1'), refuse);
  if (steps.length === 0) return refuse('it names no field');
  return (value) => firstValue(steps, value);
}

type Piece = { readonly literal: string } | { readonly expression: string };

/** Braces do not nest, but a quoted string inside them can contain one. */
function splitBraces(text: string, refuse: Refuse): Piece[] {
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

function render(parts: readonly Part[], value: unknown): string {
  return parts
    .map((part) => {
      if ('text' in part) return part.text;
      const values = allValues(part.steps, value);
      if ('body' in part) return values.map((item) => render(part.body, item)).join('');
      return values.map(show).join(' ');
    })
    .join('');
}

function show(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

// JSONPath in the dialect of kubectl: the only parser and the only evaluator. Printer columns use a
// strict subset (`compileJsonPath`); the templates of `-o jsonpath` use all of it. A path is
// compiled once and then evaluated on many objects.

import { isObject } from '../schema/json.ts';

/** The first value that the path leads to, or undefined. */
export type JsonPath = (value: unknown) => unknown;

type Step =
  | { readonly step: 'field'; readonly name: string }
  | { readonly step: 'index'; readonly index: number }
  | { readonly step: 'slice'; readonly from: number; readonly to: number | undefined }
  | { readonly step: 'all' }
  | Filter;

interface Filter {
  readonly step: 'filter';
  readonly path: readonly Step[];
  /** Undefined asks only whether there is a value. */
  readonly operator: string | undefined;
  readonly wanted: unknown;
}

export type JsonPathSteps = readonly Step[];

/** Throws the caller's error, which says why the path cannot be read. */
export type Refuse = (why: string) => never;

const columnGrammar =
  /^(?:\.[A-Za-z_][A-Za-z0-9_-]*|\['[^'\\]+'\]|\[(?:\d+|\*)\]|\[\?\(@\.[A-Za-z0-9_]+==(?:"[^"\\]*"|'[^'\\]*'|\d+|true|false)\)\])+$/;

/**
 * A path of a printer column: `.spec.role`, `.spec.rules[0].kinds`, `[*]`, and filters such as
 * `.status.conditions[?(@.type=="Ready")].status`. Throws a TypeError for anything else: these paths
 * come from declarations.
 */
export function compileJsonPath(path: string): JsonPath {
  const refuse = (why: string): never => {
    throw new TypeError(`JSON path ${path}: ${why}`);
  };
  if (!columnGrammar.test(path)) refuse('it is not a simple path');
  const steps = parseJsonPath(path, refuse);
  return (value) => firstValue(steps, value);
}

export function firstValue(steps: JsonPathSteps, value: unknown): unknown {
  return find(value, steps, 0, undefined);
}

/** In the order in which they stand in `value`. */
export function allValues(steps: JsonPathSteps, value: unknown): readonly unknown[] {
  const found: unknown[] = [];
  find(value, steps, 0, found);
  return found;
}

const stepGrammar =
  /^(?:\.?\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(-?\d+)|(-?\d*):(-?\d*)|(\*)|\?\((.*?)\))\]|\.(\*)|\.((?:[^.[\]\\\s]|\\.)+))/;

/** Any path of kubectl's, also one that begins with `$`, `@` or a name. No steps are the value itself. */
export function parseJsonPath(path: string, refuse: Refuse): JsonPathSteps {
  const steps: Step[] = [];
  let rest = path.replace(/^[$@]/, '');
  if (rest === '' || rest === '.') return steps;
  if (!/^[.[]/.test(rest)) rest = `.${rest}`;
  while (rest !== '') {
    const found = stepGrammar.exec(rest);
    if (found === null) return refuse(`cannot understand ${JSON.stringify(rest)}`);
    rest = rest.slice(found[0].length);
    steps.push(stepOf(found, refuse));
  }
  return steps;
}

function stepOf(found: RegExpExecArray, refuse: Refuse): Step {
  const [, single, double, index, from, to, star, filter, dotStar, name] = found;
  const field = single ?? double ?? name;
  if (field !== undefined) return { step: 'field', name: field.replaceAll(/\\(.)/g, '$1') };
  if (index !== undefined) return { step: 'index', index: Number(index) };
  if (star !== undefined || dotStar !== undefined) return { step: 'all' };
  if (filter !== undefined) return parseFilter(filter.trim(), refuse);
  const end = to === undefined || to === '' ? undefined : Number(to);
  return { step: 'slice', from: Number(from), to: end };
}

function parseFilter(filter: string, refuse: Refuse): Filter {
  const found = /^@?(\.[^=!<>\s]+)\s*(?:(==|!=|<=|>=|<|>)\s*(.+))?$/.exec(filter);
  if (found === null) return refuse(`cannot understand the filter ${JSON.stringify(filter)}`);
  const [, path = '', operator, literal] = found;
  return {
    step: 'filter',
    path: parseJsonPath(path, refuse),
    operator,
    wanted: literal === undefined ? undefined : parseLiteral(literal, refuse),
  };
}

function parseLiteral(text: string, refuse: Refuse): unknown {
  const unquoted = unquote(text);
  if (unquoted !== undefined) return unquoted;
  if (text === 'true' || text === 'false') return text === 'true';
  const number = Number(text);
  return Number.isNaN(number) ? refuse(`${JSON.stringify(text)} is not a value`) : number;
}

/** The text of a string in single or double quotes, with `\n` and `\t`; undefined where it is none. */
export function unquote(text: string): string | undefined {
  const quoted = /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')$/.exec(text);
  return (quoted?.[1] ?? quoted?.[2])?.replaceAll(/\\(.)/g, (_all, char: string) =>
    char === 'n' ? '\n' : char === 't' ? '\t' : char,
  );
}

/** Adds every value to `all`; without `all` it returns the first one, and allocates nothing. */
function find(
  value: unknown,
  steps: JsonPathSteps,
  from: number,
  all: unknown[] | undefined,
): unknown {
  let current = value;
  for (let at = from; at < steps.length; at++) {
    const step = steps[at] as Step;
    if (step.step === 'field') {
      if (!isObject(current) || !Object.hasOwn(current, step.name)) return undefined;
      current = current[step.name];
    } else if (step.step === 'index') {
      if (!Array.isArray(current)) return undefined;
      const index = step.index < 0 ? current.length + step.index : step.index;
      if (!(index in current)) return undefined;
      current = (current as readonly unknown[])[index];
    } else {
      for (const item of itemsOf(current, step)) {
        if (step.step === 'filter' && !passes(step, item)) continue;
        const found = find(item, steps, at + 1, all);
        if (all === undefined && found !== undefined) return found;
      }
      return undefined;
    }
  }
  all?.push(current);
  return current;
}

const none: readonly unknown[] = [];

function itemsOf(value: unknown, step: Exclude<Step, { step: 'field' | 'index' }>) {
  if (Array.isArray(value)) {
    const items = value as readonly unknown[];
    return step.step === 'slice' ? items.slice(step.from, step.to) : items;
  }
  return step.step !== 'slice' && isObject(value) ? Object.values(value) : none;
}

function passes({ path, operator, wanted }: Filter, item: unknown): boolean {
  const value = firstValue(path, item);
  if (operator === undefined) return value !== undefined;
  if (operator === '==') return value === wanted;
  if (operator === '!=') return value !== wanted;
  if (typeof value !== typeof wanted) return false;
  const [a, b] = [value as string | number, wanted as string | number];
  if (operator === '<') return a < b;
  if (operator === '<=') return a <= b;
  return operator === '>' ? a > b : a >= b;
}

// The simple JSON paths of printer columns: `.spec.role`, `.spec.rules[0].kinds`, `[*]`, and
// filters such as `.status.conditions[?(@.type=="Ready")].status`. A path is compiled once, not for
// each object that it is read from.

import { isObject } from './schema/json.ts';

export type JsonPath = (value: unknown) => unknown;

type Step =
  | { readonly step: 'field'; readonly name: string }
  | { readonly step: 'index'; readonly index: number }
  | { readonly step: 'all' }
  | { readonly step: 'filter'; readonly name: string; readonly equals: unknown };

const stepGrammar =
  /^(?:\.([A-Za-z_][A-Za-z0-9_-]*)|\['([^']+)'\]|\[(\d+)\]|\[(\*)\]|\[\?\(@\.([A-Za-z0-9_]+)==("[^"]*"|'[^']*'|\d+|true|false)\)\])/;

/** Throws a TypeError where the path is wrong: paths come from declarations. */
export function compileJsonPath(path: string): JsonPath {
  const steps: Step[] = [];
  let rest = path;
  while (rest !== '') {
    const match = stepGrammar.exec(rest);
    if (match === null) throw new TypeError(`JSON path ${path}: cannot understand "${rest}"`);
    steps.push(stepOf(match));
    rest = rest.slice(match[0].length);
  }
  return (value) => first(value, steps, 0);
}

function stepOf(match: RegExpExecArray): Step {
  const name = match[1] ?? match[2];
  if (name !== undefined) return { step: 'field', name };
  if (match[3] !== undefined) return { step: 'index', index: Number(match[3]) };
  if (match[4] !== undefined) return { step: 'all' };
  const literal = (match[6] ?? '').replace(/^'(.*)'$/, '"$1"');
  return { step: 'filter', name: match[5] ?? '', equals: JSON.parse(literal) as unknown };
}

/** The first value that the path leads to, or undefined: columns show one. */
function first(value: unknown, steps: readonly Step[], from: number): unknown {
  let current = value;
  for (let i = from; i < steps.length; i++) {
    const step = steps[i];
    if (step === undefined) break;
    if (step.step === 'field') {
      if (!isObject(current) || !Object.hasOwn(current, step.name)) return undefined;
      current = current[step.name];
    } else {
      if (!Array.isArray(current)) return undefined;
      if (step.step === 'index') {
        current = current[step.index];
        continue;
      }
      for (const item of current as readonly unknown[]) {
        if (
          step.step === 'filter' &&
          !(isObject(item) && Object.hasOwn(item, step.name) && item[step.name] === step.equals)
        )
          continue;
        const found = first(item, steps, i + 1);
        if (found !== undefined) return found;
      }
      return undefined;
    }
  }
  return current;
}

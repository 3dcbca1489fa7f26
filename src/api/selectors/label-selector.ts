// Label selectors with the grammar and the error messages of Kubernetes:
//
//   selector    = requirement *( "," requirement )
//   requirement = [ "!" ] key | key ( "=" | "==" | "!=" | "<" | ">" ) value
//               | key ( "in" | "notin" ) "(" [ value *( "," value ) ] ")"

import { HansaError } from '../../core/errors/error.ts';
import { checkLabelValue, checkQualifiedName } from '../metadata/names.ts';
import { type FieldError, invalid, wholeObject } from '../schema/field-error.ts';
import { compareBytes } from '../schema/go-text.ts';
import { refuseLongSelector, refuseManyTerms } from './selector-bounds.ts';

type Labels = Readonly<Record<string, string>> | undefined;

export interface LabelSelector {
  /** Whether it selects everything. */
  readonly empty: boolean;
  matches(labels: Labels): boolean;
}

type Operator = 'in' | 'notin' | '=' | '==' | '!=' | 'gt' | 'lt' | 'exists' | '!';

interface Requirement {
  readonly key: string;
  readonly operator: Operator;
  readonly values: readonly string[];
}

interface Token {
  readonly type: 'identifier' | 'in' | 'notin' | 'symbol' | 'end';
  readonly literal: string;
}

const symbols: ReadonlySet<string> = new Set(['!', '!=', '=', '==', ',', '(', ')', '<', '>']);
const symbolCharacters = '=!(),><';
const whitespace = ' \t\r\n';

function fail(message: string): never {
  throw new HansaError('HANSA_BAD_REQUEST', message);
}

/** A selector as objects carry it (LabelSelector of Kubernetes' meta/v1). */
export interface LabelSelectorObject {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    readonly values?: readonly string[];
  }[];
}

/**
 * The same selector in the grammar above. Throws HANSA_BAD_REQUEST where an operator has values that
 * it does not take, or a key or value is none of a label: those could change the meaning of the rest.
 */
export function labelSelectorText({ matchLabels, matchExpressions }: LabelSelectorObject): string {
  const equal = Object.entries(matchLabels ?? {}).map(([key, value]) => {
    assertLabel(key, [value]);
    return `${key}=${value}`;
  });
  const found = (matchExpressions ?? []).map(({ key, operator, values = [] }) => {
    assertLabel(key, values);
    const isSet = operator === 'In' || operator === 'NotIn';
    if (isSet !== values.length > 0) {
      fail(`${key}: ${operator} takes ${isSet ? 'at least one value' : 'no values'}`);
    }
    if (isSet) return `${key} ${operator === 'In' ? 'in' : 'notin'} (${values.join(',')})`;
    return operator === 'Exists' ? key : `!${key}`;
  });
  return [...equal, ...found].join(',');
}

function assertLabel(key: string, values: readonly string[]): void {
  const problems = [...checkQualifiedName(key), ...values.flatMap((one) => checkLabelValue(one))];
  if (problems.length > 0) fail(`${JSON.stringify(key.slice(0, 80))}: ${problems[0]}`);
}

/** Throws HANSA_BAD_REQUEST. */
export function parseLabelSelector(text: string): LabelSelector {
  refuseLongSelector('label', text);
  const tokens = tokenize(text);
  // Each term ends with a comma, and each value of a set.
  const commas = tokens.filter((token) => isSymbol(token, ',')).length;
  refuseManyTerms('label', commas + 1);
  const requirements = new Parser(tokens).parse();
  const conditions = conditionsOf(requirements);
  const needed = [...conditions.entries()].filter(([, condition]) => condition.needed);
  return {
    empty: requirements.length === 0,
    matches: (labels) => {
      for (const [key] of needed)
        if (labels === undefined || !Object.hasOwn(labels, key)) return false;
      // What need not be there can only fail where it is: the labels are looked through, not the
      // selector, which may have hundreds of parts and is asked about thousands of objects.
      for (const key in labels) {
        const condition = conditions.get(key);
        if (condition !== undefined && !holds(condition, labels[key] ?? '')) return false;
      }
      return true;
    },
  };
}

/** All that a selector asks of one key. */
interface Condition {
  needed: boolean;
  forbidden: boolean;
  /** Undefined: any. */
  oneOf: ReadonlySet<string> | undefined;
  readonly noneOf: Set<string>;
  above: bigint | undefined;
  below: bigint | undefined;
}

function conditionsOf(requirements: readonly Requirement[]): ReadonlyMap<string, Condition> {
  const conditions = new Map<string, Condition>();
  for (const requirement of requirements) {
    let condition = conditions.get(requirement.key);
    if (condition === undefined) {
      condition = {
        needed: false,
        forbidden: false,
        oneOf: undefined,
        noneOf: new Set(),
        above: undefined,
        below: undefined,
      };
      conditions.set(requirement.key, condition);
    }
    narrow(condition, requirement);
  }
  return conditions;
}

function narrow(condition: Condition, { operator, values }: Requirement): void {
  const bound = parseInteger(values[0] ?? '');
  switch (operator) {
    case 'in':
    case '=':
    case '==': {
      const { oneOf } = condition;
      condition.needed = true;
      condition.oneOf = new Set(oneOf === undefined ? values : values.filter((v) => oneOf.has(v)));
      break;
    }
    case 'notin':
    case '!=':
      for (const value of values) condition.noneOf.add(value);
      break;
    case 'exists':
      condition.needed = true;
      break;
    case '!':
      condition.forbidden = true;
      break;
    case 'gt':
      condition.needed = true;
      if (bound !== undefined && bound > (condition.above ?? bound - 1n)) condition.above = bound;
      break;
    case 'lt':
      condition.needed = true;
      if (bound !== undefined && bound < (condition.below ?? bound + 1n)) condition.below = bound;
      break;
  }
}

function holds(condition: Condition, value: string): boolean {
  const { forbidden, oneOf, noneOf, above, below } = condition;
  if (forbidden || noneOf.has(value) || oneOf?.has(value) === false) return false;
  if (above === undefined && below === undefined) return true;
  const number = parseInteger(value);
  if (number === undefined) return false;
  return (above === undefined || number > above) && (below === undefined || number < below);
}

/** Go's ParseInt in base 10 and 64 bits. */
function parseInteger(text: string): bigint | undefined {
  if (!/^[+-]?[0-9]+$/.test(text)) return undefined;
  const value = BigInt(text.startsWith('+') ? text.slice(1) : text);
  return BigInt.asIntN(64, value) === value ? value : undefined;
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  let i = 0;
  while (i < text.length) {
    const character = text.charAt(i);
    if (whitespace.includes(character)) {
      i++;
    } else if (symbolCharacters.includes(character)) {
      const two = text.slice(i, i + 2);
      const literal = symbols.has(two) ? two : character;
      tokens.push({ type: 'symbol', literal });
      i += literal.length;
    } else {
      const start = i;
      while (i < text.length && !(symbolCharacters + whitespace).includes(text.charAt(i))) i++;
      const literal = text.slice(start, i);
      const type = literal === 'in' || literal === 'notin' ? literal : 'identifier';
      tokens.push({ type, literal });
    }
  }
  tokens.push({ type: 'end', literal: '' });
  return tokens;
}

class Parser {
  readonly #tokens: readonly Token[];
  #position = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  #peek(): Token {
    return this.#tokens[this.#position] ?? { type: 'end', literal: '' };
  }

  #next(): Token {
    const token = this.#peek();
    this.#position++;
    return token;
  }

  parse(): Requirement[] {
    const requirements: Requirement[] = [];
    for (;;) {
      const token = this.#peek();
      if (token.type === 'end') return requirements;
      if (!startsRequirement(token)) {
        fail(`found '${token.literal}', expected: !, identifier, or 'end of string'`);
      }
      requirements.push(this.#requirement());
      const after = this.#next();
      if (after.type === 'end') return requirements;
      if (after.literal !== ',' || after.type !== 'symbol') {
        fail(`found '${after.literal}', expected: ',' or 'end of string'`);
      }
      const following = this.#peek();
      if (!startsRequirement(following)) {
        fail(`found '${following.literal}', expected: identifier after ','`);
      }
    }
  }

  #requirement(): Requirement {
    try {
      return this.#parseRequirement();
    } catch (caught) {
      if (!(caught instanceof HansaError)) throw caught;
      return fail(`unable to parse requirement: ${caught.message}`);
    }
  }

  #parseRequirement(): Requirement {
    let token = this.#next();
    const negated = isSymbol(token, '!');
    if (negated) token = this.#next();
    if (!isWord(token)) fail(`found '${token.literal}', expected: identifier`);
    const key = token.literal;
    const problems = checkQualifiedName(key);
    if (problems.length > 0) refuseAny([invalid(wholeObject, key, problems.join('; '))]);
    if (negated) return { key, operator: '!', values: [] };
    const after = this.#peek();
    if (after.type === 'end' || isSymbol(after, ','))
      return { key, operator: 'exists', values: [] };
    const operator = this.#operator();
    const values =
      operator === 'in' || operator === 'notin' ? this.#values() : [this.#exactValue()];
    refuseAny(valueErrors(key, operator, values));
    return { key, operator, values };
  }

  #operator(): Operator {
    const token = this.#next();
    if (token.type === 'in' || token.type === 'notin') return token.type;
    if (token.type === 'symbol') {
      if (token.literal === '=' || token.literal === '==' || token.literal === '!=') {
        return token.literal;
      }
      if (token.literal === '>') return 'gt';
      if (token.literal === '<') return 'lt';
    }
    return fail(`found '${token.literal}', expected: in, notin, =, ==, !=, gt, lt`);
  }

  #values(): string[] {
    const open = this.#next();
    if (!isSymbol(open, '(')) fail(`found '${open.literal}' expected: '('`);
    const first = this.#peek();
    if (isSymbol(first, ')')) {
      this.#next();
      return [''];
    }
    if (!isWord(first) && !isSymbol(first, ',')) {
      fail(`found '${first.literal}', expected: ',', ')' or identifier`);
    }
    const values = this.#identifiers();
    this.#next();
    return [...values].toSorted(compareBytes);
  }

  /** A comma at either end, or two in a row, stand for an empty value. */
  #identifiers(): Set<string> {
    const values = new Set<string>();
    for (;;) {
      const token = this.#next();
      const after = this.#peek();
      if (isWord(token)) {
        values.add(token.literal);
        if (isSymbol(after, ')')) return values;
        if (!isSymbol(after, ',')) fail(`found '${after.literal}', expected: ',' or ')'`);
      } else if (isSymbol(token, ',')) {
        if (values.size === 0) values.add('');
        if (isSymbol(after, ')')) {
          values.add('');
          return values;
        }
        if (isSymbol(after, ',')) values.add('');
      } else {
        fail(`found '${token.literal}', expected: ',', or identifier`);
      }
    }
  }

  #exactValue(): string {
    const token = this.#peek();
    if (token.type === 'end' || isSymbol(token, ',')) return '';
    this.#next();
    if (!isWord(token)) fail(`found '${token.literal}', expected: identifier`);
    return token.literal;
  }
}

function isSymbol(token: Token, literal: string): boolean {
  return token.type === 'symbol' && token.literal === literal;
}

/** `in` and `notin` are words like any other, except where an operator is expected. */
function isWord(token: Token): boolean {
  return token.type === 'identifier' || token.type === 'in' || token.type === 'notin';
}

function startsRequirement(token: Token): boolean {
  return isWord(token) || isSymbol(token, '!');
}

function valueErrors(key: string, operator: Operator, values: readonly string[]): FieldError[] {
  const errors: FieldError[] = [];
  if (operator === 'gt' || operator === 'lt') {
    for (const [i, value] of values.entries()) {
      if (parseInteger(value) !== undefined) continue;
      const detail = "for 'Gt', 'Lt' operators, the value must be an integer";
      errors.push(invalid(`values[${i}]`, value, detail));
    }
  }
  for (const [i, value] of values.entries()) {
    const messages = checkLabelValue(value);
    if (messages.length === 0) continue;
    errors.push(invalid(`values[${i}][${key}]`, value, messages.join('; ')));
  }
  return errors;
}

function refuseAny(errors: readonly FieldError[]): void {
  if (errors.length === 0) return;
  const sentences = errors.map((error) => `${error.field}: ${error.message}`);
  fail(sentences.length === 1 ? (sentences[0] ?? '') : `[${sentences.join(', ')}]`);
}

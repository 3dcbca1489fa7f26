// Mutates JSON so that it stays JSON: changes a value, a key or a position.

import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import type { Target } from './target.ts';

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

const odd: readonly Json[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  2 ** 31,
  2 ** 53,
  -(2 ** 63),
  1e308,
  '',
  ' ',
  '\0',
  '\ud800',
  '9999-12-31T23:59:59Z',
  'x'.repeat(3000),
  [],
  {},
  [[]],
  [null],
];

const keys = ['__proto__', 'constructor', 'toString', 'length', '', '\0', '0'];

/** Undefined where the input is no JSON, or nested deeper than its own walks can follow. */
export function mutateJson(
  input: Buffer,
  target: Pick<Target, 'dictionary' | 'maxBytes'>,
  random: SeededRandom,
): Buffer | undefined {
  const text = input.toString('utf8');
  if (depthOf(text) > 1000) return undefined;
  try {
    return changed(JSON.parse(text) as Json, target, random);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** As if every bracket opened something: strings may make it more, never less. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const character of text) {
    if (character === '[' || character === '{') deepest = Math.max(deepest, ++depth);
    else if (character === ']' || character === '}') depth--;
  }
  return deepest;
}

/** Stands for a value that only text can hold: deeper than JSON.stringify goes. */
const placeholder = '\u0000deep\u0000';

function changed(
  value: Json,
  { dictionary, maxBytes }: Pick<Target, 'dictionary' | 'maxBytes'>,
  random: SeededRandom,
): Buffer {
  const holder: Json[] = [value];
  const places = placesOf(holder);
  const { parent, key } = random.pick(places);
  const get = (): Json => (parent as Record<string, Json>)[key] as Json;
  const set = (next: Json): void => {
    // An assignment to __proto__ would not make a member of that name.
    Object.defineProperty(parent, key, {
      value: next,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  };
  const word = dictionary.length > 0 ? random.pick(dictionary) : 'x';
  const change = random.integer(0, 8);
  if (change === 0) set(structuredClone(random.pick(odd)));
  else if (change === 1) set(word);
  else if (change === 2 && parent !== holder) {
    if (Array.isArray(parent)) parent.splice(Number(key), 1);
    else delete parent[key];
  } else if (change === 3) {
    const from = random.pick(places);
    set(structuredClone((from.parent as Record<string, Json>)[from.key] as Json));
  } else if (change === 4) {
    const made = get();
    const name = random.pick([...keys, word]);
    if (Array.isArray(made)) made.push(structuredClone(random.pick(odd)));
    else if (typeof made === 'object' && made !== null) {
      Object.defineProperty(made, name, { value: random.pick(odd), enumerable: true });
    } else set([made]);
  } else if (change === 5) {
    const inner = JSON.stringify(get());
    const depth = random.pick([1, 8, 100, 600, 4000, 20_000]);
    const [open, close] = random.pick([
      ['[', ']'],
      [`{${JSON.stringify(word)}:`, '}'],
      [`{${JSON.stringify(word)}:[`, ']}'],
    ] as const);
    set(placeholder);
    const nested = open.repeat(depth) + inner + close.repeat(depth);
    const whole = JSON.stringify(holder[0]);
    return Buffer.from(whole.replace(JSON.stringify(placeholder), () => nested));
  } else if (change === 6) {
    const most = Math.ceil(maxBytes / (JSON.stringify(get()).length + 1));
    set(Array<Json>(Math.min(most, random.pick([2, 17, 300, 3000]))).fill(get()));
  } else if (change === 7) {
    const text = get();
    if (typeof text === 'string') set(twisted(text, word, random));
    else if (typeof text === 'number') set(random.pick([-text, text + 1, text * 1e10, text / 3]));
  } else {
    return doubled(JSON.stringify(holder[0]), random);
  }
  return Buffer.from(JSON.stringify(holder[0]) ?? 'null');
}

function twisted(text: string, word: string, random: SeededRandom): string {
  const at = random.integer(0, text.length);
  return random.pick([
    text.slice(0, at),
    text.slice(0, at) + word + text.slice(at),
    text + text,
    text.toUpperCase(),
    ` ${text}`,
    `${text}=`,
    text.split('').toReversed().join(''),
  ]);
}

/** The same member twice, which no value can hold. */
function doubled(text: string, random: SeededRandom): Buffer {
  const members = [...text.matchAll(/"[^"\\]{1,40}":/g)];
  if (members.length === 0) return Buffer.from(text);
  const { 0: member, index } = random.pick(members);
  return Buffer.from(`${text.slice(0, index)}${member}null,${text.slice(index)}`);
}

interface Place {
  readonly parent: Json[] | { [key: string]: Json };
  readonly key: string;
}

function placesOf(parent: Json[] | { [key: string]: Json }): Place[] {
  const places: Place[] = [];
  const open = [parent];
  for (let list = open.pop(); list !== undefined; list = open.pop()) {
    for (const key of Object.keys(list)) {
      if (places.length === 2000) return places;
      places.push({ parent: list, key });
      const value = (list as Record<string, Json>)[key];
      if (typeof value === 'object' && value !== null) open.push(value);
    }
  }
  return places;
}

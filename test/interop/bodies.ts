// Random bodies for comparison with kube-apiserver: most are valid, some contain one error, so that the
// test also compares error messages.

import type { Json } from '../../src/api/object.ts';
import { Dice } from './dice.ts';

export type Body = { [key: string]: Json };

const words = ['ash', 'birch', 'cedar', 'elm', 'fir'] as const;

/** A part of a Widget's spec. `whole` adds what is required. */
export function widgetSpec(dice: Dice, whole: boolean): Body {
  const spec: Body = {};
  const maybe = (field: string, probability: number, value: () => Json): void => {
    if (dice.chance(probability)) spec[field] = value();
  };
  if (whole || dice.chance(0.5)) spec.title = dice.chance(0.05) ? 'sealed' : dice.pick(words);
  maybe('size', 0.4, () => dice.below(90));
  maybe('count', 0.15, () => dice.pick([0, 1, 9007199254740991, -5]));
  maybe('color', 0.3, () => dice.pick(['red', 'green', 'blue']));
  maybe('enabled', 0.2, () => dice.chance(0.5));
  maybe('due', 0.15, () => dice.pick(['2027-01-01T00:00:00Z', '2027-02-01T10:20:30.5+02:00']));
  maybe('tags', 0.4, () => dice.some(words, 0.4));
  maybe('args', 0.2, () => ['-v', ...dice.some(words, 0.3)]);
  maybe('ports', 0.4, () => dice.some(['dns', 'http', 'tls'], 0.5).map((name) => port(dice, name)));
  maybe('nested', 0.3, () => nested(dice));
  maybe('defaulted', 0.2, () => (dice.chance(0.5) ? { level: dice.below(3) } : {}));
  maybe('labels', 0.3, () => Object.fromEntries(dice.some(words, 0.3).map((w) => [w, 'x'])));
  maybe('limits', 0.2, () => ({ [dice.pick(words)]: { max: dice.below(9) } }));
  maybe('frozen', 0.2, () => ({ k: dice.pick(words), ...(dice.chance(0.5) ? { v: 'v' } : {}) }));
  maybe('extra', 0.2, () => anything(dice, 2));
  return spec;
}

function port(dice: Dice, name: string): Body {
  return {
    name,
    ...(dice.chance(0.4) ? { protocol: dice.pick(['TCP', 'UDP']) } : {}),
    port: 1 + dice.below(3) * 100,
    ...(dice.chance(0.3) ? { note: dice.pick(words) } : {}),
  };
}

function nested(dice: Dice): Body {
  return {
    ...(dice.chance(0.5) ? { a: dice.pick(words) } : {}),
    ...(dice.chance(0.6)
      ? {
          deep: {
            ...(dice.chance(0.5) ? { b: dice.below(5) } : {}),
            ...(dice.chance(0.4) ? { list: [{ x: dice.pick(words) }] } : {}),
          },
        }
      : {}),
  };
}

function anything(dice: Dice, depth: number): Json {
  return dice.weighted<() => Json>([
    [2, () => dice.pick(words)],
    [1, () => dice.below(1000)],
    [1, () => dice.chance(0.5)],
    [1, () => 1.5],
    [depth, () => [anything(dice, depth - 1), anything(dice, depth - 1)]],
    [depth, () => ({ [dice.pick(words)]: anything(dice, depth - 1) })],
  ])();
}

export function widgetStatus(dice: Dice): Body {
  const status: Body = {};
  if (dice.chance(0.6)) status.phase = dice.pick(['Pending', 'Ready', 'Failed']);
  if (dice.chance(0.3)) status.observed = dice.below(5);
  if (dice.chance(0.5))
    status.conditions = dice.some(['Ready', 'Synced'], 0.6).map((type) => ({
      type,
      status: dice.pick(['True', 'False', 'Unknown']),
      ...(dice.chance(0.4) ? { message: dice.pick(words) } : {}),
    }));
  return status;
}

export function roleSpec(dice: Dice): Body {
  return {
    rules: Array.from({ length: 1 + dice.below(2) }, () => ({
      kinds: dice.some(['Role', 'RoleBinding', 'Site'], 0.6).concat('Widget'),
      verbs: dice
        .some(['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'], 0.5)
        .concat('get'),
    })),
  };
}

/**
 * Metadata that a client may set, without the name. Nothing in it is empty: kube-apiserver stores
 * an empty list or map that is applied, does not show it, and so counts the next change that
 * changes nothing as a change.
 */
export function metadata(dice: Dice, options: { readonly finalizers: boolean }): Body {
  const meta: Body = {};
  const keyed = (keys: readonly string[]): Body =>
    Object.fromEntries(
      [dice.pick(keys), ...dice.some(keys, 0.3)].map((key) => [key, dice.pick(words)]),
    );
  if (dice.chance(0.4)) meta.labels = keyed(['app', 'tier', 'hansa.dev/zone']);
  if (dice.chance(0.3)) meta.annotations = keyed(['note', 'example.com/why']);
  if (options.finalizers && dice.chance(0.2))
    meta.finalizers = dice.pick([['hansa.dev/a'], ['hansa.dev/b'], ['hansa.dev/a', 'hansa.dev/b']]);
  return meta;
}

type Fault = (body: Body) => void;

/** One thing wrong. Each breaks a rule of the schema. */
const widgetFaults: readonly Fault[] = [
  (body) => set(body, ['spec', 'title'], 7),
  (body) => set(body, ['spec', 'title'], ''),
  (body) => set(body, ['spec', 'title'], 'waytoolongtitle'),
  (body) => set(body, ['spec', 'title'], 'UPPER'),
  (body) => set(body, ['spec', 'title'], null),
  (body) => set(body, ['spec', 'size'], 101),
  (body) => set(body, ['spec', 'size'], -1),
  (body) => set(body, ['spec', 'size'], '5'),
  (body) => set(body, ['spec', 'size'], 1.5),
  (body) => set(body, ['spec', 'size'], null),
  (body) => set(body, ['spec', 'color'], 'purple'),
  (body) => set(body, ['spec', 'enabled'], 'yes'),
  (body) => set(body, ['spec', 'due'], 'tomorrow'),
  (body) => set(body, ['spec', 'tags'], ['ash', 'ash']),
  (body) => set(body, ['spec', 'tags'], ['a', 'b', 'c', 'd', 'e', 'f']),
  (body) => set(body, ['spec', 'tags'], ['ninechars']),
  (body) => set(body, ['spec', 'tags'], [1, null]),
  (body) => set(body, ['spec', 'tags'], { ash: true }),
  (body) => set(body, ['spec', 'args'], []),
  (body) => set(body, ['spec', 'ports'], [{ port: 1 }]),
  (body) => set(body, ['spec', 'ports'], [{ name: 'dns', port: 70000 }]),
  (body) =>
    set(
      body,
      ['spec', 'ports'],
      [
        { name: 'dns', port: 1 },
        { name: 'dns', protocol: 'TCP', port: 2 },
      ],
    ),
  (body) => set(body, ['spec', 'ports'], [{ name: 'dns', port: 1, protocol: 'SCTP' }]),
  (body) => set(body, ['spec', 'ports'], [{ name: 'dns', port: 1, unknown: 1 }, 'x']),
  (body) => set(body, ['spec', 'nested'], { deep: { list: [{}] } }),
  (body) => set(body, ['spec', 'nested'], { deep: { b: null }, surplus: { a: 1 } }),
  (body) => set(body, ['spec', 'nested'], []),
  (body) => set(body, ['spec', 'defaulted'], null),
  (body) => set(body, ['spec', 'labels'], { a: 1 }),
  (body) => set(body, ['spec', 'labels'], { a: 'a', b: 'b', c: 'c', d: 'd', e: 'e' }),
  (body) => set(body, ['spec', 'limits'], { ash: { min: 1 } }),
  (body) => set(body, ['spec', 'limits'], { ash: { max: 1, middle: 2 } }),
  (body) => set(body, ['spec', 'unknown'], 'field'),
  (body) => set(body, ['spec', 'color'], 'blue', ['spec', 'size'], 80),
];

/** What is wrong with any kind: rules of metadata and of the decoder. */
const faults: readonly Fault[] = [
  (body) => set(body, ['spec'], null),
  (body) => set(body, ['spec'], 'text'),
  (body) => set(body, ['surplus'], { at: 'root' }),
  (body) => set(body, ['metadata', 'labels'], { 'bad key!': 'x' }),
  (body) => set(body, ['metadata', 'labels'], { app: 'bad value!' }),
  (body) => set(body, ['metadata', 'labels'], { app: 5 }),
  (body) => set(body, ['metadata', 'annotations'], { 'Bad Key': 'x' }),
  (body) => set(body, ['metadata', 'annotations'], 'none'),
  (body) => set(body, ['metadata', 'finalizers'], ['noslash']),
  (body) => set(body, ['metadata', 'finalizers'], ['bad name/!']),
  (body) => set(body, ['metadata', 'ownerReferences'], [{ kind: 'Role', name: 'x' }]),
  (body) => set(body, ['metadata', 'unknown'], true),
  (body) => set(body, ['metadata', 'generation'], 99),
  (body) => set(body, ['metadata', 'creationTimestamp'], '2020-01-01T00:00:00Z'),
  (body) => set(body, ['metadata', 'creationTimestamp'], 'long ago'),
  (body) => set(body, ['metadata', 'uid'], 'made-up'),
  (body) => set(body, ['metadata', 'namespace'], 'default'),
  (body) => set(body, ['metadata', 'resourceVersion'], 'zero'),
  (body) => set(body, ['metadata', 'managedFields'], [{ manager: 'x' }]),
  (body) => set(body, ['kind'], 'Gadget'),
  (body) => set(body, ['apiVersion'], 'other.dev/v1alpha1'),
  (body) => set(body, ['status'], { phase: 'Ready' }),
  (body) => set(body, ['status'], { phase: 'Wrong' }),
];

export function spoil(body: Body, kind: string, dice: Dice): void {
  dice.pick(kind === 'Widget' ? [...widgetFaults, ...faults] : faults)(body);
}

/** Sets one or more values, making the objects on the way where there are none. */
function set(body: Body, ...pairs: readonly (readonly string[] | Json)[]): void {
  for (let index = 0; index < pairs.length; index += 2) {
    const path = pairs[index] as readonly string[];
    let at: Body = body;
    for (const key of path.slice(0, -1)) {
      const next = at[key];
      if (typeof next !== 'object' || next === null || Array.isArray(next)) at[key] = {};
      at = at[key] as Body;
    }
    at[path.at(-1) ?? ''] = pairs[index + 1] as Json;
  }
}

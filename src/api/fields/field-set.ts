// Sets of field paths, as immutable tries. Operations share unchanged parts; their cost grows with
// the levels that both tries have in common.

import { type PathElement, sortPathElements } from './path-element.ts';

/** One place in the trie: whether the path to it is in the set, and the paths below it. */
export interface FieldEntry {
  readonly member: boolean;
  readonly below: FieldSet;
}

/** No entry is useless: each is a member or has members below. */
export type FieldSet = ReadonlyMap<PathElement, FieldEntry>;
export type MutableFieldSet = Map<PathElement, FieldEntry>;

export type Path = readonly PathElement[];

export const emptySet: FieldSet = new Map();
export const leaf: FieldEntry = { member: true, below: emptySet };

export function fieldSetOf(...paths: readonly Path[]): FieldSet {
  return unionAll(paths.map(singlePath));
}

function singlePath(path: Path): FieldSet {
  let below: FieldSet = emptySet;
  for (let i = path.length - 1; i >= 0; i--) {
    below = new Map([[path[i] as PathElement, { member: i === path.length - 1, below }]]);
  }
  return below;
}

export function isEmpty(set: FieldSet): boolean {
  return set.size === 0;
}

export function has(set: FieldSet, path: Path): boolean {
  let entry: FieldEntry | undefined;
  let level = set;
  for (const element of path) {
    entry = level.get(element);
    if (entry === undefined) return false;
    level = entry.below;
  }
  return entry?.member ?? false;
}

export function equals(a: FieldSet, b: FieldSet): boolean {
  if (a === b) return true;
  if (a.size !== b.size) return false;
  for (const [element, x] of a) {
    const y = b.get(element);
    if (y === undefined || x.member !== y.member || !equals(x.below, y.below)) return false;
  }
  return true;
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  if (b.size === 0 || a === b) return a;
  if (a.size === 0) return b;
  const out: MutableFieldSet = new Map(a);
  for (const [element, y] of b) {
    const x = a.get(element);
    if (x === undefined) out.set(element, y);
    else if (x !== y) {
      out.set(element, { member: x.member || y.member, below: union(x.below, y.below) });
    }
  }
  return out;
}

/** In pairs, then pairs of pairs: one after the other would copy what is already united each time. */
export function unionAll(sets: readonly FieldSet[]): FieldSet {
  let level = sets;
  while (level.length > 1) {
    const united: FieldSet[] = [];
    for (let i = 0; i < level.length; i += 2)
      united.push(union(level[i] ?? emptySet, level[i + 1] ?? emptySet));
    level = united;
  }
  return level[0] ?? emptySet;
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0 || b.size === 0) return emptySet;
  const out: MutableFieldSet = new Map();
  for (const [element, x] of a) {
    const y = b.get(element);
    if (y === undefined) continue;
    put(out, element, x.member && y.member, intersection(x.below, y.below));
  }
  return out;
}

/** The paths of `a` that are not in `b`. A path stays when only its parent is in `b`. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0 || b.size === 0) return a;
  const out: MutableFieldSet = new Map();
  for (const [element, x] of a) {
    const y = b.get(element);
    if (y === undefined) out.set(element, x);
    else put(out, element, x.member && !y.member, difference(x.below, y.below));
  }
  return out;
}

/** As `difference`, but a path goes with everything below it. */
export function recursiveDifference(a: FieldSet, b: FieldSet): FieldSet {
  if (a.size === 0 || b.size === 0) return a;
  const out: MutableFieldSet = new Map();
  for (const [element, x] of a) {
    const y = b.get(element);
    if (y === undefined) out.set(element, x);
    else if (!y.member) put(out, element, x.member, recursiveDifference(x.below, y.below));
  }
  return out;
}

function put(out: MutableFieldSet, element: PathElement, member: boolean, below: FieldSet): void {
  if (below.size === 0) {
    if (member) out.set(element, leaf);
  } else out.set(element, { member, below });
}

/** Every path in Go's order: the members of a level first, then what lies below each, depth first. */
export function listPaths(set: FieldSet): Path[] {
  const out: Path[] = [];
  collect(set, [], out);
  return out;
}

function collect(set: FieldSet, prefix: Path, out: Path[]): void {
  const elements = sortPathElements([...set.keys()]);
  for (const element of elements) {
    if (set.get(element)?.member) out.push([...prefix, element]);
  }
  for (const element of elements) {
    const below = set.get(element)?.below;
    if (below !== undefined && below.size > 0) collect(below, [...prefix, element], out);
  }
}

// The structured merge of server-side apply: fields in `config` replace those in `live`, and all
// others stay. Lists of type set and map merge by item: common items take the order of `config`, and
// other items of `live` keep their place between them.

import type { Json, JsonObject } from '../object.ts';
import type { ListSchema, Schema } from '../schema/schema.ts';
import { isJsonObject, setOwn } from './json-value.ts';
import type { PathElement } from './path-element.ts';
import {
  type MapShape,
  SchemaMismatch,
  asList,
  asMap,
  fieldSchema,
  itemElement,
  listShape,
  mapShape,
} from './shape.ts';

export function merge(schema: Schema, live: Json, config: Json): Json {
  return mergeValues(schema, live, config) ?? null;
}

/** At least one of both is there. Undefined where nothing is left. */
function mergeValues(
  schema: Schema,
  live: Json | undefined,
  config: Json | undefined,
): Json | undefined {
  const map = mapShape(schema, config === undefined ? live : config);
  if (map !== undefined) {
    // A free-form value that was no object before is replaced as a whole.
    const old =
      schema.type === 'any' && live !== null && live !== undefined && !isJsonObject(live)
        ? undefined
        : asMap(live);
    const now = asMap(config);
    if (isEmptyMap(old) && isEmptyMap(now)) return config === undefined ? live : config;
    return mergeMaps(map, old, now);
  }
  const list = listShape(schema);
  if (list === undefined) return config === undefined ? live : config;
  const old = asList(live);
  const now = asList(config);
  if ((old?.length ?? 0) === 0 && (now?.length ?? 0) === 0) {
    return config === undefined ? live : config;
  }
  return mergeLists(list, old ?? [], now ?? []);
}

function isEmptyMap(map: JsonObject | undefined): boolean {
  return map === undefined || Object.keys(map).length === 0;
}

function mergeMaps(
  shape: MapShape,
  live: JsonObject | undefined,
  config: JsonObject | undefined,
): Json | undefined {
  // Unchanged parts are shared, not copied: both inputs are immutable.
  if (config === undefined) return live;
  const out: Record<string, Json> = {};
  let size = 0;
  const put = (name: string, old: Json | undefined, now: Json | undefined): void => {
    const inner = fieldSchema(shape, name);
    if (inner === undefined) throw new SchemaMismatch(`.${name}: field not declared in schema`);
    const merged = mergeValues(inner, old, now);
    if (merged === undefined) return;
    setOwn(out, name, merged);
    size++;
  };
  if (live !== undefined) {
    for (const name of Object.keys(live)) {
      put(name, live[name], Object.hasOwn(config, name) ? config[name] : undefined);
    }
  }
  for (const name of Object.keys(config)) {
    if (live === undefined || !Object.hasOwn(live, name)) put(name, undefined, config[name]);
  }
  return size === 0 ? undefined : out;
}

interface Indexed {
  readonly elements: readonly PathElement[];
  /** The item of each element; null where several items share it, for those are not merged. */
  readonly items: ReadonlyMap<PathElement, Json>;
}

function index(list: ListSchema, items: readonly Json[], allowDuplicates: boolean): Indexed {
  const elements: PathElement[] = [];
  const byElement = new Map<PathElement, Json>();
  for (const item of items) {
    const element = itemElement(list, item);
    if (!byElement.has(element)) byElement.set(element, item);
    else if (allowDuplicates) byElement.set(element, null);
    else continue;
    elements.push(element);
  }
  return { elements, items: byElement };
}

/**
 * Walks both lists at once. An item of `live` alone is taken where it stands; an item that is in
 * both is taken when its turn in `config` comes.
 */
function mergeLists(
  list: ListSchema,
  live: readonly Json[],
  config: readonly Json[],
): Json | undefined {
  const left = index(list, live, true);
  const right = index(list, config, false);
  const shared = right.elements.filter((element) => left.items.has(element));
  let nextShared = 0;
  const taken = new Set<PathElement>();
  const out: Json[] = [];
  const take = (old: Json | undefined, now: Json | undefined): void => {
    const merged = mergeValues(list.items, old, now);
    if (merged !== undefined) out.push(merged);
  };
  let l = 0;
  let r = 0;
  while (l < left.elements.length || r < right.elements.length) {
    const a = left.elements[l];
    const b = right.elements[r];
    if (a !== undefined && b !== undefined) {
      if (a === b) {
        taken.add(a);
        take(left.items.get(a), right.items.get(a));
        l++;
        r++;
        nextShared++;
        continue;
      }
      if (right.items.has(a) && nextShared < shared.length && shared[nextShared] !== a) {
        // It is in both lists, but its turn is another.
        l++;
        continue;
      }
    }
    if (a !== undefined) {
      if (!right.items.has(a)) {
        take(live[l], undefined);
        l++;
        continue;
      }
      if (taken.has(a)) l++;
    }
    if (b !== undefined) {
      taken.add(b);
      take(left.items.get(b), right.items.get(b));
      r++;
      if (shared[nextShared] === b) nextShared++;
    }
  }
  return out.length === 0 ? undefined : out;
}

// The registry of all kinds that a site serves. README.md describes this folder.

import { compileJsonPath } from './selectors/json-path.ts';
import type { Column, Kind } from './kind.ts';
import { fieldAt } from './resource-schema.ts';
import { checkSchema } from './schema/check-schema.ts';

export interface Registry {
  /** In the order of their declaration. */
  readonly kinds: readonly Kind[];
  /** By the name in URLs, for example `rolebindings`. */
  byPlural(plural: string): Kind | undefined;
  byKind(kind: string): Kind | undefined;
}

/** Throws a TypeError where a declaration is wrong: that is a fault of the program. */
export function createRegistry(kinds: readonly Kind[]): Registry {
  const byPlural = new Map<string, Kind>();
  const byKind = new Map<string, Kind>();
  const names = new Map<string, string>();
  for (const kind of kinds) {
    checkKind(kind);
    for (const name of new Set([kind.plural, kind.singular, ...kind.shortNames])) {
      const taken = names.get(name);
      if (taken !== undefined) {
        throw new TypeError(`Kind ${kind.kind}: the name "${name}" belongs to ${taken} already`);
      }
      names.set(name, kind.kind);
    }
    if (byKind.has(kind.kind)) throw new TypeError(`Kind ${kind.kind} is declared twice`);
    byKind.set(kind.kind, kind);
    byPlural.set(kind.plural, kind);
  }
  return {
    kinds: [...kinds],
    byPlural: (plural) => byPlural.get(plural),
    byKind: (kind) => byKind.get(kind),
  };
}

const pluralGrammar = /^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/;

function checkKind(kind: Kind): void {
  const refuse = (why: string): never => {
    throw new TypeError(`Kind ${kind.kind}: ${why}`);
  };
  if (kind.cluster !== undefined) refuse('belongs to clusters, so a site does not serve it');
  if (!/^[A-Z][A-Za-z0-9]{0,62}$/.test(kind.kind)) refuse('is not in PascalCase');
  for (const name of [kind.plural, kind.singular, ...kind.shortNames]) {
    if (!pluralGrammar.test(name)) refuse(`"${name}" is not a lower-case DNS label`);
  }
  if (kind.description.trim() === '') refuse('has no description');
  if (kind.singleton !== undefined && !/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(kind.singleton)) {
    refuse(`its only name "${kind.singleton}" is not a name`);
  }
  checkSchema(kind.spec, `${kind.kind}.spec`);
  if (kind.status !== undefined) checkSchema(kind.status, `${kind.kind}.status`);
  const columns = new Set<string>(['name', 'age']);
  for (const column of kind.columns) {
    const name = column.name.toLowerCase();
    if (columns.has(name)) refuse(`has two columns "${column.name}"`);
    columns.add(name);
    checkColumnPath(kind, column);
  }
  for (const path of kind.selectableFields ?? []) {
    const field = fieldAt(kind, path);
    if (field === undefined) refuse(`there is no field "${path}" to select by`);
    else if (!['string', 'integer', 'boolean'].includes(field.type)) {
      refuse(`"${path}" is a ${field.type}: it cannot be selected by`);
    }
  }
}

/** Else a mistake in a path would show at the first `kubectl get`, not at start. */
function checkColumnPath(kind: Kind, { name, jsonPath }: Column): void {
  if (!jsonPath.startsWith('.')) {
    throw new TypeError(`Kind ${kind.kind}: the path of "${name}" starts without "."`);
  }
  compileJsonPath(jsonPath);
}

// Parses kind arguments: plural, singular, short name or kind, in upper or lower case, with or without
// the group; and KIND/NAME for one object.

import type { Kind } from '../../api/kind.ts';
import { group } from '../../api/object.ts';
import type { Registry } from '../../api/registry.ts';
import { HansaError } from '../../core/errors/error.ts';
import { nearest } from '../../server/config/nearest.ts';

export function findKind(registry: Registry, text: string): Kind {
  const word = text.toLowerCase().replace(`.${group}`, '');
  const kind = registry.kinds.find((candidate) => namesOf(candidate).includes(word));
  if (kind !== undefined) return kind;
  const meant = nearest(word, registry.kinds.flatMap(namesOf));
  const hint =
    meant === undefined
      ? `The kinds are ${registry.kinds.map((known) => known.plural).join(', ')}.`
      : `Did you mean ${meant}?`;
  throw new HansaError('HANSA_USAGE', `There is no kind ${JSON.stringify(text)}. ${hint}`);
}

function namesOf(kind: Kind): string[] {
  return [kind.plural, kind.singular, kind.kind.toLowerCase(), ...kind.shortNames];
}

export interface Target {
  readonly kind: Kind;
  /** Undefined: all objects of the kind. */
  readonly name: string | undefined;
}

/** Reads `KIND [NAME…]`, `KIND,KIND` and `KIND/NAME…`, as kubectl does. */
export function parseTargets(registry: Registry, words: readonly string[]): Target[] {
  const [first] = words;
  if (first === undefined) {
    throw new HansaError('HANSA_USAGE', 'Name a kind, for example: hansa get sites.');
  }
  if (words.some((word) => word.includes('/'))) {
    return words.map((word) => {
      const [kind = '', name = '', ...more] = word.split('/');
      if (kind === '' || name === '' || more.length > 0) {
        throw new HansaError(
          'HANSA_USAGE',
          `${JSON.stringify(word)} is not KIND/NAME. Give either KIND NAME… or KIND/NAME….`,
        );
      }
      return { kind: findKind(registry, kind), name };
    });
  }
  if (words.length === 1 && first.includes(',')) {
    const kinds = first.split(',').map((word) => findKind(registry, word));
    return [...new Set(kinds)].map((kind) => ({ kind, name: undefined }));
  }
  const kind = findKind(registry, first);
  return words.length === 1
    ? [{ kind, name: undefined }]
    : words.slice(1).map((name) => ({ kind, name }));
}

/** As kubectl prints it with `-o name`. */
export function qualifiedName(kind: Kind, name: string): string {
  return `${kind.singular}.${group}/${name}`;
}

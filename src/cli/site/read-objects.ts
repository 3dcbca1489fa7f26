// Reads several objects at once, some of which may not exist.

import { toHansaError } from '../../core/errors/error.ts';
import type { Cli } from '../cli.ts';
import type { Target } from '../input/kind-argument.ts';
import { printable } from '../../core/command/columns.ts';

export interface ReadObjects<T> {
  readonly found: readonly { readonly target: Target; readonly value: T }[];
  /** Throws the first error, if there is one, and prints the others. */
  refuse(): void;
}

/** Returns the objects that exist, as in kubectl: a missing object does not hide the others. */
export async function readObjects<T>(
  cli: Cli,
  targets: readonly Target[],
  read: (target: Target) => Promise<T>,
): Promise<ReadObjects<T>> {
  const answers = await Promise.allSettled(targets.map(read));
  const found = answers.flatMap((answer, index) =>
    answer.status === 'fulfilled'
      ? [{ target: targets[index] as Target, value: answer.value }]
      : [],
  );
  const [first, ...others] = answers.flatMap((answer) =>
    answer.status === 'rejected' ? [toHansaError(answer.reason)] : [],
  );
  // If no object could be read, for example because the site is down, report only the first error.
  if (first !== undefined && found.length === 0 && first.code !== 'HANSA_NOT_FOUND') throw first;
  return {
    found,
    refuse: () => {
      if (first === undefined) return;
      for (const other of others) cli.note(`${printable(other.message)}   (${other.code})`);
      throw first;
    },
  };
}

// Reading several objects at once, some of which may not be there.

import { toHansaError } from '../../core/errors/error.ts';
import type { Cli } from '../cli.ts';
import type { Target } from '../input/kind-argument.ts';
import { printable } from '../../core/command/columns.ts';

export interface ReadObjects<T> {
  readonly found: readonly { readonly target: Target; readonly value: T }[];
  /** Throws the first refusal, where there was one; the others are noted. */
  refuse(): void;
}

/** Whatever there is, as kubectl shows it: one missing name does not hide the others. */
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
  // Nothing but the first refusal is worth saying where the site does not answer at all.
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

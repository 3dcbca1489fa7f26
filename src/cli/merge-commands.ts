// Merges the commands of `src/cli` and of all planes into one tree. Two planes can add to one group,
// such as `hansa cluster`. Two commands with the same path are a programming error.

import type { Command } from 'commander';

export interface OwnedCommand {
  /** The plane that adds it, for messages. */
  readonly owner: string;
  readonly command: Command;
}

/** Keeps the order of first appearance. Throws if two owners add the same command. */
export function mergeCommands(added: readonly OwnedCommand[], path = 'hansa'): Command[] {
  const byName = Map.groupBy(added, ({ command }) => command.name());
  return [...byName].map(([name, same]) => merged(same, `${path} ${name}`));
}

function merged(same: readonly OwnedCommand[], path: string): Command {
  const [first, second] = same as [OwnedCommand, ...OwnedCommand[]];
  if (second === undefined) return first.command;
  if (!same.every(({ command }) => command.commands.length > 0)) {
    throw new TypeError(
      `Cannot add the command "${path}": ${first.owner} and ${second.owner} both add it. Rename one of them`,
    );
  }
  // The first group with a description wins: other planes may add commands without one.
  const main = same.find(({ command }) => command.description() !== '') ?? first;
  const children = [main, ...same.filter((one) => one !== main)].flatMap(({ owner, command }) =>
    command.commands.map((child) => ({ owner, command: child })),
  );
  const group = main.command;
  // A group below may come from another plane, in place of the one that is there.
  (group.commands as Command[]).length = 0;
  for (const child of mergeCommands(children, path)) group.addCommand(child);
  return group;
}

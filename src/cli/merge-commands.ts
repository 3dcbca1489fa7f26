// Merges the commands of the command line and of every plane into one tree. Two planes may add to one
// group, such as `hansa cluster`; two commands of the same path are a mistake of who wrote them.

import type { Command } from 'commander';

export interface OwnedCommand {
  /** The plane that adds it, for messages. */
  readonly owner: string;
  readonly command: Command;
}

/** In the order of the first command of each name. Throws where two owners add the same command. */
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
  // The group as the plane describes it that has more to say about it than its name.
  const { command: group } = same.find(({ command }) => command.description() !== '') ?? first;
  const children = same.flatMap(({ owner, command }) =>
    command.commands.map((child) => ({ owner, command: child })),
  );
  const kept = new Set(group.commands);
  for (const child of mergeCommands(children, path)) {
    if (!kept.has(child)) group.addCommand(child);
  }
  return group;
}

// The command `hansa`, whose options are global: they may stand anywhere on the command line. A command can
// declare an option of the same name, which then replaces the global one behind that command.

import { Command, type Option, type ParseOptionsResult } from 'commander';

export class RootCommand extends Command {
  override parseOptions(args: string[]): ParseOptionsResult {
    const { command, end } = commandIn(this, args);
    const replacing = replacedBy(command);
    if (replacing.length === 0) return super.parseOptions(args);
    const { own, others } = split(args.slice(end), replacing);
    const { operands, unknown } = super.parseOptions([...args.slice(0, end), ...others]);
    // First, because nothing after `--` is an option.
    return { operands, unknown: [...own, ...unknown] };
  }
}

/** The options of a command that have the name of a global one. */
export function replacedBy(command: Command): readonly Option[] {
  const root = rootOf(command);
  return command === root
    ? []
    : command.options.filter(({ long }) => root.options.some((each) => each.long === long));
}

export function rootOf(command: Command): Command {
  return command.parent === null ? command : rootOf(command.parent);
}

/** The command that the arguments name, and where its own arguments begin. */
function commandIn(root: Command, args: readonly string[]): { command: Command; end: number } {
  let command = root;
  let end = 0;
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at] ?? '';
    if (word.startsWith('-')) {
      const option = [...root.options, ...command.options].find(
        ({ long, short }) => word === long || word === short,
      );
      if (option?.required === true) at += 1;
      continue;
    }
    const child = command.commands.find(
      (each) => each.name() === word || each.aliases().includes(word),
    );
    if (child === undefined) break;
    command = child;
    end = at + 1;
  }
  return { command, end };
}

/** The words of the given options, and all other words. */
function split(
  args: readonly string[],
  options: readonly Option[],
): { readonly own: string[]; readonly others: string[] } {
  const own: string[] = [];
  const others: string[] = [];
  let at = 0;
  for (; at < args.length && args[at] !== '--'; at += 1) {
    const word = args[at] ?? '';
    const option = options.find(({ long }) => word === long || word.startsWith(`${long}=`));
    (option === undefined ? others : own).push(word);
    const value = args[at + 1];
    if (option?.required === true && word === option.long && value !== undefined) {
      own.push(value);
      at += 1;
    }
  }
  return { own, others: [...others, ...args.slice(at)] };
}

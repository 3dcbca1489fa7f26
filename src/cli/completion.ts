// hansa completion: scripts for bash, zsh and fish, written from the commands themselves. They
// hold the words; only for the names of objects does pressing Tab ask a site.

import { Argument, Command, type Option } from 'commander';
import type { Cli } from './cli.ts';
import { outputFormatsOf } from './output.ts';

export function completionCommand(cli: Cli): Command {
  return new Command('completion')
    .description('print a script that completes hansa in a shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText(
      'after',
      `
Examples:
  hansa completion bash > /etc/bash_completion.d/hansa
  hansa completion zsh > "\${fpath[1]}/_hansa"
  hansa completion fish > ~/.config/fish/completions/hansa.fish`,
    )
    .action((shell: string, _options: unknown, command: Command) => {
      const root = command.parent;
      if (root === null) return;
      const words = completionWords(
        root,
        cli.registry.kinds.map((kind) => kind.plural),
      );
      cli.print(scripts[shell as keyof typeof scripts](words));
    });
}

interface CompletionFlag {
  /** `--output`; `short` is `-o`. */
  readonly name: string;
  readonly short: string | undefined;
  readonly description: string;
  /** What it wants behind it: nothing, a file, one of these words, or anything. */
  readonly value: 'none' | 'file' | 'any' | readonly string[];
}

/** The words that may follow a path of commands such as `access token`. */
export interface CompletionWords {
  readonly path: string;
  readonly words: readonly string[];
  /** What follows is a file, or behind a kind the names of its objects. */
  readonly follows: 'nothing' | 'files' | 'names';
  readonly flags: readonly CompletionFlag[];
}

export function completionWords(root: Command, kinds: readonly string[]): CompletionWords[] {
  const globalFlags = flagsOf(root);
  const walk = (command: Command, path: readonly string[]): CompletionWords[] => {
    const children = command.commands.filter((child) => !isHidden(child));
    const [argument] = command.registeredArguments;
    const ofKind = argument?.name() === 'kind';
    const ownWords = argument?.argChoices ?? (ofKind ? kinds : []);
    return [
      {
        path: path.join(' '),
        words: [...children.map((child) => child.name()), ...ownWords],
        follows: ofKind ? 'names' : argument?.name() === 'file' ? 'files' : 'nothing',
        flags: command === root ? globalFlags : [...flagsOf(command), ...globalFlags],
      },
      ...children.flatMap((child) => walk(child, [...path, child.name()])),
    ];
  };
  return walk(root, []);
}

/** Commander knows which commands are hidden, but only its help tells. */
function isHidden(command: Command): boolean {
  const { parent } = command;
  return parent !== null && !parent.createHelp().visibleCommands(parent).includes(command);
}

function flagsOf(command: Command): CompletionFlag[] {
  return command.options
    .filter((option) => !option.hidden && option.long !== undefined)
    .map((option) => ({
      name: option.long ?? '',
      short: option.short,
      description: option.description,
      value: valueOf(option),
    }));
}

function valueOf(option: Option): CompletionFlag['value'] {
  if (!option.required && !option.optional) return 'none';
  if (/<(?:file|dir|path)(?:\.\.\.)?>/i.test(option.flags)) return 'file';
  return outputFormatsOf(option) ?? 'any';
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

/** Finds the path of commands by skipping flags and what they take. */
function bashScript(all: readonly CompletionWords[]): string {
  const flags = all.flatMap((words) => words.flags);
  const spelt = (value: (flag: CompletionFlag) => boolean): string =>
    [
      ...new Set(
        flags.filter(value).flatMap(({ name, short }) => [name, ...(short ? [short] : [])]),
      ),
    ]
      .toSorted()
      .join(' | ');
  return `# bash completion for hansa
_hansa() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} path= kind= word before=
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $before in
      ${spelt(({ value }) => value !== 'none')}) before= && continue ;;
    esac
    before=$word
    case $path/$word in
${all
  .filter(({ path }) => path !== '')
  .map(({ path }) => {
    const parts = path.split(' ');
    return `      '${parts.slice(0, -1).join(' ')}/${parts.at(-1)}') path='${path}' ;;`;
  })
  .join('\n')}
      */-*) ;;
      *) kind=\${kind:-$word} ;;
    esac
  done
  local words= flags= formats= follows=nothing
  case $path in
${all
  .map(({ path, words, follows, flags: own }) => {
    const names = own.map((flag) => flag.name).join(' ');
    const formats = own.flatMap(({ value }) => (typeof value === 'string' ? [] : value)).join(' ');
    return `    '${path}') words='${words.join(' ')}' flags='${names}' formats='${formats}' follows=${follows} ;;`;
  })
  .join('\n')}
  esac
  case $previous in
    ${spelt(({ value }) => value === 'file')}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    ${spelt(({ value }) => typeof value !== 'string')}) COMPREPLY=($(compgen -W "$formats" -- "$current")); return ;;
    ${spelt(({ value }) => value === 'any')}) COMPREPLY=(); return ;;
  esac
  case $current/$follows/$kind in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    */files/*) COMPREPLY=($(compgen -f -- "$current")) ;;
    */names/?*)
      # The site that HANSA_DATA_DIR or HANSA_SITE names; where none answers, nothing is offered.
      # compgen would run what stands in $(…): only letters that names have pass.
      COMPREPLY=($(compgen -W "$("\${COMP_WORDS[0]}" get "$kind" -o name 2>/dev/null </dev/null | sed -n 's|^.*/\\([-a-z0-9.]*\\)$|\\1|p')" -- "$current"))
      ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -o filenames -F _hansa hansa ./hansa`;
}

function zshScript(all: readonly CompletionWords[]): string {
  return `#compdef hansa
autoload -U +X bashcompinit && bashcompinit
${bashScript(all)}`;
}

function fishScript(all: readonly CompletionWords[]): string {
  const lines = ['# fish completion for hansa', 'complete -c hansa -f'];
  for (const { path, words, flags } of all) {
    const last = path.split(' ').at(-1) ?? '';
    const when = path === '' ? '__fish_use_subcommand' : `__fish_seen_subcommand_from ${last}`;
    if (words.length > 0) lines.push(`complete -c hansa -n '${when}' -a '${words.join(' ')}'`);
    for (const flag of flags) {
      const text = flag.description.replaceAll("'", '’');
      lines.push(`complete -c hansa -n '${when}' -l ${flag.name.slice(2)} -d '${text}'`);
    }
  }
  return lines.join('\n');
}

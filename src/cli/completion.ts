// hansa completion: scripts for bash, zsh and fish, written from the commands themselves. They
// hold the words, so that pressing Tab starts no process.

import { Argument, Command } from 'commander';
import type { Cli } from './cli.ts';

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

/** The words that may follow a path of commands such as `access token`. */
export interface CompletionWords {
  readonly path: string;
  readonly words: readonly string[];
  readonly flags: readonly { readonly name: string; readonly description: string }[];
}

export function completionWords(root: Command, kinds: readonly string[]): CompletionWords[] {
  const globalFlags = flagsOf(root);
  const walk = (command: Command, path: readonly string[]): CompletionWords[] => {
    const children = command.commands.filter((child) => !isHidden(child));
    const [argument] = command.registeredArguments;
    const ownWords = argument?.argChoices ?? (argument?.name() === 'kind' ? kinds : []);
    return [
      {
        path: path.join(' '),
        words: [...children.map((child) => child.name()), ...ownWords],
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

function flagsOf(command: Command): { name: string; description: string }[] {
  return command.options
    .filter((option) => !option.hidden && option.long !== undefined)
    .map((option) => ({ name: option.long ?? '', description: option.description }));
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

/** Both find the path of commands by skipping flags. */
function bashScript(all: readonly CompletionWords[]): string {
  return `# bash completion for hansa
_hansa() {
  local current=\${COMP_WORDS[COMP_CWORD]} path= word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $path/$word in
${all
  .filter(({ path }) => path !== '')
  .map(({ path }) => {
    const parts = path.split(' ');
    return `      '${parts.slice(0, -1).join(' ')}/${parts.at(-1)}') path='${path}' ;;`;
  })
  .join('\n')}
    esac
  done
  local words= flags=
  case $path in
${all
  .map(({ path, words, flags }) => {
    const names = flags.map((flag) => flag.name).join(' ');
    return `    '${path}') words='${words.join(' ')}' flags='${names}' ;;`;
  })
  .join('\n')}
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current")) ;;
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

// `hansa completion`: generates scripts for bash, zsh and fish from the commands. The scripts contain
// all words except names of objects, for which they call the site.

import { Argument, Command, type Option } from 'commander';
import type { NameLists } from '../../core/plane/command-line.ts';
import type { Plane } from '../../core/plane/plane.ts';
import type { Cli } from '../cli.ts';
import { replacedBy } from '../root-command.ts';
import { subjectsOf } from '../doctor/subject.ts';
import { outputFormatsOf } from '../output/output.ts';

export function completionCommand(cli: Cli): Command {
  return new Command('completion')
    .description('print a shell completion script')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
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
        nameLists(cli.planes),
      );
      cli.print(scripts[shell as keyof typeof scripts](words));
    });
}

interface CompletionFlag {
  /** `--output`; `short` is `-o`. */
  readonly name: string;
  readonly short: string | undefined;
  readonly description: string;
  /** The value that it takes: none, a file, one of these words, or any text. */
  readonly value: 'none' | 'file' | 'any' | readonly string[];
  /** The command that lists the possible values. */
  readonly listedBy: string | undefined;
}

/** The words that may follow a path of commands such as `access token`. */
export interface CompletionWords {
  readonly path: string;
  readonly words: readonly string[];
  /** What follows: files, or after a kind the names of its objects. */
  readonly follows: 'nothing' | 'files' | 'names';
  /** The command that lists the possible first words with `-o name`. */
  readonly listedBy: string | undefined;
  readonly flags: readonly CompletionFlag[];
  /** The flags of the command that replace global ones, so they do not select a site. */
  readonly replaced: readonly string[];
}

/** Lists for the commands in this folder. Planes and the subjects of `hansa doctor` add more. */
const ownLists: NameLists = new Map(
  Object.entries({
    'access token create --role': 'get roles',
    'access revoke': 'access list',
    'approval show': 'approval list',
    'approval approve': 'approval list',
    'approval reject': 'approval list',
    'context use': 'context list',
    'context show': 'context list',
    'context remove': 'context list',
    'context rename': 'context list',
    '--context': 'context list',
  }),
);

export function nameLists(planes: readonly Plane[]): NameLists {
  return new Map([
    ...ownLists,
    ...planes.flatMap(({ names }) => [...(names ?? [])]),
    ...subjectsOf(planes).map(({ flag, listedBy }) => [`doctor --${flag}`, listedBy] as const),
  ]);
}

export function completionWords(
  root: Command,
  kinds: readonly string[],
  lists: NameLists,
): CompletionWords[] {
  const globalFlags = flagsOf(root, [], lists);
  const walk = (command: Command, path: readonly string[]): CompletionWords[] => {
    const children = command.commands.filter((child) => !isHidden(child));
    const [argument, second] = command.registeredArguments;
    const ofKind = argument?.name() === 'kind';
    const explained = argument?.name() === 'subject';
    const ownWords = argument?.argChoices ?? (ofKind || explained ? kinds : []);
    // The user can omit the word `run`.
    const leftOut = children
      .filter((child) => child.name() === 'run')
      .flatMap((child) => flagsOf(child, path, lists));
    const hasFile = [argument, second].some((each) => each?.name() === 'file');
    return [
      {
        path: path.join(' '),
        words: [...children.map((child) => child.name()), ...ownWords],
        follows: ofKind ? 'names' : hasFile ? 'files' : 'nothing',
        listedBy: lists.get(path.join(' ')),
        replaced: replacedBy(command).map(({ long }) => long ?? ''),
        flags:
          command === root
            ? globalFlags
            : [...flagsOf(command, path, lists), ...leftOut, ...unreplaced(command, globalFlags)],
      },
      ...children.flatMap((child) => walk(child, [...path, child.name()])),
    ];
  };
  return walk(root, []);
}

function unreplaced(command: Command, globalFlags: readonly CompletionFlag[]): CompletionFlag[] {
  const own = new Set(replacedBy(command).map(({ long }) => long));
  return globalFlags.filter(({ name }) => !own.has(name));
}

/** Commander exposes hidden commands only through its help. */
function isHidden(command: Command): boolean {
  const { parent } = command;
  return parent !== null && !parent.createHelp().visibleCommands(parent).includes(command);
}

function flagsOf(command: Command, path: readonly string[], lists: NameLists): CompletionFlag[] {
  return command.options
    .filter((option) => !option.hidden && option.long !== undefined)
    .map((option) => ({
      name: option.long ?? '',
      short: option.short,
      description: option.description,
      value: valueOf(option),
      listedBy: lists.get([...path, option.long].join(' ')),
    }));
}

function valueOf(option: Option): CompletionFlag['value'] {
  if (!option.required && !option.optional) return 'none';
  if (/<(?:file|dir|path)(?:\.\.\.)?>/i.test(option.flags)) return 'file';
  return outputFormatsOf(option) ?? option.argChoices ?? 'any';
}

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

/** Flags that select the site. The command that lists names gets them too. */
const siteFlags = [
  '--data-dir',
  '--site',
  '--context',
  '--ca-file',
  '--token-file',
  '--client-certificate',
  '--client-key',
];

/** The script finds the path of commands by skipping flags and their values. */
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
_hansa_names() {
  # Names from the site that the command line or the environment selects, if it answers.
  # compgen would run the contents of $(…), so sed passes only characters of names.
  COMPREPLY=($(compgen -W "$("\${COMP_WORDS[0]}" "$@" -o name "\${site[@]}" 2>/dev/null </dev/null | sed -n 's|^\\(.*/\\)*\\([-_.a-z0-9]*\\)$|\\2|p')" -- "$current"))
}
_hansa_files() {
  COMPREPLY=($(compgen -f -- "$current"))
  # Only for files: otherwise bash would treat a peer as a folder of the same name.
  compopt -o filenames 2>/dev/null
}
_hansa() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} path= kind= word before=
  local -a site
  site=()
  # bash splits --flag=value into three words.
  case $current in =) current= ;; esac
  case $previous in =) previous=\${COMP_WORDS[COMP_CWORD-2]} ;; esac
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in =) continue ;; esac
    case $path/$before in
${all
  .flatMap(({ path, replaced }) => replaced.map((flag) => `'${path}/${flag}'`))
  .map((when) => `      ${when}) before= && continue ;;`)
  .join('\n')}
    esac
    case $before in
      ${siteFlags.join(' | ')}) site+=("$before" "\${word/#\\~/$HOME}") && before= && continue ;;
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
  local words= flags= follows=nothing asks=
  case $path in
${all
  .map(({ path, words, follows, listedBy: asked, flags: own }) => {
    const names = own.map((flag) => flag.name).join(' ');
    // After the first name, the next argument is not a name; it can be a file.
    const first = asked === undefined ? '' : ` && [ -z "$kind" ] && follows=names asks='${asked}'`;
    return `    '${path}') words='${words.join(' ')}' flags='${names}' follows=${follows}${first} ;;`;
  })
  .join('\n')}
  esac
  case $previous in
    ${spelt(({ value }) => value === 'file')}) _hansa_files; return ;;
  esac
  case $path/$previous in
${all.flatMap(choiceLines).join('\n')}
    ${spelt(({ value }) => value === 'any')
      .split(' | ')
      .map((flag) => `*/${flag}`)
      .join(' | ')}) COMPREPLY=(); return ;;
  esac
  case $current/$follows/$asks/$kind in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    */files/*) _hansa_files ;;
    */names/?*/*) _hansa_names $asks ;;
    */names//?*) _hansa_names get "$kind" ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -F _hansa hansa ./hansa`;
}

/** The values of a flag such as --role depend on the command. */
function choiceLines({ path, flags }: CompletionWords): string[] {
  return flags.flatMap(({ name, short, value, listedBy: asked }) => {
    const spelt = [name, ...(short === undefined ? [] : [short])];
    const when = spelt.map((flag) => `'${path}/${flag}'`).join(' | ');
    if (asked !== undefined) return `    ${when}) _hansa_names ${asked}; return ;;`;
    if (typeof value === 'string') return [];
    return `    ${when}) COMPREPLY=($(compgen -W '${value.join(' ')}' -- "$current")); return ;;`;
  });
}

function zshScript(all: readonly CompletionWords[]): string {
  return `#compdef hansa
autoload -U +X bashcompinit && bashcompinit
${bashScript(all)}`;
}

function fishScript(all: readonly CompletionWords[]): string {
  const lines = ['# fish completion for hansa', 'complete -c hansa -f'];
  for (const { path, words, flags, follows, listedBy: asked } of all) {
    const seen = path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`);
    const when = path === '' ? '__fish_use_subcommand' : seen.join('; and ');
    const offer = (what: string): unknown => lines.push(`complete -c hansa -n '${when}' ${what}`);
    if (words.length > 0 && path === '') offer(`-a '${words.join(' ')}'`);
    if (words.length > 0 && path !== '') {
      const list = words.join(' ');
      const first = `${when}; and not __fish_seen_subcommand_from ${list}`;
      lines.push(`complete -c hansa -n '${first}' -a '${list}'`);
    }
    if (follows === 'files') offer('-F');
    const namesBy = (command: string): string =>
      `-a '(hansa ${command} -o name 2>/dev/null | string replace -r "^.*/" "")'`;
    if (asked !== undefined) offer(namesBy(asked));
    for (const { name, short, description, value, listedBy: named } of flags) {
      const spelt = `${short === undefined ? '' : `-s ${short.slice(1)} `}-l ${name.slice(2)}`;
      const choices = typeof value === 'string' ? fishValues[value] : ` -x -a '${value.join(' ')}'`;
      const takes = named === undefined ? choices : ` -x ${namesBy(named)}`;
      offer(`${spelt}${takes} -d '${description.replaceAll("'", '’')}'`);
    }
  }
  return lines.join('\n');
}

const fishValues = { none: '', file: ' -r -F', any: ' -x' };

// Builds the command tree, runs a command line, and reports mistakes in its words.

import { type Command, type CommanderError, Option } from 'commander';
import type { Plane } from '../core/plane/plane.ts';
import { accessCommand } from './commands/access.ts';
import { applyCommand } from './commands/apply.ts';
import { approvalCommand } from './commands/approval.ts';
import { auditCommand } from './commands/audit.ts';
import { type Cli, type CliParts, createCli } from './cli.ts';
import { completionCommand } from './commands/completion.ts';
import { configCommand } from './commands/config.ts';
import { contextCommand } from './commands/context.ts';
import { credentialCommand } from './commands/credential.ts';
import { deleteCommand } from './commands/delete.ts';
import { describeCommand } from './commands/describe.ts';
import { docsCommand } from './commands/docs.ts';
import { doctorCommand } from './commands/doctor.ts';
import { exitCodeAfter, exitCodeOfReturn } from './exit-code-after.ts';
import { exitCodes } from './exit-codes.ts';
import { explainCommand } from './commands/explain.ts';
import { getCommand } from './commands/get.ts';
import { formatHelp } from './output/help-page.ts';
import { kubeconfigCommand } from './commands/kubeconfig.ts';
import { loginCommand, logoutCommand } from './commands/login.ts';
import { mergeCommands } from './merge-commands.ts';
import { RootCommand } from './root-command.ts';
import { serverCommand } from './commands/server.ts';
import { statusCommand } from './commands/status.ts';
import { versionCommand } from './commands/version.ts';
import { waitCommand } from './commands/wait.ts';
import { watchCommand } from './commands/watch.ts';
import { whoamiCommand } from './commands/whoami.ts';
import type { Io } from '../core/plane/command-kit.ts';
import { printable } from '../core/command/columns.ts';

type MakeCommand = (cli: Cli) => Command;

/** In the order of the help. The commands of planes follow. */
const ownCommands: readonly MakeCommand[] = [
  serverCommand,
  getCommand,
  describeCommand,
  applyCommand,
  deleteCommand,
  watchCommand,
  waitCommand,
  kubeconfigCommand,
  loginCommand,
  logoutCommand,
  whoamiCommand,
  contextCommand,
  accessCommand,
  approvalCommand,
  auditCommand,
  configCommand,
  doctorCommand,
  explainCommand,
  completionCommand,
  versionCommand,
  statusCommand,
];

/** Commands for kubectl and for developers of Hansa. The help omits them. */
const hiddenCommands: readonly MakeCommand[] = [credentialCommand, docsCommand];

export function createProgram(cli: Cli): Command {
  const program = new RootCommand('hansa')
    .description(
      'Connects sovereign sites. Each site runs one daemon; there is no central authority.',
    )
    .version(cli.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .addOption(
      new Option(
        '--data-dir <dir>',
        'the data folder of the site (HANSA_DATA_DIR, or ./hansa-data)',
      ),
    )
    .addOption(
      new Option('--site <url>', 'the URL of the site, instead of its admin socket (HANSA_SITE)'),
    )
    .addOption(new Option('--context <name>', 'a context: a named site and user (HANSA_CONTEXT)'))
    .addOption(
      new Option(
        '--ca-file <file>',
        'with --site: the CA file of the site (HANSA_CA_FILE, or DATA_DIR/ca.pem)',
      ),
    )
    .addOption(new Option('--token-file <file>', 'with --site: a bearer token (HANSA_TOKEN_FILE)'))
    .addOption(
      new Option(
        '--client-certificate <file>',
        'with --site: a user SVID (HANSA_CLIENT_CERTIFICATE)',
      ),
    )
    .addOption(
      new Option('--client-key <file>', 'with --site: the key of the user SVID (HANSA_CLIENT_KEY)'),
    )
    .addOption(new Option('-y, --yes', 'answer yes to all questions'))
    .addOption(new Option('--no-color', 'do not use colours (also NO_COLOR)'))
    .showSuggestionAfterError()
    .configureHelp({ helpWidth: 100, formatHelp })
    .addHelpText(
      'after',
      '\nExamples:\n  hansa server --data-dir ./lubeck --trust-domain lubeck.example\n  hansa status --data-dir ./lubeck\n  hansa peer invite --data-dir ./lubeck --for bruges.example\n\nExit codes: 0 done, 2 usage, 3 invalid, 4 not found, 5 conflict, 6 unauthenticated, 7 forbidden,\n8 unavailable. To list them all: hansa explain exit-codes',
    );
  const added = [
    ...ownCommands.map((make) => ({ owner: 'the command line', command: make(cli) })),
    // Sorted by name, so that the help does not depend on the order in which planes start.
    ...cli.planes
      .toSorted(byName)
      .flatMap(({ name, commands }) =>
        (commands?.(cli) ?? []).map((command) => ({ owner: `the plane ${name}`, command })),
      ),
  ];
  for (const command of mergeCommands(added)) program.addCommand(command);
  for (const make of hiddenCommands) program.addCommand(make(cli), { hidden: true });
  for (const command of descendants(program)) {
    command
      .copyInheritedSettings(program)
      .exitOverride((error) => {
        throw new CommandEnd(error, command);
      })
      .configureOutput({
        writeOut: (text) => cli.io.stdout.write(text),
        writeErr: (text) => cli.io.stderr.write(text),
        // `runCli` prints the message, in the same form as all errors.
        outputError: () => undefined,
      });
  }
  return program;
}

function byName(a: Plane, b: Plane): number {
  return a.name < b.name ? -1 : 1;
}

/** Commander throws this after it has shown help or the version, or for a usage error. */
class CommandEnd extends Error {
  readonly error: CommanderError;
  readonly command: Command;
  constructor(error: CommanderError, command: Command) {
    super(error.message, { cause: error });
    this.error = error;
    this.command = command;
  }
}

function descendants(command: Command): Command[] {
  return [command, ...command.commands.flatMap((child) => descendants(child))];
}

/** Runs one command line and resolves to its exit code. Never throws. */
export async function runCli(args: readonly string[], io: Io, parts: CliParts): Promise<number> {
  const cli = createCli(io, parts);
  return exitCodeAfter(cli, async () => {
    const program = createProgram(cli);
    if (args.length === 0) {
      program.outputHelp();
      return exitCodes.ok.code;
    }
    let ran = '';
    program.hook('preAction', (_program, action) => {
      ran = action.name();
    });
    try {
      await program.parseAsync(args, { from: 'user' });
    } catch (caught) {
      if (caught instanceof CommandEnd) return reportUsage(cli, caught);
      throw caught;
    }
    // Ctrl-C is how a user stops a site.
    return ran === 'server' ? exitCodes.ok.code : exitCodeOfReturn(cli);
  });
}

function reportUsage(cli: Cli, { error, command }: CommandEnd): number {
  // Commander throws for --help and --version too, with exit code 0.
  if (error.exitCode === 0) return exitCodes.ok.code;
  // A group without a command, such as `hansa access`, prints its help.
  if (error.code !== 'commander.help') {
    const [message = '', guess] = error.message.replace(/^error: /, '').split('\n');
    const sentence = message.charAt(0).toUpperCase() + message.slice(1).replace(/\.$/, '');
    const hint = guess?.replace(/^\((.*)\)$/, '$1') ?? hintFor(cli, error, command);
    cli.note(`${printable(`${sentence}. ${hint}`)}   (HANSA_USAGE)`);
  }
  return exitCodes.usage.code;
}

function hintFor(cli: Cli, { code, message }: CommanderError, command: Command): string {
  if (code === 'commander.missingArgument' && message.includes("'kind'"))
    return `The kinds are ${cli.registry.kinds.map(({ plural }) => plural).join(', ')}.`;
  if (
    code === 'commander.unknownOption' &&
    /'(?:-n|-A|--namespace|--all-namespaces)'/.test(message)
  )
    return 'The resources of a site have no namespaces.';
  const names = command
    .createHelp()
    .visibleCommands(command)
    .map((child) => child.name());
  if (code === 'commander.unknownCommand' && command.parent !== null)
    return `The commands of ${pathOf(command)} are ${names.filter((name) => name !== 'help').join(', ')}.`;
  return `See ${pathOf(command)} --help.`;
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

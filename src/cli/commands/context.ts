// `hansa context`: manages contexts, which name a site and a user, as in kubectl.

import { resolve } from 'node:path';
import { Command } from 'commander';
import { type Cli, globalOptions } from '../cli.ts';
import { type Context, Contexts, type NamedContext, taken } from '../site/contexts.ts';
import { readCredential } from '../site/credential-cache.ts';
import { forget } from './login.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';

interface Output {
  readonly output: OutputFormat;
}

export function contextCommand(cli: Cli): Command {
  return new Command('context')
    .description('manage named sites and users, for --context')
    .addHelpText(
      'after',
      `
A context names a site and a user. Commands use the current context unless a flag (--site, --data-dir,
--context) or a variable (HANSA_SITE, HANSA_DATA_DIR, HANSA_CONTEXT) selects another site. Contexts are
files in HANSA_HOME, or in the folder hansa of XDG_CONFIG_HOME (~/.config).

Examples:
  hansa context add lubeck --site https://lubeck.example:7443 --ca-file ca.pem --token-file token
  hansa context list
  hansa context use lubeck`,
    )
    .addCommand(listCommand(cli))
    .addCommand(showCommand(cli))
    .addCommand(useCommand(cli))
    .addCommand(addCommand(cli))
    .addCommand(renameCommand(cli))
    .addCommand(removeCommand(cli));
}

function listCommand(cli: Cli): Command {
  return new Command('list')
    .description('list the contexts; * marks the current one')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa context list\n  hansa context list -o json')
    .action(({ output }: Output) => {
      const contexts = contextsOf(cli);
      if (output.format === 'name') {
        for (const name of contexts.names()) cli.print(name);
        return;
      }
      const current = currentOf(cli, contexts);
      const found = contexts.list().map((context) => described(cli, context, current));
      const rendered = renderValue(found, output);
      if (rendered !== undefined) cli.print(rendered);
      else if (found.length === 0) {
        cli.note('There is no context yet. To create one: hansa login, or hansa context add.');
      } else cli.print(renderColumns([headings, ...found.map(cells)]));
    });
}

const headings = ['', 'NAME', 'SITE', 'USER', 'LOGIN'];

function cells(context: Described): string[] {
  const { name, site, dataDir = '', user = '', isCurrent, login } = context;
  return [isCurrent ? '*' : '', name, site ?? dataDir, user, login].map((cell) => printable(cell));
}

interface Described extends NamedContext {
  readonly isCurrent: boolean;
  /** How the context authenticates, and until when. */
  readonly login: string;
}

function described(cli: Cli, context: NamedContext, current: string | undefined): Described {
  return { ...context, isCurrent: context.name === current, login: loginText(cli, context) };
}

function loginText(cli: Cli, context: NamedContext): string {
  const { credential, tokenFile, clientCertificate, dataDir } = context;
  if (dataDir !== undefined) return 'admin socket';
  const held = credential === undefined ? undefined : readCredential(credential);
  if (held !== undefined && cli.io.clock.now() < held.notAfterMs) {
    return `until ${new Date(held.notAfterMs).toISOString()}`;
  }
  if (tokenFile !== undefined) return `token in ${tokenFile}`;
  if (clientCertificate !== undefined) return `certificate in ${clientCertificate}`;
  return credential === undefined ? 'none' : 'expired';
}

function showCommand(cli: Cli): Command {
  return new Command('show')
    .description('show a context (default: the current one)')
    .argument('[name]', 'a context')
    .addOption(outputOption(['json', 'yaml', 'name']))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa context show\n  hansa context show lubeck -o yaml\n  hansa context show -o name',
    )
    .action((given: string | undefined, { output }: Output, command: Command) => {
      const contexts = contextsOf(cli);
      const current = globalOptions(command).context ?? currentOf(cli, contexts);
      const name = given ?? current;
      if (name === undefined) {
        throw usageError('There is no current context. Choose one: hansa context use NAME');
      }
      const found = described(cli, contexts.get(name), current);
      const rows = Object.entries(found)
        .filter(([key]) => key !== 'isCurrent')
        .map(([key, value]) => [key, printable(String(value))]);
      const text = output.format === 'name' ? name : renderColumns(rows);
      cli.print(renderValue(found, output) ?? text);
    });
}

function useCommand(cli: Cli): Command {
  return new Command('use')
    .description('make a context the current one')
    .argument('[name]', 'a context')
    .option('--none', 'use no context; commands use ./hansa-data again')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa context use lubeck\n  hansa context use --none')
    .action((name: string | undefined, options: Output & { readonly none?: boolean }) => {
      if ((name === undefined) !== (options.none === true)) {
        throw usageError('Name a context, or use --none.');
      }
      contextsOf(cli).use(name);
      const text =
        name === undefined ? 'There is no current context now.' : `The current context is ${name}.`;
      cli.print(renderValue({ current: name ?? null }, options.output) ?? text);
    });
}

function addCommand(cli: Cli): Command {
  return new Command('add')
    .description('create a context from --site or --data-dir')
    .argument('<name>', 'the name of the context')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Give --data-dir, or --site with --ca-file and a credential: --token-file, or --client-certificate and
--client-key. Without a credential, log in later. The context stores the paths of these files, not
copies. The first context becomes the current one.

Examples:
  hansa context add lubeck --data-dir /srv/lubeck
  hansa context add bruges --site https://bruges.example:7443 --ca-file ca.pem --token-file token`,
    )
    .action((name: string, { output }: Output, command: Command) => {
      const contexts = contextsOf(cli);
      const { site, dataDir, caFile, tokenFile, clientCertificate, clientKey } =
        globalOptions(command);
      if ((site === undefined) === (dataDir === undefined)) {
        throw usageError('Give either --site or --data-dir, not both: a context is for one site.');
      }
      if (site !== undefined && caFile === undefined) {
        throw usageError('Give --ca-file, which verifies the certificate of the site.');
      }
      if (contexts.has(name)) throw taken(name);
      const path = (given: string | undefined): string | undefined =>
        given === undefined ? undefined : resolve(cli.io.cwd, given);
      const files = Object.entries({ dataDir, caFile, tokenFile, clientCertificate, clientKey });
      const context: Context = {
        ...(site === undefined ? {} : { site }),
        ...Object.fromEntries(
          files.flatMap(([key, given]) => (given === undefined ? [] : [[key, path(given)]])),
        ),
      };
      contexts.put(name, context);
      const isFirst = contexts.useFirst(name);
      cli.print(renderValue({ name, ...context }, output) ?? `Context ${name} added.`);
      if (isFirst) cli.note('It is the current context.');
    });
}

function renameCommand(cli: Cli): Command {
  return new Command('rename')
    .description('rename a context')
    .argument('<name>', 'a context')
    .argument('<new-name>', 'its new name')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa context rename admin@lubeck.example lubeck')
    .action((name: string, next: string, { output }: Output) => {
      contextsOf(cli).rename(name, next);
      cli.print(
        renderValue({ name: next, renamedFrom: name }, output) ?? `Context ${name} is now ${next}.`,
      );
    });
}

function removeCommand(cli: Cli): Command {
  return new Command('remove')
    .description('remove a context and its certificate from this machine; the site does not change')
    .argument('<name>', 'a context')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa context remove lubeck')
    .action((name: string, { output }: Output) => {
      const contexts = contextsOf(cli);
      if (contexts.usable().some((each) => each.name === name)) forget(contexts, name);
      contexts.remove(name);
      cli.print(renderValue({ name, removed: true }, output) ?? `Context ${name} removed.`);
    });
}

function contextsOf(cli: Cli): Contexts {
  return new Contexts(cli.io.env);
}

/** HANSA_CONTEXT of this shell, or the current context of the user. */
function currentOf(cli: Cli, contexts: Contexts): string | undefined {
  return cli.io.env['HANSA_CONTEXT'] || contexts.current();
}

// `hansa login` and `hansa logout`: get a short-lived user certificate and keep it in a context, or
// remove it.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { type Cli, type GlobalOptions, globalOptions } from '../cli.ts';
import { type Connection, resolveConnection } from '../site/connection.ts';
import { type Context, Contexts } from '../site/contexts.ts';
import { type CachedCredential, readCredential } from '../site/credential-cache.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { localUrl, readEndpoints } from '../site/site-endpoints.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { obtainCredential } from '../site/user-certificate.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';

interface LoginOptions {
  readonly user?: string;
  readonly output: OutputFormat;
}

export function loginCommand(cli: Cli): Command {
  return new Command('login')
    .description('get a short-lived user certificate and keep it in a context')
    .option('--user <name>', 'over the admin socket: the user name (default admin)')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Over the admin socket, the owner of the data folder can log in as any user. With --site and
--token-file, you log in as the user of the token, with its rights and at most until it expires. The
certificate is valid for at most one hour. It is stored with its key in a file that only you can read.

Each login is a context, named USER@TRUST-DOMAIN or by --context. You can be logged in as several users
and at several sites. The first login with --site becomes the current context. Later logins do not
change the current context.

Examples:
  hansa login --site https://lubeck.example:7443 --ca-file ca.pem --token-file token
  hansa login --site https://lubeck.example:7443 --ca-file ca.pem --token-file token --context lubeck
  hansa login --context lubeck --token-file token
  hansa login --data-dir ./lubeck --user alice`,
    )
    .action(async (options: LoginOptions, command: Command) => {
      const contexts = new Contexts(cli.io.env);
      const flags = globalOptions(command);
      const connection = loginConnection(cli, contexts, flags);
      const { credential, file } = await obtainCredential(cli, connection, {
        user: options.user,
        fresh: true,
      });
      const kept =
        file === undefined
          ? undefined
          : keep(cli, contexts, { connection, credential, file, flags });
      const result = {
        user: credential.user,
        spiffeId: credential.spiffeId,
        notAfter: new Date(credential.notAfterMs).toISOString(),
        ...(file === undefined ? {} : { file }),
        ...(kept === undefined ? {} : { context: kept.name }),
      };
      const rendered = renderValue(result, options.output);
      cli.print(rendered ?? printable(`Logged in as ${result.user} until ${result.notAfter}.`));
      if (kept === undefined)
        cli.note(
          'The certificate was not stored: there is no private folder for it. Set HOME or HANSA_HOME.',
        );
      else if (rendered === undefined) cli.note(keptText(kept));
    });
}

/** The site to log in at. `--context` names an existing context, or the one to create. */
function loginConnection(cli: Cli, contexts: Contexts, flags: GlobalOptions): Connection {
  const { io } = cli;
  const { context: name, ...others } = flags;
  if (name === undefined) return resolveConnection(flags, io);
  const isSiteGiven = [
    flags.site,
    flags.dataDir,
    ...(contexts.has(name) ? [] : [io.env['HANSA_SITE'], io.env['HANSA_DATA_DIR']]),
  ].some((given) => given !== undefined && given !== '');
  if (isSiteGiven) return resolveConnection(others, io);
  if (!contexts.has(name)) {
    throw usageError(`There is no context ${name} yet. Name its site with --site or --data-dir.`);
  }
  // The site issues certificates for tokens, not for other certificates.
  const { tokenFile } = contexts.get(name);
  const isNamed = flags.tokenFile !== undefined || tokenFile === undefined;
  return resolveConnection(isNamed ? flags : { ...flags, tokenFile }, io);
}

interface Login {
  readonly connection: Connection;
  readonly credential: CachedCredential;
  readonly file: string;
  readonly flags: GlobalOptions;
}

interface Kept {
  readonly name: string;
  readonly isCurrent: boolean;
}

function keep(cli: Cli, contexts: Contexts, login: Login): Kept {
  const { connection, credential, file, flags } = login;
  const made = { ...siteOf(connection), user: credential.user, credential: file };
  const name = flags.context ?? connection.context ?? freeName(contexts, made, credential);
  const known = contexts.has(name) ? contexts.get(name) : undefined;
  const isSame = known?.site === made.site;
  contexts.put(name, isSame ? { ...known, ...made } : made);
  // Over the socket no context is needed, and an expired one would break later commands.
  if (connection.via === 'url') contexts.useFirst(name);
  const current = cli.io.env['HANSA_CONTEXT'] || contexts.current();
  return { name, isCurrent: current === name };
}

function siteOf(connection: Connection): { readonly site: string; readonly caFile: string } {
  if (connection.via === 'url') {
    return { site: connection.url.href.replace(/\/$/, ''), caFile: connection.caFile };
  }
  const { dataDir } = connection;
  return { site: localUrl(readEndpoints(dataDir).api), caFile: join(dataDir, 'ca.pem') };
}

/** Named by trust domain, or by host if another site already has that name. */
function freeName(contexts: Contexts, made: Context, { user, spiffeId }: CachedCredential): string {
  const name = `${user}@${new URL(spiffeId).hostname}`;
  if (!contexts.has(name) || contexts.get(name).site === made.site) return name;
  // Names cannot contain the brackets of IPv6 addresses.
  return `${user}@${new URL(made.site ?? '').host.replaceAll(/[[\]]/g, '')}`;
}

function keptText({ name, isCurrent }: Kept): string {
  return printable(
    isCurrent
      ? `Stored in the context ${name}, the current one: commands use it unless a flag or variable names another site.`
      : `Stored in the context ${name}. To use it: --context ${name}, export HANSA_CONTEXT=${name}, or hansa context use ${name}`,
  );
}

export function logoutCommand(cli: Cli): Command {
  return new Command('logout')
    .description('remove the certificate of a context')
    .option('--all', 'remove the certificates of all contexts')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command removes the certificate and its key from this machine. The context stays, for the next
login. A copy of the certificate works until it expires, at most one hour after the login. hansa access
revoke revokes the certificates of a token at once.

Examples:
  hansa logout
  hansa logout --context alice@lubeck.example
  hansa logout --all`,
    )
    .action(
      (options: { readonly all?: boolean; readonly output: OutputFormat }, command: Command) => {
        const contexts = new Contexts(cli.io.env);
        const { context: named } = globalOptions(command);
        if (options.all === true && named !== undefined) {
          throw usageError('Give --context or --all, not both.');
        }
        const name = named ?? (cli.io.env['HANSA_CONTEXT'] || contexts.current());
        if (options.all !== true && name === undefined) {
          throw usageError(
            'There is no current context. Name one with --context, or use --all. To list them: hansa context list.',
          );
        }
        const all = contexts.usable().map((each) => each.name);
        const names = options.all === true ? all : [name ?? ''];
        const forgotten = names.flatMap((each) => forget(contexts, each));
        const rendered = renderValue({ forgotten }, options.output);
        if (rendered !== undefined) cli.print(rendered);
        else if (forgotten.length === 0) cli.note('There was no login.');
        for (const { user, context } of rendered === undefined ? forgotten : []) {
          cli.print(printable(`Logged out ${user} (context ${context}).`));
        }
      },
    );
}

export interface Forgotten {
  readonly context: string;
  readonly user: string;
}

/** Removes the certificate of a login from a context, and its file. */
export function forget(contexts: Contexts, name: string): Forgotten[] {
  const { name: _name, credential, user, ...others } = contexts.get(name);
  if (credential === undefined) return [];
  contexts.put(name, others);
  // Delete the file only if it is a credential: the user may have edited the context.
  const held = readCredential(credential);
  const isShared = contexts.usable().some((other) => other.credential === credential);
  if (held !== undefined && !isShared) rmSync(credential, { force: true });
  return [{ context: name, user: user ?? held?.user ?? 'unknown' }];
}

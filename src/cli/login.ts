// hansa login: a short-lived user certificate for this machine.

import { Command } from 'commander';
import type { Cli } from './cli.ts';
import { type OutputFormat, outputOption, printable, renderValue } from './output.ts';
import { obtainCredential } from './user-certificate.ts';

interface LoginOptions {
  readonly user?: string;
  readonly output: OutputFormat;
}

export function loginCommand(cli: Cli): Command {
  return new Command('login')
    .description('obtain a short-lived user certificate')
    .option('--user <name>', 'the user to be, over the admin socket (admin)')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Over the admin socket, the owner of the data folder becomes any user. With --site and --token-file,
one becomes the token's own user, with its rights and for no longer than it lives. The certificate
lasts an hour at most and is kept, with its key, in a file that only you can read.

Examples:
  hansa login --data-dir ./lubeck
  hansa login --data-dir ./lubeck --user alice
  hansa login --site https://lubeck.example:7443 --ca-file ca.pem --token-file token`,
    )
    .action(async (options: LoginOptions, command: Command) => {
      const { credential, file } = await obtainCredential(cli, command, {
        user: options.user,
        fresh: true,
      });
      const result = {
        user: credential.user,
        spiffeId: credential.spiffeId,
        notAfter: new Date(credential.notAfterMs).toISOString(),
        ...(file === undefined ? {} : { file }),
      };
      const rendered = renderValue(result, options.output);
      cli.print(rendered ?? printable(`Logged in as ${result.user} until ${result.notAfter}.`));
      if (file === undefined)
        cli.note('The certificate could not be kept: there is no private cache folder.');
      else if (rendered === undefined)
        cli.note(
          `Certificate and key are in one file. With --site, commands use it after:\nexport HANSA_CLIENT_CERTIFICATE=${file} HANSA_CLIENT_KEY=${file}`,
        );
    });
}

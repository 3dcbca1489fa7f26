// hansa grant check: would a call be admitted now, and if not, why? The site decides, with the same
// code that answers ext_authz.

import { Command } from 'commander';
import { HansaError } from '../../core/errors/error.ts';
import type { GrantCheck } from '../authorization/grant-check.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';
import { trustPaths } from '../paths.ts';

interface CheckOptions {
  readonly from: string;
  readonly offer: string;
  readonly method?: string;
  readonly source?: string;
  readonly output: OutputFormat;
}

export function grantCheckCommand(kit: CommandKit): Command {
  return new Command('check')
    .description('tell whether a workload of a peer may use an offer now, and why')
    .requiredOption('--from <spiffe-id>', 'the workload that calls')
    .requiredOption('--offer <name>', 'the ServiceOffer that it calls')
    .option('--method <method>', 'the HTTP method; without it, a connection without methods')
    .option('--source <address>', 'where it calls from; without it, some address')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The site answers as it would answer the Envoy or the service behind the offer (ext_authz). Exits
with 10 where the call would be denied.

Examples:
  hansa grant check --from spiffe://bruges.example/web --offer db
  hansa grant check --from spiffe://bruges.example/web --offer db --method POST --source 192.0.2.7`,
    )
    .action((options: CheckOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const { from, offer, method, source } = options;
        const query = { from, offer, method, source };
        const answer = await client.request({ path: trustPaths.grantCheck, query });
        const check = answer.body as GrantCheck;
        kit.print(kit.renderValue(check, options.output) ?? text(check));
        if (!check.allowed) throw new HansaError('HANSA_UNHEALTHY', 'The call would be denied.');
      }),
    );
}

function text({ allowed, reason, remedy }: GrantCheck): string {
  const first = `${allowed ? 'allowed' : 'denied'}: ${printable(reason)}`;
  return remedy === undefined ? first : `${first}\n${printable(remedy)}`;
}

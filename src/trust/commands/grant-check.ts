// `hansa grant check`: tells whether the site would allow a call now, and why. The site decides with
// the same code that answers ext_authz.

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
    .description('check whether a workload of a peer may use an offer now, and why')
    .requiredOption('--from <spiffe-id>', 'the SPIFFE ID of the calling workload')
    .requiredOption('--offer <name>', 'the name of the ServiceOffer')
    .option('--method <method>', 'the HTTP method (default: a TCP connection, which has none)')
    .option('--source <address>', 'the source address of the call (default: unspecified)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The site answers as it answers ext_authz requests from the service or its Envoy. If the call would be
denied, the exit code is 10.

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

// `hansa grant check`: tells whether the site would allow a call now, and why. The site decides with
// the same code that answers ext_authz and calls of the federation API.

import { Command, Option } from 'commander';
import { grantScopes } from '../../api/kinds/federation-grant.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { GrantCheck } from '../authorization/grant-check.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';
import { trustPaths } from '../paths.ts';

interface CheckOptions {
  readonly from: string;
  readonly offer?: string;
  readonly cluster?: string;
  readonly service?: string;
  readonly method?: string;
  readonly scope?: string;
  readonly source?: string;
  readonly output: OutputFormat;
}

export function grantCheckCommand(kit: CommandKit): Command {
  return new Command('check')
    .description('check whether a peer may use an offer, a cluster or a service now, and why')
    .requiredOption('--from <spiffe-id>', 'the SPIFFE ID of the calling workload or site')
    .option('--offer <name>', 'the name of the ServiceOffer')
    .option('--cluster <name>', 'the name of the Cluster')
    .option('--service <namespace/name>', 'the federated Service')
    .option('--method <method>', 'the HTTP method (default: a TCP connection, which has none)')
    .addOption(
      new Option('--scope <scope>', 'the scope of the call (default: read, or that of the method)')
        .choices(grantScopes)
        .conflicts('method'),
    )
    .option('--source <address>', 'the source address of the call (default: unspecified)')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
For an offer, the site answers as it answers ext_authz requests from the service or its Envoy. For a
cluster, it answers as it answers calls of the federation API; the caller there is the site of the
peer. If the call would be denied, the exit code is 10.

Examples:
  hansa grant check --from spiffe://bruges.example/web --offer db
  hansa grant check --from spiffe://bruges.example/web --offer db --method POST --source 192.0.2.7
  hansa grant check --from spiffe://bruges.example/hansa/site --cluster app1`,
    )
    .action((options: CheckOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const { from, offer, cluster, service, method, scope, source } = options;
        if ([offer, cluster, service].filter((name) => name !== undefined).length !== 1) {
          throw usageError('Name one target: --offer, --cluster or --service.');
        }
        const query = { from, offer, cluster, service, method, scope, source };
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

// `hansa service`: lists and shows the federated Services of the cluster set.

import { Command } from 'commander';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { type LeagueInfo, leagueInfo } from '../client/league-info.ts';
import { federatedService, federatedServices } from '../client/service-info.ts';
import type { FederatedServiceView } from '../services/service-view.ts';
import { healthOf, nameOf, serviceDetails, serviceRows } from './service-details.ts';

interface Output {
  readonly output: OutputFormat;
}

export function serviceCommand(kit: CommandKit): Command {
  return new Command('service')
    .description('show Services that are found in every cluster of the set')
    .addHelpText(
      'after',
      `
A Service with an annotation is a member of a federated Service, which each cluster of the set gets a copy of:
  kubectl annotate service web -n shop svc.federated.hansa.dev=web           # shop/web in every cluster
  kubectl annotate service web -n shop svc.global.federated.hansa.dev=web    # web in the namespace of Hansa

A Service with a ServiceExport of the same name is exported. Each cluster of the set gets a ServiceImport of it:
  NAMESPACE/NAME.clusterset in lists, and NAME.NAMESPACE.svc.clusterset.local in DNS

Examples:
  hansa service list
  hansa service show shop/web
  hansa service show shop/web.clusterset`,
    )
    .addCommand(listCommand(kit))
    .addCommand(showCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list federated Services, with their members and their health')
    .addOption(kit.outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa service list\n  hansa service list -o wide')
    .action(({ output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const services = await federatedServices(client);
        const rendered = kit.renderValue({ services: services.map(withHealth) }, output);
        if (rendered !== undefined) kit.print(rendered);
        else if (output.format === 'name') {
          for (const service of services) kit.print(printable(nameOf(service)));
        } else if (services.length === 0) {
          kit.note(whyNone(await leagueInfo(client)));
        } else {
          const rows = serviceRows(services, output.format === 'wide');
          kit.print(renderColumns(rows.map((row) => row.map((cell) => printable(cell)))));
        }
      }),
    );
}

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('show a federated Service: members, endpoints, conflicts, and each cluster')
    .argument(
      '<name>',
      'its name: NAMESPACE/NAME, NAME for a global one, or NAMESPACE/NAME.clusterset for an exported one',
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa service show shop/web\n  hansa service show web -o json',
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const service = await find(client, name);
        const league = await leagueInfo(client);
        const { members: clusters } = league;
        kit.print(
          kit.renderValue({ ...withHealth(service), clusters }, output) ??
            serviceDetails(service, league)
              .map((rows) => renderColumns(rows.map((row) => row.map((cell) => printable(cell)))))
              .join('\n\n'),
        );
      }),
    );
}

const withHealth = (
  service: FederatedServiceView,
): FederatedServiceView & { readonly health: string } => ({
  ...service,
  health: healthOf(service).health,
});

async function find(client: SiteClient, text: string): Promise<FederatedServiceView> {
  const key = text.includes('/') ? text : `*/${text}`;
  if (!/^[^/]+\/[^/]+$/.test(key)) {
    throw usageError(
      printable(`${JSON.stringify(text)} is not a name. Write NAMESPACE/NAME, or NAME.`),
    );
  }
  try {
    return await federatedService(client, key);
  } catch (error) {
    if (!hasCode(error, 'HANSA_NOT_FOUND')) throw error;
    throw new HansaError(
      'HANSA_NOT_FOUND',
      printable(
        `There is no federated Service ${text}. A Service becomes a member of it by an annotation or a ServiceExport. To list the federated Services: hansa service list`,
      ),
      { cause: error },
    );
  }
}

function whyNone({ supervisor, problem, home }: LeagueInfo): string {
  if (supervisor) {
    return 'There are no federated Services. Annotate a Service: kubectl annotate service NAME svc.federated.hansa.dev=NAME';
  }
  const why = problem ?? (home === undefined ? 'It has no local cluster.' : '');
  return printable(
    `This site leads no cluster set. ${why} To form one: hansa cluster join NAME --kubeconfig FILE --supervisor`,
  );
}

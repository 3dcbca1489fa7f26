// The work of `hansa spire list` and `show`.

import type { Command } from 'commander';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { type SpireInfo, spireServers } from '../client/spire-info.ts';

const shown = (rows: readonly (readonly string[])[]): string =>
  renderColumns(rows.map((row) => row.map((cell) => printable(cell))));

export async function listSpire(
  kit: CommandKit,
  command: Command,
  output: OutputFormat,
): Promise<void> {
  await kit.withClient(command, async (client) => {
    const servers = await spireServers(client);
    const rendered = kit.renderValue({ servers }, output);
    if (rendered !== undefined) kit.print(rendered);
    else if (output.format === 'name') for (const { cluster } of servers) kit.print(cluster);
    else if (servers.length === 0) {
      kit.note(
        'This site operates no SPIRE server. To let it: hansa spire install CLUSTER --kubeconfig FILE',
      );
    } else kit.print(shown([header, ...servers.map(rowOf)]));
  });
}

const header = ['CLUSTER', 'TRUST DOMAIN', 'VALID', 'SERVICE', 'ROUTE', 'FRESH', 'WHY'];

function rowOf(server: SpireInfo): readonly string[] {
  const { cluster, trustDomain = '', relationships, conditions } = server;
  const state = (type: string): string =>
    conditions.find((each) => each.type === type)?.status ?? '';
  const fresh = relationships.filter((each) => each.state === 'Fresh').length;
  return [
    cluster,
    trustDomain,
    state('FederationConfigurationValid'),
    state('FederationServiceReady'),
    state('FederationRouteReady'),
    `${fresh}/${relationships.length}`,
    troubleOf(server),
  ];
}

/** The first thing that is wrong. */
export function troubleOf({ problem, conditions }: SpireInfo): string {
  if (problem !== undefined) return problem;
  const bad = conditions.find(
    ({ type, status, reason }) =>
      reason !== 'NotFederated' && status === (type === 'FederationWarnings' ? 'True' : 'False'),
  );
  return bad?.message ?? '';
}

export async function showSpire(
  kit: CommandKit,
  command: Command,
  name: string,
  output: OutputFormat,
): Promise<void> {
  await kit.withClient(command, async (client) => {
    const server = (await spireServers(client)).find(({ cluster }) => cluster === name);
    if (server === undefined) {
      throw new HansaError(
        'HANSA_NOT_FOUND',
        printable(`This site operates no SPIRE server in ${name}. To list them: hansa spire list`),
      );
    }
    const { conditions, relationships, trustDomain = '', spireVersion, problem, by } = server;
    const rendered = kit.renderValue(server, output);
    if (rendered !== undefined) return kit.print(rendered);
    const parts = [
      [
        ['cluster', name],
        ['trust domain', trustDomain],
        ...(spireVersion === undefined ? [] : [['SPIRE', spireVersion]]),
        ...(by === undefined ? [] : [['relationships by', by]]),
        ...(problem === undefined ? [] : [['problem', problem]]),
      ],
      ...(conditions.length === 0
        ? []
        : [
            [
              ['CONDITION', 'STATUS', 'REASON', 'MESSAGE'],
              ...conditions.map((each) => [each.type, each.status, each.reason, each.message]),
            ],
          ]),
      ...(relationships.length === 0
        ? []
        : [
            [
              ['TRUST DOMAIN', 'STATE', 'LAST REFRESH', 'WHY'],
              ...relationships.map((each) => [
                each.trustDomain,
                each.state,
                each.lastRefresh ?? '',
                each.message ?? '',
              ]),
            ],
          ]),
    ];
    kit.print(parts.map(shown).join('\n\n'));
  });
}

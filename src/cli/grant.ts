// hansa grant: what peers may use here. Thin over the resource FederationGrant, for which `hansa
// apply` takes manifests with everything.

import { Command, Option } from 'commander';
import { federationGrantKind } from '../api/kinds/federation-grant.ts';
import { apiVersion, type JsonObject, timestamp } from '../api/object.ts';
import { parseTimestamp } from '../api/schema/date-time.ts';
import { HansaError } from '../core/errors/error.ts';
import type { Cli } from './cli.ts';
import { parseDurationFlag } from './duration-flag.ts';
import { type OutputFormat, outputOption, printable, renderValue } from './output.ts';
import { printTable } from './table-output.ts';
import { usageError } from './usage.ts';

export function grantCommand(cli: Cli): Command {
  return new Command('grant')
    .description('what workloads of peers may use here')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa grant list --peer bruges.example\n  hansa grant create --help',
    )
    .addCommand(listCommand(cli))
    .addCommand(createCommand(cli))
    .addCommand(deleteCommand(cli));
}

function listCommand(cli: Cli): Command {
  return new Command('list')
    .description('list grants')
    .option('--peer <trust-domain>', 'only those of this peer')
    .addOption(outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa grant list\n  hansa grant list --peer bruges.example',
    )
    .action(
      (options: { readonly peer?: string; readonly output: OutputFormat }, command: Command) =>
        cli.withClient(command, async (client) => {
          const selection = {
            fieldSelector: options.peer === undefined ? undefined : `spec.peer=${options.peer}`,
          };
          if (options.output.format !== 'table' && options.output.format !== 'wide') {
            const list = await client.list(federationGrantKind, selection);
            const rendered = renderValue(list, options.output);
            if (rendered !== undefined) cli.print(rendered);
            else for (const { metadata } of list.items) cli.print(printable(metadata.name));
            return;
          }
          const table = await client.table(federationGrantKind, undefined, selection);
          if (table.rows.length === 0) {
            const whom = options.peer === undefined ? 'any peer' : printable(options.peer);
            cli.note(
              `Nothing is granted to ${whom}. To grant something: hansa grant create --help`,
            );
            return;
          }
          printTable(cli, table, {
            wide: options.output.format === 'wide',
            headers: true,
            prefix: undefined,
          });
        }),
    );
}

export interface CreateOptions {
  readonly peer: string;
  readonly offer: readonly string[];
  readonly identity?: readonly string[];
  readonly anyIdentity?: boolean;
  readonly from?: readonly string[];
  readonly anyAddress?: boolean;
  readonly network?: readonly string[];
  readonly anyNetwork?: boolean;
  readonly scope: readonly string[];
  readonly ttl?: number;
  readonly expiresAt?: string;
}

function createCommand(cli: Cli): Command {
  return new Command('create')
    .description('grant offers of this site to workloads of a peer')
    .argument('<name>', 'the name of the grant')
    .requiredOption('--peer <trust-domain>', 'whose workloads')
    .requiredOption('--offer <name...>', 'which ServiceOffers')
    .option('--identity <spiffe-id...>', 'which workloads of the peer')
    .option('--any-identity', 'every workload of the peer')
    .option('--from <cidr...>', 'from which addresses')
    .option('--any-address', 'from every address')
    .option('--network <name...>', 'over which networks')
    .option('--any-network', 'over every network')
    .addOption(new Option('--scope <scope...>', 'what they may do').default(['read'], 'read'))
    .addOption(new Option('--ttl <duration>', 'for how long').argParser(parseDurationFlag))
    .option('--expires-at <time>', 'until when, in RFC 3339')
    .addHelpText(
      'after',
      `
All three axes (identity, network, address) must match: one that is left out matches nothing.

Examples:
  hansa grant create bruges-db --peer bruges.example --offer db \\
    --identity spiffe://bruges.example/web --any-network --any-address --ttl 720h`,
    )
    .action((name: string, options: CreateOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        await client.create(federationGrantKind, grantManifest(name, options, cli.io.clock.now()));
        cli.print(`${printable(name)} granted`);
        for (const [axis, flags] of emptyAxes(options)) {
          cli.note(`It covers nothing yet: no ${axis} matches. Add ${flags}.`);
        }
      }),
    );
}

function emptyAxes(options: CreateOptions): (readonly [string, string])[] {
  const axes: (readonly [string, string, boolean])[] = [
    [
      'identity',
      '--identity or --any-identity',
      options.anyIdentity === true || (options.identity ?? []).length > 0,
    ],
    // Until there are networks, only every network is one.
    ['network', '--any-network', options.anyNetwork === true],
    [
      'address',
      '--from or --any-address',
      options.anyAddress === true || (options.from ?? []).length > 0,
    ],
  ];
  return axes.filter(([, , matches]) => !matches).map(([axis, flags]) => [axis, flags]);
}

export function grantManifest(name: string, options: CreateOptions, nowMs: number): JsonObject {
  if (options.ttl !== undefined && options.expiresAt !== undefined) {
    throw usageError('Give either --ttl or --expires-at, not both.');
  }
  if (options.expiresAt !== undefined && parseTimestamp(options.expiresAt) === undefined) {
    throw new HansaError(
      'HANSA_USAGE',
      `--expires-at is ${JSON.stringify(options.expiresAt)}: accepted is a time such as 2027-01-01T00:00:00Z.`,
    );
  }
  const axis = (key: string, list: readonly string[] | undefined, any: boolean | undefined) => ({
    ...(list === undefined ? {} : { [key]: list }),
    unrestricted: any === true,
  });
  const expiresAt = options.ttl === undefined ? options.expiresAt : timestamp(nowMs + options.ttl);
  return {
    apiVersion,
    kind: federationGrantKind.kind,
    metadata: { name },
    spec: {
      peer: options.peer,
      scopes: options.scope,
      offers: options.offer,
      nodeInstances: axis('ids', options.identity, options.anyIdentity),
      networks: axis('ids', options.network, options.anyNetwork),
      sourceCIDRs: axis('cidrs', options.from, options.anyAddress),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
  };
}

function deleteCommand(cli: Cli): Command {
  return new Command('delete')
    .description('take a grant back, at once')
    .argument('<name>', 'the name of the grant')
    .addHelpText('after', '\nExamples:\n  hansa grant delete bruges-db')
    .action((name: string, _options: unknown, command: Command) =>
      cli.withClient(command, async (client) => {
        await client.delete(federationGrantKind, name);
        cli.print(`${printable(name)} taken back`);
      }),
    );
}

// hansa doctor: whether a site is well, and how to repair what is not.

import { statSync } from 'node:fs';
import { Command } from 'commander';
import { HansaError, hasCode } from '../core/errors/error.ts';
import { type Cli, globalOptions } from './cli.ts';
import { type Connection, resolveConnection } from './connection.ts';
import { examine } from './doctor-checks.ts';
import type { Finding } from './doctor-finding.ts';
import { examinePeer } from './doctor-peer.ts';
import { examineSite } from './doctor-site.ts';
import { wrap } from './explain.ts';
import { outputOption, renderValue } from './output.ts';
import { addConfigOptions, loadServerConfig } from './server-config.ts';
import type { OutputFormat } from '../core/plane/command-kit.ts';
import { printable } from '../core/command/columns.ts';

export function doctorCommand(cli: Cli): Command {
  return addConfigOptions(cli, new Command('doctor'))
    .description(
      'check a site and say how to repair it: its data folder, running or not, or by --site',
    )
    .option('--peer <trust-domain>', 'look at the way to this peer or federation instead')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With a data folder doctor checks the machine too: files, disk, clock and ports. It reads the settings
that the site keeps; give the variables or the --config with which the site runs. With --site or a
context of a URL it checks what can be seen from there: readiness, clock, authorities, federations.

Ends with exit code 10 (HANSA_UNHEALTHY) where a line is marked ✗; ! is worth knowing.

With --peer the running site asks the endpoint of that peer or SPIFFEFederation once, as it does to
refresh its bundle, and tells how far it gets: name, address, who answers, bundle. Nothing is changed.
By --site this takes the right to update that SPIFFEFederation.

Examples:
  hansa doctor --data-dir ./lubeck
  hansa doctor --data-dir ./lubeck --peer bruges.example
  hansa doctor --config site.yaml -o json
  hansa doctor --site https://lubeck.example:7443 --ca-file ca.pem --token-file token`,
    )
    .action(async (options: { output: OutputFormat; peer?: string }, command: Command) => {
      const findings = await findingsOf(cli, command, options.peer);
      const rendered = renderValue(findings, options.output);
      if (rendered === undefined) {
        cli.printPainted(
          renderFindings(findings, (style, text) => cli.paint(command, style, text)),
        );
      } else cli.print(rendered);
      const problems = findings.filter(({ level }) => level === 'problem').length;
      if (problems > 0) {
        throw new HansaError(
          'HANSA_UNHEALTHY',
          `${problems} of ${findings.length} checks found a problem.`,
        );
      }
    });
}

async function findingsOf(
  cli: Cli,
  command: Command,
  peer: string | undefined,
): Promise<readonly Finding[]> {
  const { clock, random } = cli.io;
  const connection = connectionOf(cli, command);
  if (connection?.via === 'url') {
    return cli.withConnection(connection, async (client) =>
      peer === undefined ? examineSite({ client, clock }) : examinePeer(client, peer, clock.now()),
    );
  }
  const named = connection?.context === undefined ? undefined : connection.dataDir;
  const { config, settings } = loadServerConfig(cli, command, named);
  refuseStranger(config.dataDir);
  const socket = { via: 'socket', dataDir: config.dataDir } as const;
  return cli.withConnection(socket, async (client) => {
    const running = await client.text('/readyz').then(
      () => true,
      (error: unknown) => !hasCode(error, 'HANSA_UNREACHABLE'),
    );
    if (peer !== undefined) return examinePeer(client, peer, clock.now());
    return examine({ config, settings, clock, random, client, running });
  });
}

/** Undefined where a configuration file says which site is meant, and no flag does. */
function connectionOf(cli: Cli, command: Command): Connection | undefined {
  const flags = globalOptions(command);
  const isNamed = (flags.site ?? flags.context ?? flags.dataDir) !== undefined;
  const file = command.opts<{ readonly config?: string }>().config ?? cli.io.env['HANSA_CONFIG'];
  if (!isNamed && file !== undefined && file !== '') return undefined;
  return resolveConnection(flags, cli.io);
}

/** Who may not look would be told that everything is missing. */
function refuseStranger(dataDir: string): void {
  const owner = statSync(dataDir, { throwIfNoEntry: false })?.uid;
  const asking = process.getuid?.();
  if (owner === undefined || asking === 0 || owner === asking) return;
  throw new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot look into ${dataDir}: it belongs to user ${owner}, and you are user ${asking}. Run doctor as that user: sudo -u '#${owner}' hansa doctor --data-dir ${dataDir}`,
  );
}

const marks = {
  ok: ['green', '✓'],
  warning: ['yellow', '!'],
  problem: ['red', '✗'],
} as const;

export function renderFindings(
  findings: readonly Finding[],
  paint: (style: 'green' | 'yellow' | 'red', text: string) => string,
): string {
  const width = Math.max(...findings.map(({ check }) => check.length));
  return findings
    .flatMap(({ check, level, text, remedy }) => {
      const [style, mark] = marks[level];
      return [
        `${paint(style, mark)} ${check.padEnd(width)}  ${printable(text, false)}`,
        ...(remedy === undefined ? [] : wrap(printable(remedy, false), 2, 110)),
      ];
    })
    .join('\n');
}

// hansa doctor: is the site well, and if not, how to mend it.

import { statSync } from 'node:fs';
import { Command } from 'commander';
import { HansaError, hasCode } from '../core/errors/error.ts';
import { type Cli, globalOptions } from './cli.ts';
import { createClient } from './client.ts';
import { openTransport, type Transport } from './connection.ts';
import { examine } from './doctor-checks.ts';
import type { Finding } from './doctor-finding.ts';
import { examinePeer } from './doctor-peer.ts';
import { wrap } from './explain.ts';
import { type OutputFormat, outputOption, printable, renderValue } from './output.ts';
import { addConfigOptions, loadServerConfig } from './server-config.ts';
import { usageError } from './usage.ts';

export function doctorCommand(cli: Cli): Command {
  return addConfigOptions(new Command('doctor'))
    .description('check the site of a data folder, running or not, and say how to mend it')
    .option('--peer <trust-domain>', 'look at the way to this peer or federation instead')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Give the flags or the --config with which the site runs. Ends with exit code 10
(HANSA_UNHEALTHY) where a line is marked ✗; ! is worth knowing.

With --peer the running site asks the endpoint of that peer or SPIFFEFederation once, as it does to
refresh its bundle, and tells how far it gets: name, address, who answers, bundle. Nothing is changed.

Examples:
  hansa doctor --data-dir ./lubeck
  hansa doctor --data-dir ./lubeck --peer bruges.example
  hansa doctor --config site.yaml -o json`,
    )
    .action(async (options: { output: OutputFormat; peer?: string }, command: Command) => {
      if (globalOptions(command).site !== undefined) {
        throw usageError(
          'doctor looks at a data folder of this machine: use --data-dir, not --site.',
        );
      }
      const { config } = loadServerConfig(cli, command);
      refuseStranger(config.dataDir);
      // Over the socket of the folder, whatever HANSA_SITE says.
      const transport = openTransport(
        { dataDir: config.dataDir },
        { env: {}, cwd: cli.io.cwd, clock: cli.io.clock },
      );
      const findings = await withTransport(transport, async () => {
        const client = createClient(transport, (warning) => cli.note(printable(warning)));
        const running = await client.text('/readyz').then(
          () => true,
          (error: unknown) => !hasCode(error, 'HANSA_UNREACHABLE'),
        );
        const { clock, random } = cli.io;
        if (options.peer !== undefined) return examinePeer(client, options.peer, clock.now());
        return examine({ config, clock, random, client, running });
      });
      cli.print(
        renderValue(findings, options.output) ??
          renderFindings(findings, (style, text) => cli.paint(command, style, text)),
      );
      const problems = findings.filter(({ level }) => level === 'problem').length;
      if (problems > 0) {
        throw new HansaError(
          'HANSA_UNHEALTHY',
          `${problems} of ${findings.length} checks found a problem.`,
        );
      }
    });
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

async function withTransport<T>(transport: Transport, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    transport.close();
  }
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
        `${paint(style, mark)} ${check.padEnd(width)}  ${text}`,
        ...(remedy === undefined ? [] : wrap(remedy, 2, 110)),
      ];
    })
    .join('\n');
}

// `hansa doctor`: checks a site, and prints how to fix each problem.

import { statSync } from 'node:fs';
import { Command } from 'commander';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { unsafeInFolder, userOfFolder } from '../../core/plane/data-folders.ts';
import { type Cli, globalOptions } from '../cli.ts';
import { type Connection, resolveConnection } from '../site/connection.ts';
import { type Finding, problem } from '../../core/plane/doctor.ts';
import { type Chosen, chosenSubject, examineSubject, subjectsOf } from '../doctor/subject.ts';
import { renderFindings } from '../doctor/render-findings.ts';
import { outputOption, renderValue } from '../output/output.ts';
import { addConfigOptions, dataFolderOf, loadServerConfig } from './server-config.ts';
import type { OutputFormat } from '../../core/plane/command-kit.ts';

export function doctorCommand(cli: Cli): Command {
  const subjects = subjectsOf(cli.planes);
  const doctor = addConfigOptions(cli, new Command('doctor'))
    .description('check a site, running or not, and say how to fix problems')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With a data folder, doctor also checks the machine: files, disk, clock and ports. It reads the settings
in the data folder. If the site runs with variables or --config, give doctor the same. With --site, or a
context with a URL, it checks what the API shows: readiness, clock, authorities, federations.

✗ marks a problem, ! a warning. The exit code is 10 (HANSA_UNHEALTHY) if there is a problem.

${subjects.map(({ help }) => `${help}\n\n`).join('')}Examples:
  hansa doctor --data-dir ./lubeck
${subjects.map(({ example }) => `  hansa doctor --data-dir ./lubeck ${example}\n`).join('')}  hansa doctor --config site.yaml -o json
  hansa doctor --site https://lubeck.example:7443 --ca-file ca.pem --token-file token`,
    )
    .action(async (options: { output: OutputFormat }, command: Command) => {
      const findings = await findingsOf(cli, command, chosenSubject(subjects, command));
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
  for (const { flag, placeholder, description } of subjects) {
    doctor.option(`--${flag} <${placeholder}>`, description);
  }
  return doctor;
}

async function findingsOf(
  cli: Cli,
  command: Command,
  chosen: Chosen | undefined,
): Promise<readonly Finding[]> {
  const { clock, random } = cli.io;
  const connection = connectionOf(cli, command);
  if (connection?.via === 'url') {
    // Imported here and below, so that other commands do not load the store.
    const { examineSite } = await import('../doctor/site.ts');
    return cli.withConnection(connection, async (client) =>
      chosen === undefined
        ? examineSite({ client, clock }, cli.planes)
        : examineSubject(cli, client, chosen),
    );
  }
  const named = connection?.context === undefined ? undefined : connection.dataDir;
  const folder = dataFolderOf(cli, command, named);
  if (folder !== undefined) {
    refuseStranger(folder);
    // Alone: in such a folder, the settings and the other files may be those of another user too.
    const unsafe = unsafeInFolder(folder);
    const remedy =
      'Check who wrote it and what it says. Then correct its owner and mode, or remove it.';
    if (unsafe.length > 0) return unsafe.map((text) => problem('files', text, remedy));
  }
  const { config, settings } = loadServerConfig(cli, command, named);
  if (userOfFolder(config.dataDir) === 'agent') {
    throw usageError(
      `${config.dataDir} is the data folder of an agent. To check the agent: hansa agent status --data-dir ${config.dataDir}`,
    );
  }
  const socket = { via: 'socket', dataDir: config.dataDir } as const;
  return cli.withConnection(socket, async (client) => {
    const running = await client.text('/readyz').then(
      () => true,
      (error: unknown) => !hasCode(error, 'HANSA_UNREACHABLE'),
    );
    if (chosen !== undefined) return examineSubject(cli, client, chosen);
    const { examine } = await import('../doctor/checks.ts');
    return examine({ config, settings, clock, random, client, running }, cli.planes);
  });
}

/** Undefined if no flag names the site, but a configuration file does. */
function connectionOf(cli: Cli, command: Command): Connection | undefined {
  const flags = globalOptions(command);
  const isNamed = (flags.site ?? flags.context ?? flags.dataDir) !== undefined;
  const file = command.opts<{ readonly config?: string }>().config ?? cli.io.env['HANSA_CONFIG'];
  if (!isNamed && file !== undefined && file !== '') return undefined;
  return resolveConnection(flags, cli.io);
}

/** For a user without access, doctor would report all files as missing. */
function refuseStranger(dataDir: string): void {
  const owner = statSync(dataDir, { throwIfNoEntry: false })?.uid;
  const asking = process.getuid?.();
  if (owner === undefined || asking === 0 || owner === asking) return;
  throw new HansaError(
    'HANSA_FORBIDDEN',
    `Cannot check ${dataDir}: it belongs to user ${owner}, and you are user ${asking}. Run doctor as that user: sudo -u '#${owner}' hansa doctor --data-dir ${dataDir}`,
  );
}

// `hansa agent run` and `hansa agent status`: the agent of this machine.

import { Command, Option } from 'commander';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { userOfFolder } from '../../core/plane/data-folders.ts';
import { moduleAddress } from '../../core/plane/module-address.ts';
import {
  agentDataDir,
  agentFolderAt,
  hasJoined,
  refuseSiteFolder,
  requireReadable,
} from '../agent/agent-folder.ts';
import type { AgentFlags } from '../agent/agent-settings.ts';
import { type AgentStatus, isRunning, readStatus } from '../agent/agent-status.ts';
import type { RunInput } from '../agent/continue-run.ts';
import { addProofOptions, addServerOptions, type JoinFlags } from '../client/join-flags.ts';
import { JoinFolder } from '../client/join-folder.ts';

/** Merged into the group that commands/agent.ts describes. */
export function agentRunCommands(kit: CommandKit): Command {
  return new Command('agent').addCommand(runCommand(kit)).addCommand(statusCommand(kit));
}

interface RunOptions extends JoinFlags, AgentFlags, Pick<RunInput, 'logLevel'> {}

function runCommand(kit: CommandKit): Command {
  const run = addServerOptions(new Command('run'))
    .description('run the agent of this machine in the foreground')
    .option('--name <name>', 'the name of this agent');
  return addProofOptions(run)
    .option(
      '--key-file <path>',
      'keep sealed SVIDs of workloads for a restart without the site: the file of the key, outside --data-dir, or off (default)',
    )
    .option('--metrics <address>', 'HOST:PORT of /metrics, /healthz and /readyz, or off (default)')
    .addOption(
      new Option('--log-level <level>', 'the least level of log lines')
        .choices(['debug', 'info', 'warn', 'error'])
        .default('info'),
    )
    .addHelpText(
      'after',
      `
The first start in a data folder joins the site, as hansa join does. Later starts need only --data-dir;
the agent keeps --key-file and --metrics, and a new --server once it has connected there.

It serves the SPIFFE Workload API, SDS and ext_authz to the processes of this machine at
DATA_DIR/workload.sock, with the entries that the site assigns to it. It needs no root, but without
CAP_SYS_PTRACE it cannot attest the programs of other users by path or hash.

While the site is not reachable, workloads keep their SVIDs until they expire, and ext_authz denies
after the time that the site has set. When the site no longer accepts the agent, the workloads lose
their SVIDs, and the command ends with exit code 6 or 7. Do not restart it then.

Examples:
  hansa agent run --data-dir ./agent --server https://lubeck.example:8443 \\
    --trust-domain lubeck.example --bundle lubeck.json --token machines --name crane-1 \\
    --secret-file ./secret
  hansa agent run --data-dir ./agent`,
    )
    .action(async (options: RunOptions, command: Command) => {
      const dataDir = folderOf(kit, command);
      await joinFirst(kit, dataDir, options);
      const { server, keyFile, metrics, logLevel } = options;
      const input: RunInput = {
        dataDir,
        server,
        flags: {
          ...(keyFile !== undefined && { keyFile }),
          ...(metrics !== undefined && { metrics }),
        },
        logLevel,
        parts: kit.agentParts,
      };
      await kit.continueIn(moduleAddress(import.meta.resolve('../agent/continue-run.ts')), input);
    });
}

function folderOf(kit: CommandKit, command: Command): string {
  return agentDataDir(kit.dataDir(command).path(), kit.io.cwd);
}

/** Joins where the folder has not joined yet. Otherwise the flags must fit the agent in the folder. */
async function joinFirst(kit: CommandKit, dataDir: string, options: RunOptions): Promise<void> {
  requireReadable(dataDir);
  if (!hasJoined(dataDir)) {
    refuseSiteFolder(dataDir);
    if (options.server === undefined) {
      throw usageError(
        `${dataDir} is not the data folder of an agent. For the first start, set --server, --trust-domain, --bundle or --fingerprint, --token, --name and --secret-file (or --svid or --socket).`,
      );
    }
    const { joinAgent } = await import('../agent/join-agent.ts');
    const { id } = await joinAgent(kit.io, dataDir, options);
    kit.note(printable(`Joined as ${id.toString()}.`));
    return;
  }
  const { membership } = new JoinFolder(agentFolderAt(dataDir).identity);
  const { trustDomain = membership?.trustDomain, name } = options;
  const isOther =
    trustDomain !== membership?.trustDomain ||
    (name !== undefined && membership?.spiffeId !== `spiffe://${trustDomain}/hansa/agent/${name}`);
  if (isOther) {
    throw usageError(
      `${dataDir} belongs to ${membership?.spiffeId ?? ''}. Choose another --data-dir.`,
    );
  }
}

function statusCommand(kit: CommandKit): Command {
  return new Command('status')
    .description('show the state of the agent of this machine')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command reads the data folder of the agent, not the site. It ends with exit code 10 if the agent
does not run, or is not connected to its site.

Examples:
  hansa agent status --data-dir ./agent
  hansa agent status --data-dir ./agent -o json`,
    )
    .action(({ output }: { readonly output: OutputFormat }, command: Command) => {
      const dataDir = folderOf(kit, command);
      const status = readStatus(agentFolderAt(dataDir).statusFile);
      if (status === undefined) {
        throw new HansaError(
          'HANSA_NOT_FOUND',
          userOfFolder(dataDir) === 'site'
            ? `${dataDir} is the data folder of a site. For its state: hansa status --data-dir ${dataDir}`
            : `No agent has run with the data folder ${dataDir}. Name the folder of hansa agent run with --data-dir.`,
        );
      }
      const running = isRunning(status);
      kit.print(
        kit.renderValue({ running, ...status }, output) ?? renderColumns(rows(status, running)),
      );
      if (!running || !status.connected) {
        throw new HansaError(
          'HANSA_UNHEALTHY',
          running ? 'The agent is not connected to its site.' : 'The agent does not run.',
        );
      }
    });
}

function rows(status: AgentStatus, running: boolean): string[][] {
  const cells: [string, string | undefined][] = [
    ['agent', status.spiffeId],
    ['version', status.version],
    ['process', running ? `${status.pid}, since ${status.startedAt}` : 'not running'],
    ['site', status.server],
    ['connected', `${status.connected && running ? 'yes' : 'no'}, since ${status.since}`],
    ['last contact', status.connected && running ? 'now' : status.lastContact],
    ['last error', status.lastError],
    ['next try', status.nextTry],
    ['own SVID', `until ${status.svidNotAfter}`],
    [
      'ext_authz',
      status.deniesAfter === undefined ? undefined : `denies from ${status.deniesAfter}`,
    ],
    ['entries', String(status.entries)],
    ['workloads', String(status.workloads)],
    ...Object.entries(status.endpoints).map(([name, at]): [string, string] => [name, at]),
    ...status.problems.map((problem): [string, string] => ['problem', problem]),
  ];
  return cells.flatMap(([name, value]) => (value === undefined ? [] : [[name, printable(value)]]));
}

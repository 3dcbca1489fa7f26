// `hansa agent install` and `hansa agent uninstall`: the agent as a systemd service.

import { existsSync, readdirSync, rmdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { printable } from '../../core/command/columns.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { agentDataDir, hasJoined } from '../agent/agent-folder.ts';
import type { ServiceMachine } from '../apply/service-machine.ts';
import { addProofOptions, addServerOptions, type JoinFlags } from '../client/join-flags.ts';
import { unitName } from '../install/agent-unit.ts';
import {
  defaultDataDir,
  defaultUser,
  installedUnit,
  type InstallWish,
  newUnit,
  planInstall,
  planUninstall,
  type Step,
} from '../install/install-plan.ts';

interface RootOptions {
  readonly root?: string;
  readonly dryRun?: boolean;
  readonly output: OutputFormat;
}

interface InstallOptions extends RootOptions, JoinFlags {
  readonly user: string;
  readonly unprivileged?: boolean;
  readonly print?: boolean;
}

export function installCommand(kit: CommandKit): Command {
  const install = addServerOptions(new Command('install'))
    .description('install the agent as a systemd service of this machine')
    .option('--name <name>', 'the name of this agent');
  return addProofOptions(install)
    .option('--print', 'print the unit, and change nothing')
    .option('--user <name>', 'the system user that runs the agent', defaultUser)
    .option(
      '--unprivileged',
      'no capabilities: unix:path and unix:sha256 match no program of other users',
    )
    .option('--root <folder>', 'the root folder of an image to install into')
    .option('--dry-run', 'print the steps, and change nothing')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command creates a system user, a data folder (--data-dir, default ${defaultDataDir}) and a key
for its cache, and writes and enables a unit with restrictions. Only root may do this. With --server and
the other options of hansa agent run, the agent first joins the site. The command starts the agent if
it has joined. hansa agent uninstall removes everything again.

Examples:
  hansa agent install --print
  hansa agent install --server https://lubeck.example:8443 --trust-domain lubeck.example \\
    --bundle lubeck.json --token machines --name crane-1 --secret-file ./secret
  hansa agent install --root ./image --yes`,
    )
    .action(async (options: InstallOptions, command: Command) => {
      const wish = wishOf(kit, command, options);
      if (options.print === true) {
        const unit = newUnit(wish);
        kit.print(kit.renderValue({ unit }, options.output) ?? unit.trimEnd());
        return;
      }
      const machine = await machineOf(kit, options);
      const found = machine.look(wish.dataDir, wish.user, hasJoined);
      const isJoining = options.server !== undefined;
      if (isJoining && found.dataDir?.hasJoined === true) {
        throw usageError(
          `${wish.dataDir} already belongs to an agent. Remove --server, or choose another --data-dir.`,
        );
      }
      const steps = tasksOf(machine, planInstall(found, wish, isJoining));
      const first = isJoining ? [joinTask(kit, machine.at(wish.dataDir), options)] : [];
      await carryOut(kit, command, options, [...first, ...steps], {
        question: 'Install the agent?',
        done: `Installed ${unitName}.`,
      });
      if (options.dryRun !== true && !isJoining && found.dataDir?.hasJoined !== true) {
        kit.note(
          printable(
            'The agent has not joined a site yet. Repeat this command with --server and the other options of hansa agent run.',
          ),
        );
      }
    });
}

/** As root. A later step gives the folder to the user of the agent. */
function joinTask(kit: CommandKit, dataDir: string, flags: JoinFlags): Task {
  return {
    text: `Join ${flags.server} as the agent ${flags.name ?? ''}`,
    run: async () => {
      // An earlier call without --server made it for the user of the agent.
      if (existsSync(dataDir) && readdirSync(dataDir).length === 0) rmdirSync(dataDir);
      const { joinAgent } = await import('../agent/join-agent.ts');
      await joinAgent(kit.io, dataDir, flags);
    },
  };
}

export function uninstallCommand(kit: CommandKit): Command {
  return new Command('uninstall')
    .description('stop the agent, and remove its service, user, data folder and keys')
    .option('--root <folder>', 'the root folder of an image to uninstall from')
    .option('--dry-run', 'print what would be removed, and change nothing')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The site keeps the Agent object until its operator runs hansa agent forget.

Examples:
  hansa agent uninstall --dry-run
  hansa agent uninstall --yes`,
    )
    .action(async (options: RootOptions, command: Command) => {
      const machine = await machineOf(kit, options);
      const bare = machine.look(defaultDataDir, defaultUser, hasJoined);
      const installed = installedUnit(bare, 'uninstall the agent');
      const found =
        installed === undefined ? bare : machine.look(installed.dataDir, installed.user, hasJoined);
      const steps = planUninstall(found);
      await carryOut(kit, command, options, tasksOf(machine, steps), {
        question: 'Uninstall the agent? Workloads on this machine lose their identities.',
        done: `Uninstalled ${unitName}.`,
      });
      if (options.dryRun !== true) {
        kit.note('At the site, the operator can now run: hansa agent forget NAME');
      }
    });
}

function wishOf(kit: CommandKit, command: Command, options: InstallOptions): InstallWish {
  const { user } = options;
  // useradd(8)
  if (!/^[a-z_][a-z0-9_-]{0,31}$/.test(user)) {
    throw usageError(
      `${JSON.stringify(user)} (--user) is not the name of a system user. Use lower-case letters, digits, - and _.`,
    );
  }
  if (user === 'root') {
    throw usageError(
      'The agent does not run as root (--user). Without --unprivileged, it has the capabilities that it needs.',
    );
  }
  // HANSA_DATA_DIR names the folder of a site.
  const chosen = kit.dataDir(command);
  return {
    launcher: kit.io.launcher,
    dataDir: chosen.byFlag ? agentDataDir(chosen.path(), kit.io.cwd) : defaultDataDir,
    user,
    capabilities: options.unprivileged !== true,
  };
}

async function machineOf(kit: CommandKit, { root }: RootOptions): Promise<ServiceMachine> {
  const folder = root === undefined ? undefined : resolve(kit.io.cwd, root);
  if (folder !== undefined && !existsSync(folder)) {
    throw usageError(`The folder ${folder} (--root) does not exist.`);
  }
  // Loaded here, so that no other command waits for it.
  const { ServiceMachine: Machine } = await import('../apply/service-machine.ts');
  return new Machine(kit.io.random, folder);
}

interface Task {
  readonly text: string;
  run(): Promise<void>;
}

function tasksOf(machine: ServiceMachine, steps: readonly Step[]): readonly Task[] {
  return steps.map((step) => ({ text: step.text, run: () => machine.carryOut(step) }));
}

/** Shows the tasks and asks first. A dry run ends there. */
async function carryOut(
  kit: CommandKit,
  command: Command,
  { dryRun = false, output }: RootOptions,
  tasks: readonly Task[],
  { question, done }: { readonly question: string; readonly done: string },
): Promise<void> {
  const lines = tasks.map(({ text }) => printable(`${text}.`));
  if (!dryRun) {
    for (const line of lines) kit.note(line);
    await kit.confirm(command, question);
    for (const task of tasks) await task.run();
  }
  const rendered = kit.renderValue({ dryRun, steps: tasks.map(({ text }) => text) }, output);
  kit.print(rendered ?? (dryRun ? lines.join('\n') : done));
}

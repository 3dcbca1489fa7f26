// `hansa agent`: manages agents. An agent serves the Workload API on a machine of the site.

import { Command } from 'commander';
import type { CommandKit } from '../../core/plane/command-kit.ts';
import { installCommand, uninstallCommand } from './agent-install.ts';

export function agentCommand(kit: CommandKit): Command {
  return new Command('agent')
    .description('run the agent of this machine, and manage the agents of a site')
    .addHelpText('after', '\nExamples:\n  hansa agent install --print')
    .addCommand(installCommand(kit))
    .addCommand(uninstallCommand(kit));
}

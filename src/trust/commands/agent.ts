// `hansa agent`: lists and shows the agents of a site. Other files of this folder add the other commands of
// the group.

import { Command } from 'commander';
import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { agentDetails } from '../agents/agent-details.ts';
import { agentRow, agentTable } from '../agents/agent-rows.ts';
import { assignedTo } from '../agents/assignment.ts';
import type { WorkloadEntry } from '../workload/entries/matching-entries.ts';
import { findAgent, forgetCommand, reinstateCommand } from './agent-forget.ts';
import { installCommand, uninstallCommand } from './agent-install.ts';

interface Output {
  readonly output: OutputFormat;
}

export function agentCommand(kit: CommandKit): Command {
  return new Command('agent')
    .description('run the agent of this machine, and manage the agents of a site')
    .addHelpText(
      'after',
      `
An agent serves the SPIFFE Workload API on a machine of the site. It joins the site with a token
(hansa join token create). WorkloadEntries name agents or select them by label.

Examples:
  hansa agent list
  hansa agent show crane-1
  hansa agent install --print`,
    )
    .addCommand(listCommand(kit))
    .addCommand(showCommand(kit))
    .addCommand(forgetCommand(kit))
    .addCommand(reinstateCommand(kit))
    .addCommand(installCommand(kit))
    .addCommand(uninstallCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list the agents of this site and their states')
    .addOption(kit.outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa agent list\n  hansa agent list -o wide\n  hansa get agents -l dock=north',
    )
    .action(({ output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const agents = (await client.list(agentKind)).items as unknown as Agent[];
        const rendered = kit.renderValue({ agents: agents.map(withoutManagers) }, output);
        if (rendered !== undefined) {
          kit.print(rendered);
        } else if (output.format === 'name') {
          for (const { metadata } of agents) kit.print(printable(metadata.name));
        } else {
          const rows = agents.map((agent) => agentRow(agent, kit.io.clock.now()));
          const table = agentTable(rows, output.format === 'wide');
          kit.print(renderColumns(table.map((row) => row.map((cell) => printable(cell)))));
          if (agents.every(({ metadata }) => metadata.name === siteAgentName)) {
            kit.note(
              'No other machine has joined. To create a token for one: hansa join token create',
            );
          }
        }
      }),
    );
}

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('show the details of an agent')
    .argument('<name>', 'the name of the agent')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      '\nExamples:\n  hansa agent show crane-1\n  hansa agent show crane-1 -o json',
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const agent = await findAgent(client, name);
        const { labels } = agent.metadata;
        const { entriesByName } = agent.spec ?? {};
        const all = (await client.list(workloadEntryKind)).items as unknown as WorkloadEntry[];
        const entries = all
          .filter((entry) => assignedTo(entry, { name, labels, entriesByName }))
          .map(({ metadata }) => metadata.name);
        kit.print(
          kit.renderValue({ ...withoutManagers(agent), entries }, output) ??
            renderColumns(
              agentDetails(agent, entries, kit.io.clock.now()).map((row) =>
                row.map((cell) => printable(cell)),
              ),
            ),
        );
      }),
    );
}

/** Without managedFields, which are long and rarely needed. */
function withoutManagers(agent: Agent): Agent {
  const { managedFields: _managedFields, ...metadata } = agent.metadata;
  return { ...agent, metadata };
}

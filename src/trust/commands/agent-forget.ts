// `hansa agent forget` and `hansa agent reinstate`: the decisions of an operator about an agent.

import { Command } from 'commander';
import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import { printable } from '../../core/command/columns.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { forgetEffects } from '../agents/agent-details.ts';
import { trustPaths } from '../paths.ts';

interface Output {
  readonly output: OutputFormat;
}

/** Throws HANSA_NOT_FOUND, with the command that lists the agents. */
export async function findAgent(client: SiteClient, name: string): Promise<Agent> {
  try {
    return (await client.get(agentKind, name)) as Agent;
  } catch (cause) {
    if (!hasCode(cause, 'HANSA_NOT_FOUND')) throw cause;
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `There is no agent ${name}. To list the agents: hansa agent list`,
      { cause },
    );
  }
}

export function forgetCommand(kit: CommandKit): Command {
  return new Command('forget')
    .description('forget an agent: its SVID is rejected at once, and its name becomes free')
    .argument('<name>', 'the name of the agent')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The agent can join again while a token admits it, without the labels that it had, and without the
WorkloadEntries that name it. To prevent that, delete the token first, or create a new secret for it.
To give these entries to the machine that joins next, create a token that names it afterwards.

Examples:
  hansa agent forget crane-1
  hansa agent forget crane-1 --yes`,
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        if (name === siteAgentName) {
          throw new HansaError(
            'HANSA_CONFLICT',
            `Cannot forget the agent ${name}: it is the machine of the site itself.`,
          );
        }
        const agent = await findAgent(client, name);
        for (const line of forgetEffects(agent)) kit.note(printable(line));
        await kit.confirm(command, `Forget the agent ${printable(name)}?`);
        await client.delete(agentKind, name);
        kit.print(
          kit.renderValue({ name, forgotten: true }, output) ??
            printable(`Forgot the agent ${name}.`),
        );
      }),
    );
}

export function reinstateCommand(kit: CommandKit): Command {
  return new Command('reinstate')
    .description('sign for an agent again that is Conflicted')
    .argument('<name>', 'the name of the agent')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
An agent is Conflicted if two running processes used its identity: its data folder was copied, or its
key was stolen. The site then signs nothing new for it. Reinstate it only after you have found and
stopped the other process. If the key may be in other hands, use hansa agent forget instead, and let
the machine join again with a new key.

Examples:
  hansa agent reinstate crane-1`,
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const agent = await findAgent(client, name);
        const { state = 'unknown', reason } = agent.status ?? {};
        if (state !== 'Conflicted') {
          throw new HansaError(
            'HANSA_CONFLICT',
            `Cannot reinstate the agent ${name}: it is ${state}, not Conflicted.`,
          );
        }
        if (reason !== undefined) kit.note(printable(`${name} is Conflicted: ${reason}`));
        kit.note('A process that still holds a copy of its key can get SVIDs again.');
        await kit.confirm(command, `Reinstate the agent ${printable(name)}?`);
        await client.request({ method: 'POST', path: pathTo(trustPaths.agentReinstate, { name }) });
        kit.print(
          kit.renderValue({ name, reinstated: true }, output) ??
            printable(`Reinstated the agent ${name}. The site signs for it again.`),
        );
      }),
    );
}

// Joins a machine to a site as an agent, for `hansa agent run` and `hansa agent install`.

import { agentNameRule, isAgentName, siteAgentName } from '../../api/values/agent-name.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import { type JoinFlags, proofOf } from '../client/join-flags.ts';
import type { Joined } from '../client/join-client.ts';
import { JoinFolder } from '../client/join-folder.ts';
import { findServer } from '../client/join-server.ts';
import { joinSite } from '../client/join-site.ts';
import { prepareAgentFolder } from './agent-folder.ts';

/** Throws HANSA_USAGE where the folder belongs to an agent already. */
export async function joinAgent(
  io: Pick<Io, 'clock' | 'random' | 'interruption' | 'cwd'>,
  dataDir: string,
  flags: JoinFlags,
): Promise<Joined> {
  const { token, name } = flags;
  if (token === undefined) throw usageError('--token is required: the name of the JoinToken.');
  if (name === undefined) throw usageError('--name is required: the name of this agent.');
  // The site tells strangers only that the join is rejected.
  if (!isAgentName(name)) {
    throw usageError(`--name is ${JSON.stringify(name)}, but must be ${agentNameRule}.`);
  }
  if (name === siteAgentName) {
    throw usageError(
      `No agent can be named ${siteAgentName}: this is the machine of the site. Choose another --name.`,
    );
  }
  const prove = await proofOf(io, flags);
  const { identity } = prepareAgentFolder(dataDir);
  const folder = new JoinFolder(identity);
  if (folder.membership !== undefined) {
    throw usageError(
      `${dataDir} already belongs to ${folder.membership.spiffeId}. Start it with --data-dir alone, or choose another --data-dir.`,
    );
  }
  const server = await findServer(io, flags);
  return await joinSite(io, folder, server, { token, role: 'agent', name }, prove);
}

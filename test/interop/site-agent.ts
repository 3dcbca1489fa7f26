// A real `hansa agent run` of a site, and programs that run as workloads of that agent.

import { type ChildProcess, spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { joinTokenKind } from '../../src/api/kinds/join-token.ts';
import { type AgentProcess, type Joining, startAgent } from '../e2e/agent-process.ts';
import { type Ended, finish, LineReader, type WorkloadSite } from './workload-site.ts';

export interface SiteAgent {
  readonly name: string;
  /** Of its Workload API, SDS and ext_authz. */
  readonly socket: string;
  readonly process: AgentProcess;
  /** Runs to its end. */
  run(command: string, ...args: readonly string[]): Promise<Ended>;
  /** Goes on until the agent stops. */
  follow(command: string, ...args: readonly string[]): LineReader;
  stop(): Promise<void>;
}

/** How an agent of this name joins; the token is bound to no name. */
export async function joiningOf(
  site: WorkloadSite,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<Joining> {
  const token = `of-${name}`;
  const answer = await site.apply(joinTokenKind, token, {
    method: 'secret',
    roles: ['agent'],
    expiresAt: '2099-01-01T00:00:00Z',
    ...(Object.keys(labels).length > 0 && { labels }),
  });
  if (answer.status >= 300) throw new Error(answer.text);
  const made = await site.admin.request('POST', `/hansa/v1/join/secrets/${token}`, {});
  const { secret } = JSON.parse(made.text) as { readonly secret: string };
  return {
    url: site.url,
    trustDomain: site.trustDomain,
    caFile: join(site.dataDir, 'ca.pem'),
    token,
    name,
    secret,
  };
}

export async function startSiteAgent(
  site: WorkloadSite,
  name: string,
  labels?: Readonly<Record<string, string>>,
): Promise<SiteAgent> {
  // Beside the folder of the site, which every user can enter.
  const dataDir = join(dirname(site.dataDir), name);
  const agent = await startAgent(dataDir, await joiningOf(site, name, labels));
  const env = { ...process.env, SPIFFE_ENDPOINT_SOCKET: `unix://${agent.socket}` };
  const running = new Set<ChildProcess>();
  return {
    name,
    socket: agent.socket,
    process: agent,
    run: (command, ...args) => finish(command, args, env),
    follow: (command, ...args) => {
      const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
      running.add(child);
      return new LineReader(child);
    },
    stop: async () => {
      for (const child of running) child.kill('SIGKILL');
      await agent.signal('SIGTERM');
    },
  };
}

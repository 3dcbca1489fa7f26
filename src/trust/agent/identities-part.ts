// The trust plane's part on agents: serves workloads with the section `identities` of the state.

import type { AgentContext, AgentPart, RunningAgentPart } from '../../core/agent/agent-part.ts';
import { parseSiteItem, siteCollection, siteName } from '../agents/site-item.ts';
import { identityItemProblem } from './identity-items.ts';

export const agentPart: AgentPart = {
  section: 'identities',
  problemOf: identityItemProblem,
  // The own bundle of the site: the services need one for as long as they run.
  survives: ({ collection }) => collection === siteCollection,
  declareMetrics: async (metrics) => {
    const { agentMetrics } = await import('./agent-metrics.ts');
    agentMetrics(metrics, {
      connected: () => true,
      lastContactMs: () => 0,
      svidNotAfterMs: () => 0,
      keepsSvids: false,
    });
  },
  start: async (context) => {
    const { agentFolderAt } = await import('./agent-folder.ts');
    const { SealedSvids } = await import('./svid-vault.ts');
    const { sealer, clock, log, dataDir } = context;
    const file = agentFolderAt(dataDir).svidsFile;
    const vault = sealer && new SealedSvids({ file, sealer, clock, log });
    return await startServices(context, vault);
  },
};

type Vault = InstanceType<typeof import('./svid-vault.ts')['SealedSvids']>;

async function startServices(
  context: AgentContext,
  vault: Vault | undefined,
): Promise<RunningAgentPart> {
  const { startAgentWorkloads } = await import('./agent-workloads.ts');
  const { link, offlineMs, trustDomain, store, clock, random, log, metrics } = context;
  // Not the whole context: `agent` would limit the entries to those of an Agent object in the store.
  const workloads = await startAgentWorkloads({
    trustDomain,
    agentName: context.agent,
    store,
    clock,
    random,
    log,
    metrics,
    dataDir: context.dataDir,
    link: { sign: (build) => link.sign(build), offlineMs },
    kept: vault,
  });
  const unhook = link.onChange(() => {
    if (offlineMs() === undefined) workloads.refresh();
  });
  return {
    health: workloads.health,
    endpoints: { workload: workloads.socket },
    report: () => workloads.report(),
    deniesFromMs: () => {
      const item = store.get(siteCollection, siteName);
      const forMs = offlineMs();
      if (item === undefined || forMs === undefined) return undefined;
      const mostMs = parseSiteItem(item.value, trustDomain).maxOfflineSeconds * 1000;
      return clock.now() + mostMs - (Number.isFinite(forMs) ? forMs : mostMs);
    },
    revoke: async (isFinal) => {
      if (isFinal) workloads.dropAll();
      await vault?.drop();
    },
    stop: async () => {
      unhook();
      await workloads.stop();
      await vault?.close();
    },
  };
}

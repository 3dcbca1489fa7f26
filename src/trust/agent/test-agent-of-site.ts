// For tests only: the workload services of an agent with a whole site in the same process. The site decides
// what the agent gets and signs for it, as in production. Only the channel between them is left out.

import { create } from '@bufbuild/protobuf';
import { SignRequestSchema } from '../../../proto/gen/agent_pb.ts';
import { agentKind } from '../../api/kinds/agent.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import { type AgentItem, difference } from '../../core/agent/state.ts';
import { AgentSections } from '../../core/agent/section.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { openStore } from '../../core/store/open.ts';
import type { Commit, Committed, Store } from '../../core/store/store.ts';
import { agentIdentities } from '../agents/agent-identities.ts';
import { StoreAssignments } from '../agents/store-assignments.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import type { Member } from '../join/members.ts';
import type { WorkloadLimits } from '../workload/socket/workload-connections.ts';
import { MovableClock, openAuthority, put } from '../workload/test-workload-site.ts';
import type { SigningLink } from './signing-link.ts';
import { startAgentWith } from './test-agent-workloads.ts';

/** Entries without `agents` are assigned to it, so tests need not name it. */
const name = siteAgentName;
const exporter = Buffer.alloc(32, 7);

/** `store` is that of the site. A commit there resolves when the agent has the state after it. */
export async function startAgentOfSite(limits: Partial<WorkloadLimits> = {}) {
  const clock = new MovableClock();
  const [site, store] = await Promise.all([
    openStore({ driver: 'memory' }, { clock }),
    openStore({ driver: 'memory' }, { clock }),
  ]);
  const authority = await openAuthority('lubeck.example', clock);
  await put(site, agentKind.plural, name, { spec: { maxOfflineSeconds: 60 } });
  const sections = new AgentSections();
  const member = { name, provenBy: 'secret' } as Member;
  const identities = agentIdentities({
    trustDomain: authority.trustDomain,
    store: site,
    clock,
    log: createLog({ sink: { write: () => undefined }, clock, level: 'error', format: 'text' }),
    metrics: new MetricsRegistry(),
    audit: {
      record: () => ({ encode: () => Buffer.from('{}') }),
      deny: () => undefined,
      later: () => undefined,
    },
    authority,
    agentSections: sections,
    federationState: new StoreFederationState(site, new FederatedBundles(site, authority, clock)),
    assignments: new StoreAssignments(site),
    members: { get: (instance) => ({ instance, member, revision: 1 }) },
    siteNames: [],
    jwtIssuer: undefined,
  });
  let held: readonly AgentItem[] = [];
  const bring = async (): Promise<void> => {
    const items = sections.itemsOf(name);
    if (items === held) return;
    const { put: changed, delete: gone } = difference(held, items);
    held = items;
    await store.commit({
      put: changed.map((item) => ({ ...placeOf(item), encode: () => item.value })),
      delete: gone.map(placeOf),
    });
  };
  await bring();
  const unfollow = sections.onChange(() => void bring());
  let request = 0n;
  const link: SigningLink = {
    offlineMs: () => undefined,
    sign: (build) => {
      const id = ++request;
      const asked = create(SignRequestSchema, { id, ...build({ exporter, request: id }) });
      return identities.sign({ name, address: undefined, serialHex: '0a' }, asked, exporter);
    },
  };
  const started = await startAgentWith({ clock, store, authority }, { limits, link, name });
  return {
    ...started,
    store: afterCommits(site, bring),
    stop: async () => {
      unfollow();
      await started.stop();
      identities.stop();
      await Promise.all([site.close(), store.close()]);
    },
  };
}

function placeOf({ collection, name: item }: Pick<AgentItem, 'collection' | 'name'>) {
  return { collection, name: item };
}

/** The same store, with commits that wait for `after`. */
function afterCommits(store: Store, after: () => Promise<void>): Store {
  const commit = async (asked: Commit): Promise<Committed> => {
    const committed = await store.commit(asked);
    await after();
    return committed;
  };
  return new Proxy(store, {
    get: (target, key) => {
      if (key === 'commit') return commit;
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

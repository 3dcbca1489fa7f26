// One replica of a site with agents in the simulation: the real channel, section, session claims and
// lease epoch, on a store that replicas share. What needs sockets is left out.

import { agentKind } from '../../src/api/kinds/agent.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import { AgentSections, type AgentSection } from '../../src/core/agent/section.ts';
import { noteSigner } from '../../src/core/audit/note.ts';
import { Audit } from '../../src/core/audit/log.ts';
import { HansaError } from '../../src/core/errors/error.ts';
import type { SiteAuthority } from '../../src/core/identity/authority/authority.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import { EnforcementPoints } from '../../src/core/plane/enforcement.ts';
import { LeaseLeadership } from '../../src/core/reconcile/lease-leadership.ts';
import { ReconcileRuntime } from '../../src/core/reconcile/runtime.ts';
import { changeSource } from '../../src/core/reconcile/source.ts';
import { incarnationOf } from '../../src/core/store/incarnation.ts';
import { kindReader } from '../../src/core/store/reader.ts';
import type { Store } from '../../src/core/store/store.ts';
import { agentChannel } from '../../src/trust/agents/agent-channel.ts';
import { agentsLease, keepEpoch } from '../../src/trust/agents/agent-epoch.ts';
import { AgentEntries } from '../../src/trust/agents/agent-entries.ts';
import { agentIdentities } from '../../src/trust/agents/agent-identities.ts';
import { IdentitiesSection } from '../../src/trust/agents/state/identities-section.ts';
import { StoreAssignments } from '../../src/trust/agents/store-assignments.ts';
import { StoreFederationState } from '../../src/trust/authorization/federation-state.ts';
import { FederatedBundles } from '../../src/trust/federation/federated-bundles.ts';
import { AgentCalls } from './agent-channel.ts';
import type { SimulatedDatabase } from './disk.ts';
import { seededKey } from './seeded-key.ts';
import type { Process } from './simulation.ts';

export const trustDomain = TrustDomain.parse('lubeck.example');

/** Shorter than in a real site, so that runs are. */
const leaseMs = 4000;
const agents = kindReader(agentKind);

export interface ReplicaPlace {
  readonly process: Process;
  readonly database: SimulatedDatabase;
  /** All replicas have the same. */
  readonly authority: SiteAuthority;
  /** Two processes seem to use the identity of one agent. */
  readonly conflicted: (instance: string) => void;
}

export interface SiteReplica {
  readonly store: Store;
  readonly sections: AgentSections;
  /** The section of a process that starts now. */
  newSection(): AgentSection;
}

export async function startReplica(place: ReplicaPlace): Promise<SiteReplica> {
  const { process, authority } = place;
  const { clock, log, node } = process;
  const random = process.random.fork('replica');
  const metrics = new MetricsRegistry();
  const store = await place.database.open(process);
  const signer = noteSigner(trustDomain.name, seededKey(process.random.fork('audit')));
  const audit = new Audit({ store, clock, signer, log, metrics });
  const agentSections = new AgentSections();
  const members = {
    get: () => undefined,
    markConflicted: (instance: string) => {
      place.conflicted(instance);
      return Promise.resolve(true);
    },
  };
  const deciding = () => {
    const bundles = new FederatedBundles(store, authority, clock);
    const federationState = new StoreFederationState(store, bundles);
    return { federationState, assignments: new StoreAssignments(store) };
  };
  const parts = {
    trustDomain,
    store,
    clock,
    random,
    log,
    metrics,
    audit,
    authority,
    agentSections,
    enforcement: new EnforcementPoints(),
    members,
    siteNames: [],
    jwtIssuer: undefined,
  };
  const { sign } = agentIdentities({ ...parts, ...deciding() });
  const incarnation = await incarnationOf(store, random);
  const channel = agentChannel({ ...parts, incarnation, sign });
  const [rpc] = channel.rpcs;
  if (rpc?.allow !== 'agent') throw new Error('the channel is for agents');
  const calls = new AgentCalls({
    process,
    rpc,
    refusal: (name) =>
      agents.get(store, name) === undefined
        ? new HansaError('HANSA_UNAUTHENTICATED', `There is no agent ${name}.`)
        : undefined,
  });
  store.watch(agents.collection, store.revision, {
    changes: (changes) => {
      for (const { name } of changes) calls.check(name);
    },
    ended: () => undefined,
  });
  const runtime = new ReconcileRuntime({
    clock,
    random,
    log,
    metrics,
    leadership: new LeaseLeadership({
      leases: store.leases,
      holder: `${node}/${process.life}`,
      durationMs: leaseMs,
      clock,
      random,
      log,
    }),
  });
  // The part of the controller of agents that the channel needs.
  runtime.start({
    name: 'agents',
    lease: agentsLease,
    sources: [changeSource(() => () => undefined, ['site'])],
    reconcile: async (_key, { epoch }) => {
      await keepEpoch(store, epoch);
      return undefined;
    },
  });
  return {
    store,
    sections: agentSections,
    newSection: () => {
      const deciders = deciding();
      const entries = new AgentEntries({ ...parts, ...deciders });
      return new IdentitiesSection({ ...parts, ...deciders, entries });
    },
  };
}

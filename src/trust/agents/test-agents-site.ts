// For tests only: the Agents of a site on an in-memory store, with the write path of the API. Members are
// put as joining does.

import type { TestContext } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import type { Resource } from '../../api/object.ts';
import { socketOwner } from '../../core/access/identity.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { ReconcileResult } from '../../core/reconcile/controller.ts';
import { openStore } from '../../core/store/open.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter, type WriteContext } from '../../server/resources/writer.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { type Member, Members } from '../join/members.ts';
import { openAuthority } from '../workload/test-workload-site.ts';
import { replicasCollection, sessionsCollection } from './agent-session-records.ts';
import { keepAgents } from './agents.ts';
import { StoreAssignments } from './store-assignments.ts';
import { silentLog } from '../../core/log/test-log.ts';

export const hour = 3_600_000;
export const day = 24 * hour;

export type AgentsSite = Awaited<ReturnType<typeof agentsSite>>;

export async function agentsSite(t: TestContext) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const authority = await openAuthority('lubeck.example', clock);
  const records: AuditDraft[] = [];
  const record = (draft: AuditDraft) => {
    records.push(draft);
    return { encode: () => Buffer.from('{}') };
  };
  const audit = { record, deny: () => undefined, later: record };
  const metrics = new MetricsRegistry();
  const random = new SeededRandom(1);
  const writer: ResourceWriter = new ResourceWriter({
    store,
    clock,
    random,
    // As the site asks its planes.
    admit: (_caller, kind, next, live) => {
      if (next === undefined) {
        agents.admitDeletion(kind, live as never);
        return [];
      }
      return agents.admit(kind, next as never, live as never, () => undefined);
    },
    accompany: (kind, next, live, by) => agents.accompany(kind, next as never, live as never, by),
    auditRow: auditWrites({ record }),
  });
  const resources = <R extends Resource>(kind: Kind) =>
    resourceClient<R>(kind, { store, writer, clock });
  const members = new Members(store, clock, { reattestWithinMs: 7 * day });
  const bundles = new FederatedBundles(store, authority, clock);
  const assignments = new StoreAssignments(store);
  const agents = keepAgents({
    store,
    clock,
    random,
    audit,
    metrics,
    resources,
    log: silentLog,
    trustDomain: authority.trustDomain,
    version: '1.2.3',
    federationState: new StoreFederationState(store, bundles),
    members,
    assignments,
    workloads: () => 2,
  } as never);
  t.after(async () => {
    agents.stop();
    await store.close();
  });
  const client = resources<Agent>(agentKind);
  const context: WriteContext = {
    caller: socketOwner,
    verb: 'create',
    options: { dryRun: false, manager: 'test', fieldValidation: 'Ignore', force: false },
    requestId: '',
    address: undefined,
  };
  const [controller] = agents.controllers;
  return {
    clock,
    store,
    metrics,
    members,
    records,
    client,
    writer,
    resources,
    context,
    assignments,
    controller,
    reconcile: (name: string, epoch?: number): Promise<ReconcileResult | undefined> =>
      controller?.reconcile(name, {
        signal: new AbortController().signal,
        epoch,
        log: silentLog,
      }) ?? Promise.resolve(undefined),
    join: async (name: string, change: Partial<Member> = {}): Promise<void> => {
      const instance = `agent/${name}`;
      const before = members.get(instance);
      await members.put(
        instance,
        before,
        {
          role: 'agent',
          name,
          token: 'machines',
          provenBy: 'token:machines',
          joinedAtMs: clock.now(),
          renewedAtMs: clock.now(),
          generation: 1,
          serial: '01',
          key: '00',
          notAfterMs: clock.now() + hour,
          ...change,
        },
        [],
      );
    },
    /** As the channel does when a stream begins and ends. */
    connect: (name: string): Promise<unknown> => {
      const holder = { stream: 's', session: '0', replica: 'r', serial: '1', sinceMs: clock.now() };
      const encode = () => Buffer.from(JSON.stringify({ holder }));
      return store.commit({ put: [{ collection: sessionsCollection, name, encode }] });
    },
    /** As the replica that serves the agents does. */
    renewReplica: (): Promise<unknown> => {
      const encode = () => Buffer.from(JSON.stringify({ aliveAtMs: clock.now() }));
      return store.commit({ put: [{ collection: replicasCollection, name: 'r', encode }] });
    },
    disconnect: (name: string): Promise<unknown> =>
      store.commit({ delete: [{ collection: sessionsCollection, name }] }),
    forget: (name: string): Promise<unknown> =>
      writer.delete(
        agentKind,
        name,
        { dryRun: false, uid: undefined, resourceVersion: undefined },
        { ...context, verb: 'delete' },
      ),
  };
}

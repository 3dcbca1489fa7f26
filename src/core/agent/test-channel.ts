// For tests only: the site's end of the channel at one replica, with a section whose items are records
// of the store.

import type { AuditDraft } from '../audit/event.ts';
import { SeededRandom } from '../clock/seeded-random.ts';
import { VirtualClock } from '../clock/virtual.ts';
import { toHansaError } from '../errors/error.ts';
import { MetricsRegistry } from '../metrics/registry.ts';
import { incarnationOf } from '../store/incarnation.ts';
import { MemoryDatabase } from '../store/memory/driver.ts';
import { openStore } from '../store/open.ts';
import type { Entry, Store } from '../store/store.ts';
import type { AgentSessions } from './agent-sessions.ts';
import type { SignForAgent } from './agent-signer.ts';
import { AgentStreams } from './agent-streams.ts';
import { type AgentSection, AgentSections } from './section.ts';
import { AgentItem } from './state.ts';
import type { TestAgent } from './test-agent.ts';
import { silentLog } from '../log/test-log.ts';

/** Every agent gets the records of the collection that has its name. */
export function recordSection(store: Store, agents: readonly string[]): AgentSection {
  const items = new WeakMap<Entry, AgentItem>();
  return {
    name: 'records',
    itemsOf: (agent) =>
      store.list(agent).entries.map((entry) => {
        const known = items.get(entry);
        const item = known ?? new AgentItem('records', agent, entry.name, entry.value);
        items.set(entry, item);
        return item;
      }),
    onChange: (listener) => {
      const watches = agents.map((agent) =>
        store.watch(agent, store.revision, {
          changes: () => listener([agent]),
          ended: () => undefined,
        }),
      );
      return () => {
        for (const watch of watches) watch.stop();
      };
    },
  };
}

export async function put(store: Store, agent: string, name: string, value: string): Promise<void> {
  const bytes = Buffer.from(value);
  await store.commit({ put: [{ collection: agent, name, encode: () => bytes }] });
}

export async function remove(store: Store, agent: string, name: string): Promise<void> {
  await store.commit({ delete: [{ collection: agent, name }] });
}

/** Claims that never conflict. */
export const freeSessions: AgentSessions = { claim: async () => () => undefined };

export interface TestReplicaOptions {
  readonly clock?: VirtualClock;
  readonly database?: MemoryDatabase;
  readonly agents?: readonly string[];
  readonly sessions?: (store: Store) => AgentSessions;
  readonly sign?: SignForAgent;
}

/** How a call ended. */
export interface Ended {
  readonly code: string;
  readonly message: string;
}

export async function testReplica(options: TestReplicaOptions = {}) {
  const {
    clock = new VirtualClock(),
    database = new MemoryDatabase(),
    agents = ['crane'],
  } = options;
  const store = await openStore({ driver: 'memory', database }, { clock });
  const sections = new AgentSections();
  const unregister = sections.register(recordSection(store, agents));
  const metrics = new MetricsRegistry();
  const reports: unknown[] = [];
  const audit = testAudit();
  const site = { epoch: 1 };
  const streams = new AgentStreams({
    clock,
    log: silentLog,
    metrics,
    store,
    incarnation: await incarnationOf(store, new SeededRandom('incarnation')),
    epoch: () => site.epoch,
    sections,
    sessions: options.sessions?.(store) ?? freeSessions,
    presence: {
      connected: () => ({
        seen: () => undefined,
        reported: (report) => reports.push(report),
        disconnected: (isLost) => reports.push(isLost ? 'lost' : 'disconnected'),
      }),
    },
    audit,
    sign: options.sign ?? (() => Promise.reject(new Error('no signer'))),
  });
  /** Serves the stream of the agent; resolves to how it ended. */
  const serve = async (agent: TestAgent): Promise<Ended> => {
    try {
      await streams.handle(agent.call);
      return { code: 'OK', message: '' };
    } catch (caught) {
      const { code, message } = toHansaError(caught);
      return { code, message };
    } finally {
      agent.isAnswered = true;
    }
  };
  return {
    clock,
    database,
    store,
    sections,
    metrics,
    reports,
    audit,
    site,
    streams,
    serve,
    unregister,
  };
}

export type TestReplica = Awaited<ReturnType<typeof testReplica>>;

/** An audit log that keeps what is recorded. */
export function testAudit() {
  const records: AuditDraft[] = [];
  const denials: AuditDraft[] = [];
  return {
    records,
    denials,
    record: (draft: AuditDraft) => {
      records.push(draft);
      return { encode: () => Buffer.from('{}') };
    },
    deny: (draft: AuditDraft) => {
      denials.push(draft);
    },
  };
}

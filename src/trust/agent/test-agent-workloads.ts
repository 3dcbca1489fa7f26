// For tests only: the workload services of an agent, with a signing link that can misbehave.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { systemRandom } from '../../core/clock/system.ts';
import type { Log, LogFields } from '../../core/log/log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import type { SiteAuthority } from '../../core/identity/authority/authority.ts';
import { openStore } from '../../core/store/open.ts';
import { kindReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';
import { encodeSiteItem, siteCollection, siteName } from '../agents/site-item.ts';
import { defaultLimits, type WorkloadLimits } from '../workload/socket/workload-connections.ts';
import { openAuthority } from '../workload/test-workload-site.ts';
import { startAgentWorkloads, type SvidVault } from './agent-workloads.ts';
import type { SigningLink } from './signing-link.ts';
import { testAgent, TestSigningLink } from './test-signing-link.ts';

const entries = kindReader(workloadEntryKind);

/** What outlives a restart of the agent. */
export interface TestAgentState<C extends Clock> {
  readonly clock: C;
  /** The state that the site sent. */
  readonly store: Store;
  /** The authority of the site. */
  readonly authority: SiteAuthority;
}

export async function testAgentState<C extends Clock>(clock: C): Promise<TestAgentState<C>> {
  const store = await openStore({ driver: 'memory' }, { clock });
  return { clock, store, authority: await openAuthority('lubeck.example', clock) };
}

/** `stop` does not close the store. */
export async function startAgentWith<C extends Clock>(
  { clock, store, authority }: TestAgentState<C>,
  options: {
    readonly limits?: Partial<WorkloadLimits>;
    readonly kept?: SvidVault;
    readonly darkSinceMs?: number;
    /** Whether the site has sent a state. Default: true. */
    readonly hasState?: boolean;
    /** Instead of a site that only signs. It sends the state, too. */
    readonly link?: SigningLink;
    readonly name?: string;
  } = {},
) {
  const dataDir = mkdtempSync(join(tmpdir(), 'hansa-agent-'));
  const metrics = new MetricsRegistry();
  const logged: string[] = [];
  let maxOfflineSeconds = 60;
  const describeSite = async (): Promise<void> => {
    if (link.darkSinceMs !== undefined || options.link !== undefined) return;
    const encode = () => encodeSiteItem(authority, maxOfflineSeconds);
    await store.commit({ put: [{ collection: siteCollection, name: siteName, encode }] });
  };
  const link = new TestSigningLink(authority, clock, (uid) => {
    const found = entries.list(store).find(({ metadata }) => metadata.uid === uid);
    if (found === undefined) return undefined;
    const { spiffeID: spiffeId, ttlSeconds, dnsNames = [] } = found.spec;
    return { uid, spiffeId, ttlSeconds, dnsNames };
  });
  if (options.hasState !== false) await describeSite();
  const unhook = authority.onChange(() => void describeSite());
  link.darkSinceMs = options.darkSinceMs;
  const services = await startAgentWorkloads(
    {
      trustDomain: authority.trustDomain,
      agentName: options.name ?? testAgent,
      store,
      clock,
      random: systemRandom,
      log: logInto(logged),
      metrics,
      dataDir,
      link: options.link ?? link,
      kept: options.kept,
    },
    { ...defaultLimits, ...options.limits },
  ).catch((error: unknown) => {
    rmSync(dataDir, { recursive: true, force: true });
    throw error;
  });
  return {
    clock,
    store,
    authority,
    services,
    metrics,
    link,
    logged,
    /** An agent has no audit log. */
    denials: [] as AuditDraft[],
    issued: [] as AuditDraft[],
    socket: services.socket,
    setMaxOffline: (seconds: number) => {
      maxOfflineSeconds = seconds;
      return describeSite();
    },
    stop: async () => {
      unhook();
      await services.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

function logInto(lines: string[]): Log {
  const write = (message: string, fields?: LogFields): void => {
    lines.push(`${message} ${JSON.stringify(fields)}`);
  };
  const log: Log = { debug: write, info: write, warn: write, error: write, with: () => log };
  return log;
}

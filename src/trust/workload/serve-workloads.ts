// Serves workloads on the workload socket: the Workload API, SDS, ext_authz and health. A site and an agent
// start the same services. They differ in the store that the services read and in who signs.

import { join } from 'node:path';
import type { TrustDomain } from '../../api/values/trust-domain.ts';
import type { AuditDraft } from '../../core/audit/event.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import type { BundleSource } from '../../core/identity/bundle/bundle.ts';
import type { Log } from '../../core/log/log.ts';
import type { Metrics } from '../../core/metrics/metrics.ts';
import type { Store } from '../../core/store/store.ts';
import type { StoreFederationState } from '../authorization/federation-state.ts';
import { Delivery } from './delivery.ts';
import type { UsableEntry } from './entries/matching-entries.ts';
import { refusalReports } from './refusal-reports.ts';
import {
  defaultLimits,
  WorkloadConnections,
  type WorkloadLimits,
} from './socket/workload-connections.ts';
import { OccasionalLog } from './socket/occasional-log.ts';
import { startWorkloadServer } from './socket/workload-server.ts';
import type { SvidIssuer } from './svids/issuer.ts';
import { JwtSupply } from './svids/jwt-supply.ts';
import { type SuppliedSvid, SvidSupply } from './svids/svid-supply.ts';
import { workloadCounters } from './workload-counters.ts';

export interface ServeWorkloadsOptions {
  readonly trustDomain: TrustDomain;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** The socket is `workload.sock` in this folder. */
  readonly dataDir: string;
  readonly issuer: SvidIssuer;
  /** Always has the bundle of the trust domain. */
  readonly bundles: BundleSource;
  readonly federationState: StoreFederationState;
  /** The DNS names of the site itself, which no workload gets. */
  readonly siteNames?: readonly string[];
  /** The Agent of this machine: only entries that are assigned to it. Undefined: all entries of the store. */
  readonly agent?: string;
  /** How many entries get an SVID before a workload asks for it. Default: none. */
  readonly entriesAhead?: number;
  /** Records a denial in the audit log. Without it, denials are only logged and counted. */
  readonly deny?: (draft: AuditDraft) => void;
  /** Why ext_authz denies everything now, for the operator; undefined where it decides. */
  readonly outOfContact?: () => string | undefined;
  /** SVIDs from a cache, already verified. */
  readonly restored?: readonly RestoredSvid[];
  /** Called after SVIDs were issued or dropped. Must not throw. */
  readonly heldChanged?: () => void;
}

export interface RestoredSvid {
  readonly entry: UsableEntry;
  readonly svid: SuppliedSvid;
  readonly issuedAtMs: number;
}

export interface ServedWorkloads {
  /** The path of the socket. */
  readonly socket: string;
  readonly supply: Pick<SvidSupply, 'held' | 'firstExpiryMs'>;
  /** Processes that are connected now. */
  readonly workloads: number;
  /** Why workloads get no SVIDs; undefined where they get them. */
  problem(): string | undefined;
  /** Whether the last state of every stream lacks the bundle of this trust domain. */
  withholds(trustDomain: string): boolean;
  /** Something changed that is not in the store, such as the authority: look again. */
  refresh(): void;
  /** Forgets all SVIDs. */
  dropAll(): void;
  stop(): void;
}

/** Rejects, and leaves nothing running, if the socket cannot be opened or the store has a damaged object. */
export async function serveWorkloads(
  options: ServeWorkloadsOptions,
  limits: WorkloadLimits = defaultLimits,
): Promise<ServedWorkloads> {
  const { trustDomain, store, clock, random, issuer, bundles, federationState } = options;
  const { siteNames = [], entriesAhead = 0, deny = () => undefined } = options;
  const log = options.log.with({ component: 'workload' });
  const path = join(options.dataDir, 'workload.sock');
  const connections = new WorkloadConnections(limits, clock);
  const count = workloadCounters(options.metrics, connections);
  const refuse = refusalReports(clock, log, deny);
  const failures = new OccasionalLog(log, clock, 'cannot issue an SVID', 'error');
  const jwtFailures = new OccasionalLog(log, clock, 'cannot issue a JWT-SVID', 'error');
  let issuingProblem: string | undefined;
  let isServing = true;
  const supply = new SvidSupply({
    issuer,
    clock,
    random,
    issued: () => {
      issuingProblem = undefined;
      isServing = true;
      count.issued();
    },
    changed: () => options.heldChanged?.(),
    failed: (entry, error) => {
      issuingProblem = `cannot issue SVIDs, last for entry ${entry.name}`;
      // While a renewal fails, workloads still have what they ask for.
      isServing &&= supply.usable(entry) !== undefined;
      count.failed();
      failures.write({ error, entry: entry.name });
    },
  });
  for (const { entry, svid, issuedAtMs } of options.restored ?? []) {
    supply.restore(entry, svid, issuedAtMs);
  }
  const jwtSupply = new JwtSupply({ issuer, clock, issued: count.jwtIssued });
  const delivery = new Delivery({
    store,
    clock,
    log,
    trustDomain,
    siteNames,
    agent: options.agent,
    bundles,
    federationState,
    supply,
    entriesAhead,
    pushed: count.pushed,
  });
  const server = await startWorkloadServer({
    path,
    clock,
    log,
    limits,
    connections,
    refused: (why, process) => {
      count.refused(why);
      refuse.call(why, process);
    },
    workloads: {
      delivery,
      connections,
      jwtSupply,
      clock,
      jwtFailed: (error) => {
        count.jwtFailed();
        jwtFailures.write({ error });
      },
      validated: count.validated,
      denied: (connection, kind) => {
        count.refused('entry');
        refuse.fetch(connection, kind);
      },
    },
    secrets: {
      delivery,
      connections,
      denied: (connection, what) => {
        count.refused('entry');
        refuse.fetch(connection, what);
      },
      sent: () => count.secrets('sent'),
      rejected: (connection, why) => {
        count.secrets('rejected');
        refuse.rejected(connection, why);
      },
      missing: (connection, names) => refuse.missing(connection, names),
    },
    isServing: () => isServing,
    authorization: {
      delivery,
      connections,
      federationState,
      bundles,
      clock,
      outOfContact: options.outOfContact ?? (() => undefined),
      decided: (decision, question, asker) => {
        count.checked(decision.allowed ? 'allowed' : decision.kind);
        if (!decision.allowed) refuse.access(decision, question, asker);
      },
    },
  });
  try {
    delivery.start();
  } catch (error) {
    server.stop();
    throw error;
  }
  return {
    socket: path,
    supply,
    get workloads() {
      return connections.size;
    },
    problem: () => issuingProblem,
    withholds: (peer) => delivery.withholds(peer),
    refresh: () => {
      supply.retryNow();
      delivery.refresh();
    },
    dropAll: () => {
      supply.clear();
      jwtSupply.clear();
      delivery.refresh();
    },
    stop: () => {
      delivery.stop();
      server.stop();
    },
  };
}

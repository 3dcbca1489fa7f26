// Assembles the parts for workloads: the socket with its services, the status of entries, and minting.
// The trust plane starts it and adds the returned routes and controllers.

import { join } from 'node:path';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { timestamp } from '../../api/object.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import type { AuditActor } from '../../core/audit/event.ts';
import type { JwtRule } from '../../core/identity/jwt/rules.ts';
import type { Log } from '../../core/log/log.ts';
import { trustProblem } from '../authorization/entitlement.ts';
import type { PlaneContext, RunningPlane } from '../../core/plane/plane.ts';
import { grantCheckRoute } from '../authorization/grant-check.ts';
import type { AccessDecision, AccessQuestion } from '../authorization/ext-authz.ts';
import type { StoreFederationState } from '../authorization/federation-state.ts';
import { admitEntry } from './entries/admit-entry.ts';
import { Delivery } from './delivery.ts';
import { entryController } from '../controllers/entry-controller.ts';
import { JwtSupply } from './svids/jwt-supply.ts';
import { mintRoute } from './svids/mint.ts';
import { mintJwtRoute } from './svids/mint-jwt.ts';
import { OccasionalLog } from './socket/occasional-log.ts';
import type { GuardRefusal } from './socket/stream-guard.ts';
import { SvidSupply } from './svids/svid-supply.ts';
import {
  defaultLimits,
  type WorkloadConnection,
  WorkloadConnections,
  type WorkloadLimits,
} from './socket/workload-connections.ts';
import { validateRoute } from './svids/validate-svid.ts';
import { toldSelectors, type WorkloadProcess } from './entries/workload-process.ts';
import { startWorkloadServer } from './socket/workload-server.ts';

export interface WorkloadServices extends Omit<RunningPlane, 'endpoints'> {
  readonly endpoints: { readonly workload: string };
  readonly health: NonNullable<RunningPlane['health']>;
  readonly admit: NonNullable<RunningPlane['admit']>;
  /** The earliest expiry of the SVIDs in use. */
  readonly firstExpiryMs: () => number | undefined;
  /** Something changed that is not in the store, such as the site's authority: look again. */
  refresh(): void;
}

export type WorkloadContext = Pick<
  PlaneContext,
  | 'enforcement'
  | 'trustDomain'
  | 'store'
  | 'clock'
  | 'random'
  | 'log'
  | 'metrics'
  | 'audit'
  | 'authority'
  | 'bundles'
  | 'dataDir'
  | 'resources'
> & {
  readonly federationState: StoreFederationState;
  /** The `iss` of JWT-SVIDs; undefined: they have none. */
  readonly jwtIssuer?: string | undefined;
  /** The DNS names of the site itself, which no workload gets. */
  readonly siteNames?: readonly string[];
  /** The Agent of this machine: only entries that are assigned to it. Undefined: all entries of the store. */
  readonly agent?: string;
};

const siteActor: AuditActor = { user: 'system:workload-api', groups: [], via: 'controller' };

export async function workloadServices(
  context: WorkloadContext,
  limits: WorkloadLimits = defaultLimits,
): Promise<WorkloadServices> {
  const { store, clock, random, audit, authority, bundles, trustDomain } = context;
  const log = context.log.with({ component: 'workload' });
  const path = join(context.dataDir, 'workload.sock');
  const connections = new WorkloadConnections(limits, clock);
  const count = counters(context, connections);
  const refuse = refusalLog(context, log);
  const { federationState, siteNames = [] } = context;
  let issuingProblem: string | undefined;
  const supply = new SvidSupply({
    authority,
    clock,
    random,
    issued: (entry, svid) => {
      issuingProblem = undefined;
      count.issued();
      audit.later({
        actor: siteActor,
        verb: 'svid.issue',
        kind: 'WorkloadEntry',
        name: entry.name,
        uid: entry.uid,
        outcome: 'allow',
        reason: `${entry.id.toString()}, serial number ${svid.serialHex}, until ${timestamp(svid.notAfterMs)}`,
      });
    },
    failed: (entry, error) => {
      issuingProblem = `cannot issue SVIDs, last for entry ${entry.name}`;
      count.failed();
      log.error('cannot issue an SVID', { error, entry: entry.name });
    },
  });
  const jwtSupply = new JwtSupply({
    trustDomain,
    authority,
    clock,
    issuer: context.jwtIssuer,
    issued: (entry, record) => {
      count.jwtIssued();
      if (record === undefined) return;
      const { svid, audience, unrecorded } = record;
      const more = unrecorded === 0 ? '' : `; and ${unrecorded} more before it`;
      audit.later({
        actor: siteActor,
        verb: 'svid.issue',
        kind: 'WorkloadEntry',
        name: entry.name,
        uid: entry.uid,
        outcome: 'allow',
        reason: `${entry.id.toString()}, JWT-SVID for ${told(audience)} with key ${svid.keyId}, until ${timestamp(svid.expiresAtMs)}${more}`,
      });
    },
  });
  const delivery = new Delivery({
    store,
    clock,
    log,
    trustDomain,
    siteNames,
    agent: context.agent,
    bundles,
    federationState,
    supply,
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
        log.error('cannot issue a JWT-SVID', { error });
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
    isServing: () => issuingProblem === undefined,
    authorization: {
      delivery,
      connections,
      federationState,
      bundles,
      clock,
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
  context.enforcement.register({
    name: 'ext_authz',
    refuses: (peer) => trustProblem(peer, federationState.current, clock.now()) !== undefined,
  });
  context.enforcement.register({
    name: 'bundle-delivery',
    refuses: (peer) => delivery.withholds(peer),
  });
  const unhook = authority.onChange(() => delivery.refresh());
  return {
    controllers: [entryController({ ...context, federationState, siteNames })],
    routes: [
      mintRoute(context),
      mintJwtRoute(context),
      validateRoute(context),
      grantCheckRoute({ federationState, bundles, clock }),
    ],
    admit: (kind, next) => {
      if (kind === workloadEntryKind) admitEntry(next, trustDomain);
      return [];
    },
    endpoints: { workload: path },
    health: new Map([['workload-api', () => issuingProblem]]),
    firstExpiryMs: () => supply.firstExpiryMs,
    refresh: () => delivery.refresh(),
    stop: () => {
      unhook();
      delivery.stop();
      server.stop();
      return Promise.resolve();
    },
  };
}

function counters({ metrics }: Pick<WorkloadContext, 'metrics'>, connections: WorkloadConnections) {
  const issued = metrics.counter<'result'>({
    name: 'hansa_workload_svids_issued_total',
    help: 'X.509-SVIDs issued for entries, by result.',
    labels: ['result'],
  });
  const jwtIssued = metrics.counter<'result'>({
    name: 'hansa_workload_jwt_svids_issued_total',
    help: 'JWT-SVIDs signed for entries, by result.',
    labels: ['result'],
  });
  const validated = metrics.counter<'result'>({
    name: 'hansa_workload_jwt_svids_validated_total',
    help: 'JWT-SVIDs validated for workloads, by result: valid, or the violated rule.',
    labels: ['result'],
  });
  const pushes = metrics.counter({
    name: 'hansa_workload_pushes_total',
    help: 'States sent to streams of the Workload API, including the first ones.',
  });
  const refusals = metrics.counter<'reason'>({
    name: 'hansa_workload_refusals_total',
    help: 'Rejected connections and calls on the workload socket.',
    labels: ['reason'],
  });
  const checks = metrics.counter<'result'>({
    name: 'hansa_workload_checks_total',
    help: 'Decisions of ext_authz, by result: allowed, or the reason of the denial.',
    labels: ['result'],
  });
  const secrets = metrics.counter<'result'>({
    name: 'hansa_workload_secret_responses_total',
    help: 'Responses of the secret discovery service, by result: sent, or rejected by an Envoy.',
    labels: ['result'],
  });
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.observe({ name, help }, (report) => report({}, read()));
  gauge('hansa_workload_streams', 'Open calls on the workload socket.', () => connections.streams);
  gauge(
    'hansa_workload_connections',
    'Open connections to the workload socket.',
    () => connections.size,
  );
  return {
    issued: () => issued.add({ result: 'issued' }),
    failed: () => issued.add({ result: 'failed' }),
    jwtIssued: () => jwtIssued.add({ result: 'issued' }),
    jwtFailed: () => jwtIssued.add({ result: 'failed' }),
    validated: (rule: JwtRule | undefined) => validated.add({ result: rule ?? 'valid' }),
    pushed: (streams: number) => pushes.add({}, streams),
    refused: (reason: string) => refusals.add({ reason }),
    checked: (result: string) => checks.add({ result }),
    secrets: (result: 'sent' | 'rejected') => secrets.add({ result }),
  };
}

/** A workload chooses its audiences, so an audit record contains only this much of them. */
function told(audience: readonly string[]): string {
  const text = JSON.stringify(audience);
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`;
}

const guardReasons = {
  header: { code: 'HANSA_BAD_REQUEST', reason: 'a call without the security header' },
  limit: { code: 'HANSA_TOO_MANY_REQUESTS', reason: 'too many connections or streams' },
  flood: {
    code: 'HANSA_TOO_MANY_REQUESTS',
    reason: 'requests in too many frames, or too large in total',
  },
  late: { code: 'HANSA_TIMEOUT', reason: 'a stream without a complete request' },
} as const;

/** Reports rejections to the operator: the log, the audit log and metrics. The caller gets few details. */
function refusalLog({ audit, clock }: Pick<WorkloadContext, 'audit' | 'clock'>, log: Log) {
  const calls = new OccasionalLog(log, clock, 'rejected a call on the workload socket');
  const fetches = new OccasionalLog(log, clock, 'rejected a workload: no entry matches it');
  const accesses = new OccasionalLog(log, clock, 'denied access to an offer');
  const rejections = new OccasionalLog(log, clock, 'an Envoy rejected its secrets');
  const unknown = new OccasionalLog(log, clock, 'an Envoy requested unknown secrets');
  return {
    call: (why: GuardRefusal, process: WorkloadProcess | undefined): void => {
      calls.write({ why, process: process?.description });
      // A process that has ended needs no report.
      if (why === 'gone' || process === undefined) return;
      const { code, reason } = guardReasons[why];
      audit.deny({ actor: actorOf(process), verb: 'svid.fetch', outcome: 'deny', code, reason });
    },
    fetch: ({ process }: WorkloadConnection, kind: string): void => {
      const selectors = toldSelectors(process);
      fetches.write({ kind, process: process.description, selectors });
      audit.deny({
        actor: actorOf(process),
        verb: 'svid.fetch',
        kind: 'WorkloadEntry',
        outcome: 'deny',
        code: 'HANSA_FORBIDDEN',
        reason: `no entry matches ${process.description}; its selectors are ${selectors}`,
      });
    },
    rejected: ({ process }: WorkloadConnection, why: string): void =>
      rejections.write({ why, process: process.description }),
    missing: ({ process }: WorkloadConnection, names: readonly string[]): void =>
      unknown.write({
        names: names.slice(0, 5).map((name) => excerpt(name)),
        count: names.length,
        process: process.description,
      }),
    access: (
      { reason, id }: Extract<AccessDecision, { allowed: false }>,
      { offer, sourceAddress: address = '' }: AccessQuestion,
      { process }: WorkloadConnection,
    ): void => {
      const caller = id?.toString();
      accesses.write({ reason, offer, caller, address, asker: process.description });
      audit.deny({
        // The kernel attests the caller. The identity in the request is only a claim.
        actor: actorOf(process),
        ...(caller === undefined
          ? {}
          : { claim: { user: caller, ...(address === '' ? {} : { address }) } }),
        verb: 'offer.access',
        kind: 'ServiceOffer',
        ...(offer === '' ? {} : { name: offer }),
        outcome: 'deny',
        code: 'HANSA_FORBIDDEN',
        reason,
      });
    },
  };
}

function actorOf({ uid, gid }: WorkloadProcess): AuditActor {
  return { user: `unix:uid:${uid}`, groups: [`unix:gid:${gid}`], via: 'workload' };
}

// For tests: a site with its real store, audit log and witness, without a network. Messages pass through
// their JSON.

import { approvalKind } from '../../api/kinds/approval.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Authorizer } from '../../core/access/authorizer.ts';
import { socketOwner } from '../../core/access/identity.ts';
import { ApprovalGate } from '../../core/approvals/approval-gate.ts';
import { parseEvent, type AuditEvent } from '../../core/audit/event.ts';
import { Audit } from '../../core/audit/log.ts';
import { readRange } from '../../core/audit/query.ts';
import { PublicLog } from '../../core/audit/public-log.ts';
import { testSigner } from '../../core/audit/test-signer.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { createLog } from '../../core/log/json-log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import { MemoryDatabase } from '../../core/store/memory/driver.ts';
import { openStore } from '../../core/store/open.ts';
import type { Store } from '../../core/store/store.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { peeringActions } from '../approval-actions.ts';
import { PeerRepository, peeringWrites } from '../peers/peer-repository.ts';
import { findingId, logCondition } from './finding.ts';
import { encodeLogPart, type LogPart, parseLogPart } from './log-part.ts';
import { observeLogs } from './log-metrics.ts';
import { OperatorDecisions } from './operator-decisions.ts';
import { Witness } from './witness.ts';

export interface WitnessSiteOptions {
  readonly database?: MemoryDatabase;
  /** Chooses the key of the log. */
  readonly seed?: number;
  readonly origin?: string;
  readonly passesOn?: boolean;
}

export interface TestWitnessSite {
  readonly name: string;
  readonly clock: VirtualClock;
  readonly store: Store;
  readonly audit: Audit;
  readonly publicLog: PublicLog;
  readonly witness: Witness;
  readonly decisions: OperatorDecisions;
  readonly authorizer: Authorizer;
  readonly metrics: MetricsRegistry;
  readonly logged: readonly string[];
  /** Adds records to the log and signs it. */
  write(count: number): Promise<void>;
  /** Makes the peer of this name, in the state active. Resolves to its uid. */
  addPeer(name: string): Promise<string>;
  condition(name: string): Promise<string | undefined>;
  events(verb: string): Promise<readonly AuditEvent[]>;
}

export async function testWitnessSite(
  name: string,
  {
    database = new MemoryDatabase(),
    seed = 1,
    origin = name,
    passesOn = false,
  }: WitnessSiteOptions = {},
): Promise<TestWitnessSite> {
  const clock = new VirtualClock(Date.UTC(2026, 0, 1));
  const store = await openStore({ driver: 'memory', database }, { clock });
  const metrics = new MetricsRegistry();
  const logged: string[] = [];
  const sink = { write: (line: string) => logged.push(line) };
  const log = createLog({ sink, clock, level: 'warn', format: 'text' });
  const signer = testSigner(origin, seed);
  const audit = new Audit({ store, clock, signer, log, metrics });
  await audit.start();
  const publicLog = new PublicLog({ audit, store, clock, signer, log, metrics });
  const writer = new ResourceWriter({
    store,
    clock,
    random: new SeededRandom(name),
    admit: () => [],
    auditRow: auditWrites(audit),
  });
  const objects = resourceClient<FederationPeer>(federationPeerKind, { store, writer, clock });
  const witness = new Witness({
    trustDomain: TrustDomain.parse(name),
    store,
    clock,
    log,
    audit,
    publicLog,
    peers: new PeerRepository(objects, clock),
    passesOn,
  });
  observeLogs(metrics, witness);
  const authorizer = new Authorizer({ store, kinds: [federationPeerKind, approvalKind] });
  const decisions = new OperatorDecisions({
    self: name,
    store,
    audit,
    approvals: new ApprovalGate({
      store,
      clock,
      random: new SeededRandom(`approvals of ${name}`),
      audit,
      authorizer,
      actions: peeringActions,
    }),
    witness,
  });
  const write: TestWitnessSite['write'] = async (count) => {
    const rows = Array.from({ length: count }, (_, i) =>
      audit.record({
        actor: { user: 'alice', groups: [], via: 'certificate' },
        verb: 'create',
        name: `${name} ${store.auditLog.size + i}`,
        outcome: 'allow',
      }),
    );
    await store.commit({ audit: rows });
    if (audit.problem === undefined) await audit.checkpoint();
  };
  await write(1);
  return {
    name,
    clock,
    store,
    audit,
    publicLog,
    witness,
    decisions,
    authorizer,
    metrics,
    logged,
    write,
    addPeer: async (peer) => {
      const known = await objects.get(peer);
      if (known !== undefined) return known.metadata.uid;
      const spec = { url: `https://${peer}:8443`, desiredState: 'active' } as const;
      const made = await objects.create({ name: peer, spec }, peeringWrites);
      await objects.patchStatus(peer, () => ({ state: 'active' }), peeringWrites);
      return made.metadata.uid;
    },
    condition: async (peer) => {
      const { status } = (await objects.get(peer)) ?? {};
      return findCondition(status?.conditions, logCondition)?.reason;
    },
    events: async (verb) => {
      // Denials are written when someone searches.
      await audit.list({ limit: 1 });
      const rows = await readRange(store.auditLog, 0, store.auditLog.size);
      return rows.map(parseEvent).filter((event) => event.verb === verb);
    },
  };
}

export function overWire(part: LogPart): LogPart {
  return parseLogPart(JSON.parse(JSON.stringify(encodeLogPart(part))));
}

/** A heartbeat and its answer. `change` plays a dishonest sender of the heartbeat. */
export async function beat(
  from: TestWitnessSite,
  to: TestWitnessSite,
  change: (part: LogPart) => LogPart = (part) => part,
): Promise<void> {
  const sent = overWire(change(await from.witness.part(to.name)));
  await to.witness.heard({ name: from.name, uid: await to.addPeer(from.name) }, sent);
  await to.audit.checkpoint().catch(() => undefined);
  const answer = overWire(await to.witness.answer(from.name, sent));
  await from.witness.heard({ name: to.name, uid: await from.addPeer(to.name) }, answer, sent);
  await from.audit.checkpoint().catch(() => undefined);
}

/** Until both hold a cosignature of the other. */
export async function acquainted(a: TestWitnessSite, b: TestWitnessSite): Promise<void> {
  await beat(a, b);
  await beat(a, b);
  await beat(b, a);
}

/** The owner of the site acknowledges the finding about this peer. */
export function acknowledge(site: TestWitnessSite, peer: string): Promise<void> {
  const found = site.witness.logs.get(peer)?.value.finding;
  const id = found === undefined ? 'none' : findingId(found);
  return site.decisions.acknowledge(peer, id, { caller: socketOwner, origin: {} });
}

export function finding(site: TestWitnessSite, peer: string): string | undefined {
  return site.witness.logs.get(peer)?.value.finding?.reason;
}

/** Whether `site` cosigns what it holds of the log of `peer`. */
export async function cosigns(site: TestWitnessSite, peer: string): Promise<boolean> {
  const { held } = await site.witness.part(peer);
  return (held?.signatures.length ?? 0) > 1;
}

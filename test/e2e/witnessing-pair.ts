// Two real sites that witness the audit logs of each other, for tests that change the files of one of them.

import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import type { FederationPeer } from '../../src/api/kinds/federation-peer.ts';
import type { AuditEvent } from '../../src/core/audit/event.ts';
import { findCondition } from '../../src/core/reconcile/conditions.ts';
import type { WitnessedSummary } from '../../src/peering/routes/witness-routes.ts';
import { wordsOf } from '../../src/peering/witness/finding.ts';
import { adminClient, role } from './api-client.ts';
import { type PeeringSite, startPair } from './peering-pair.ts';
import { copyFolder } from './tampered-store.ts';
import { until } from './until.ts';
import { eventsIn, witnessedBy } from './witnessed-logs.ts';

export interface WitnessingPair {
  /** Whose files the tests change. */
  readonly lubeck: PeeringSite;
  readonly bruges: PeeringSite;
}

export async function startWitnessingPair(): Promise<WitnessingPair> {
  const [lubeck, bruges] = (await startPair('lubeck', 'bruges')) as [PeeringSite, PeeringSite];
  const { code, stderr } = await bruges.accept(await lubeck.invite(['--for', bruges.name]));
  assert.equal(code, 0, stderr);
  await allCosigned(lubeck, bruges);
  await allCosigned(bruges, lubeck);
  return { lubeck, bruges };
}

export function dataDirOf(site: PeeringSite): string {
  return site.daemon.dataDir;
}

/** Beside the data folder. */
export function copyPath(site: PeeringSite, name: string): string {
  return join(dirname(dataDirOf(site)), name);
}

/** Stops the site, and copies its data folder to a place of this name. */
export async function stopAndCopy(site: PeeringSite, name: string): Promise<string> {
  await site.stop();
  copyFolder(dataDirOf(site), copyPath(site, name));
  return copyPath(site, name);
}

/** What `site` has verified of the log of `peer`. */
export async function logOf(site: PeeringSite, peer: PeeringSite): Promise<WitnessedSummary> {
  const logs = await witnessedBy(adminClient(dataDirOf(site)));
  const log = logs.find(({ name }) => name === peer.name);
  assert.ok(log, `${site.name} does not witness the log of ${peer.name}`);
  return log;
}

/** Waits until `peer` has cosigned every event that `site` has now. Resolves to how many it has cosigned. */
export async function allCosigned(site: PeeringSite, peer: PeeringSite): Promise<number> {
  const events = await eventsIn(site.daemon);
  let cosigned = 0;
  await until(
    async () => {
      const logs = await witnessedBy(adminClient(dataDirOf(site)));
      cosigned = logs.find(({ name }) => name === peer.name)?.cosigned.events ?? 0;
      // A peer that started over has not seen the log, although its earlier cosignatures are stored.
      const held = await witnessedBy(adminClient(dataDirOf(peer)));
      const seen = held.find(({ name }) => name === site.name)?.events ?? 0;
      return Math.min(cosigned, seen) >= events;
    },
    () => `${peer.name} has cosigned ${cosigned} of the ${events} events of ${site.name}`,
  );
  return cosigned;
}

/** Adds this many events to the log of the site. */
export async function addEvents(site: PeeringSite, prefix: string, count: number): Promise<void> {
  const roles = Array.from({ length: count }, (_, i) => JSON.stringify(role(`${prefix}-${i}`)));
  await site.must(['apply', '-f', '-'], roles.join('\n---\n'));
}

export async function metricsOf(site: PeeringSite): Promise<string> {
  return await (await fetch(site.daemon.endpoints.metrics)).text();
}

export async function eventsOf(site: PeeringSite, verb: string): Promise<readonly AuditEvent[]> {
  const text = await site.must(['audit', 'list', '--verb', verb, '-o', 'json']);
  return (JSON.parse(text) as { readonly events: readonly AuditEvent[] }).events;
}

/** Whether a user of `site` sees that the log of `peer` fits, and the reason that the condition has. */
export async function conditionOf(site: PeeringSite, peer: PeeringSite) {
  const text = await site.must(['get', 'federationpeers', peer.name, '-o', 'json']);
  const { status } = JSON.parse(text) as FederationPeer;
  const { status: value, reason } =
    findCondition(status?.conditions, 'AuditLogWitnessed') ?? assert.fail('no condition');
  return { status: value, reason };
}

/**
 * Waits until `site` has this finding about the log of `peer`, and checks that it shows it everywhere. Resolves to
 * the signed notes that prove it.
 */
export async function finding(
  site: PeeringSite,
  peer: PeeringSite,
  reason: string,
): Promise<readonly string[]> {
  let log: WitnessedSummary | undefined;
  await until(
    async () => {
      log = await logOf(site, peer);
      return log.finding?.reason === reason;
    },
    () => `${site.name} has the finding ${log?.finding?.reason}, not ${reason}`,
  );
  const { finding: found, key } = log as WitnessedSummary;
  assert.ok(found);
  assert.deepEqual(await conditionOf(site, peer), { status: 'False', reason });
  const escaped = peer.name.replace('.', '\\.');
  const table = await site.must(['witness', 'list']);
  assert.match(table, new RegExp(`^${escaped} +\\d+ +${reason} `, 'm'));
  const shown = await site.must(['witness', 'show', peer.name]);
  for (const note of found.proof) {
    for (const line of note.trimEnd().split('\n')) assert.ok(shown.includes(line), shown);
  }
  assert.match(
    await metricsOf(site),
    new RegExp(`^hansa_peer_log_finding\\{peer="${escaped}",reason="${reason}"\\} 1$`, 'm'),
  );
  assert.match(await site.must(['status']), new RegExp(`${escaped} has a finding \\(${reason}\\)`));
  const [event] = await eventsOf(site, 'witness.finding');
  assert.equal(event?.name, peer.name);
  assert.ok(event.reason?.startsWith(`${reason}: ${found.message}`), event.reason);
  // The audit log cuts long texts at the end.
  const words = wordsOf({ ...found, atMs: Date.parse(found.at) });
  assert.ok(words.startsWith(event.reason?.replace(/…$/, '') ?? ''), event.reason);
  assert.ok(event.reason?.includes(`Proof: ${found.proof[0]}`), event.reason);
  assert.ok(key.startsWith(peer.name));
  return found.proof;
}

/** The site goes on working, and signs no event that comes now. */
export async function signsNothing(site: PeeringSite): Promise<void> {
  await until(async () => /^hansa_audit_problem 1$/m.test(await metricsOf(site)));
  const signed = async (): Promise<string | undefined> =>
    /^hansa_audit_signed_events (\d+)$/m.exec(await metricsOf(site))?.[1];
  const before = await signed();
  for (const command of ['checkpoint', 'verify']) {
    const { code, stderr } = await site.run(['audit', command]);
    assert.equal(code, 11, stderr);
    assert.match(stderr, /HANSA_AUDIT_INVALID/);
  }
  await site.must(['apply', '-f', '-'], JSON.stringify(role(`unsigned-${Date.now()}`)));
  // More than the second after which a site signs new events: a heartbeat of two seconds must pass, too.
  const sent = await heartbeats(site, 'sent');
  await until(async () => (await heartbeats(site, 'sent')) >= sent + 2);
  assert.equal(await signed(), before);
}

/** How many heartbeats the site has sent and got an answer to, or received and answered. */
export async function heartbeats(
  site: PeeringSite,
  direction: 'sent' | 'received',
): Promise<number> {
  const labels = `direction="${direction}",result="answered"`;
  const count = new RegExp(`^hansa_peer_heartbeats_total\\{${labels}\\} (\\d+)$`, 'm');
  return Number(count.exec(await metricsOf(site))?.[1] ?? 0);
}

// The last steps of `make demo`: the audit log of each site, verified offline with the keys that the other
// sites know, and who cosigned it up to which event.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { witnessVerifier } from '../../src/core/audit/cosignature.ts';
import { parseVerifier } from '../../src/core/audit/note.ts';
import type { WitnessedUpTo } from '../../src/core/audit/signed-head.ts';
import type { WitnessedSummary } from '../../src/peering/routes/witness-routes.ts';
import { hansa } from './daemon.ts';
import { expect, succeeds, tell } from './narration.ts';
import { type DemoSite, until } from './three-sites.ts';
import { eventsIn, witnessedBy } from './witnessed-logs.ts';

/** As much of `hansa audit verify -o json` as the demo reads. */
interface Verified {
  readonly events: number;
  readonly keyIsTrusted: boolean;
  readonly cosigned: readonly WitnessedUpTo[];
}

/** What must be in the log of each site. */
const verbs: Readonly<Record<string, readonly string[]>> = {
  lubeck: ['peer.invite', 'peer.activate', 'peer.suspend', 'peer.resume', 'peer.degrade'],
  bruges: ['peer.accept', 'peer.enroll', 'peer.activate'],
  novgorod: ['peer.invite', 'peer.accept', 'peer.activate', 'peer.degrade'],
};

export async function auditLogs(folder: string, sites: readonly DemoSite[]): Promise<void> {
  const checks = sites.map((site) => check(folder, site, sites));
  for (const one of checks) one.catch(() => undefined);
  for (const [i, site] of sites.entries()) {
    await tell(`the audit log of ${site.name}`, () => checks[i] as Promise<string>);
  }
}

async function check(folder: string, site: DemoSite, sites: readonly DemoSite[]): Promise<string> {
  const witnesses = sites.filter((one) => one !== site);
  const least = await cosignedByAll(site, witnesses);
  const file = join(folder, `${site.name}.audit`);
  await succeeds(site.run('audit', 'export', '--file', file));
  const log = readFileSync(file, 'utf8');
  for (const verb of verbs[site.name] ?? []) {
    expect(log.includes(`"verb":"${verb}"`), `${verb} is not in the log of ${site.name}`);
  }
  // The keys come from the other sites, as a forger could put others into the file.
  const key = await keyOf(site, witnesses);
  const others = await Promise.all(
    witnesses.map(async (one) => {
      const known = await keyOf(one, [site, ...witnesses.filter((other) => other !== one)]);
      return ['--witness', witnessVerifier(one.trustDomain, parseVerifier(known)).text];
    }),
  );
  const args = ['audit', 'verify', file, '--key', key, ...others.flat(), '-o', 'json'];
  const { events, keyIsTrusted, cosigned } = JSON.parse(await succeeds(hansa(args))) as Verified;
  expect(keyIsTrusted, 'the log was verified with a key from itself');
  const who = witnesses.map(({ name, trustDomain }) => {
    const found = cosigned.find(({ witness }) => witness === trustDomain);
    expect(found?.keyIsTrusted === true, `${name} has not cosigned the log of ${site.name}`);
    expect(found.events >= least, `${name} has cosigned ${found.events} events, not ${least}`);
    return `${name} up to event ${found.events - 1}`;
  });
  return `${events} events, verified; cosigned by ${who.join(' and ')}`;
}

/** Waits until each witness has cosigned all events that the log has now. Resolves to their number. */
async function cosignedByAll(site: DemoSite, witnesses: readonly DemoSite[]): Promise<number> {
  const events = await eventsIn(site.daemon);
  await until(async () => {
    const logs = await witnessedBy(site.admin);
    return witnesses.every((one) => logOf(one.trustDomain, logs).cosigned.events >= events);
  }, `that all peers of ${site.name} cosign its ${events} events`);
  return events;
}

/** The key of the log of a site, by the other sites. */
async function keyOf(site: DemoSite, others: readonly DemoSite[]): Promise<string> {
  const keys = await Promise.all(
    others.map(async (one) => logOf(site.trustDomain, await witnessedBy(one.admin)).key),
  );
  expect(new Set(keys).size === 1, `the log of ${site.name} has two keys: ${keys.join(' ')}`);
  return keys[0] as string;
}

function logOf(trustDomain: string, logs: readonly WitnessedSummary[]): WitnessedSummary {
  const log = logs.find(({ name }) => name === trustDomain);
  expect(log !== undefined, `a site does not witness the log of ${trustDomain}`);
  expect(log.finding === undefined, `a site has a finding: ${log.finding?.message}`);
  return log;
}

// Asks a site which audit logs it witnesses, without the start of a process, so that a test can ask often.

import { peeringPaths } from '../../src/peering/paths.ts';
import type { WitnessedSummary } from '../../src/peering/routes/witness-routes.ts';
import type { ApiClient } from './api-client.ts';
import type { Daemon } from './daemon.ts';

export async function witnessedBy(admin: ApiClient): Promise<readonly WitnessedSummary[]> {
  const { text } = await admin.get(peeringPaths.witness);
  return (JSON.parse(text) as { readonly logs: readonly WitnessedSummary[] }).logs;
}

/** How many events the audit log of the site has now, signed or not. */
export async function eventsIn({ endpoints }: Pick<Daemon, 'endpoints'>): Promise<number> {
  const text = await (await fetch(endpoints.metrics)).text();
  const count = /^hansa_audit_events (\d+)$/m.exec(text)?.[1];
  if (count === undefined) throw new Error('the site does not say how many audit events it has');
  return Number(count);
}

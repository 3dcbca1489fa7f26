// Asks a site which audit logs it witnesses, without the start of a process, so that a test can ask often.

import { peeringPaths } from '../../src/peering/paths.ts';
import type { WitnessedSummary } from '../../src/peering/routes/witness-routes.ts';
import type { ApiClient } from './api-client.ts';

export async function witnessedBy(admin: ApiClient): Promise<readonly WitnessedSummary[]> {
  const { text } = await admin.get(peeringPaths.witness);
  return (JSON.parse(text) as { readonly logs: readonly WitnessedSummary[] }).logs;
}

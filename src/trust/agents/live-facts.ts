// Facts of Agents: the status fields that change often, such as the expiry of the SVID (see
// src/api/live-status.ts). Writing them costs no commit.

import { agentKind } from '../../api/kinds/agent.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { Store } from '../../core/store/store.ts';

const collection = agentKind.plural;

interface Identified {
  readonly metadata: { readonly name: string; readonly uid: string };
}

/** When the site last heard from the agent; undefined if it never did. */
export function lastSeenMs(store: Pick<Store, 'facts'>, agent: Identified): number | undefined {
  const at = factsOf(store, agent)?.['lastSeenAt'];
  return typeof at === 'string' ? Date.parse(at) : undefined;
}

/** Whether its stream to this replica ended because the agent did not answer. */
export function isLost(store: Pick<Store, 'facts'>, agent: Identified): boolean {
  return factsOf(store, agent)?.['isLost'] === true;
}

/** Writes only what differs, because the store batches all writes of facts to disk. */
export function keepFacts(
  { facts }: Pick<Store, 'facts'>,
  { metadata: { name, uid } }: Identified,
  values: Readonly<Record<string, string | number>>,
): void {
  const known = facts.get(collection, name);
  const wanted = { uid, ...values };
  const isKept = Object.entries(wanted).every(([field, value]) =>
    jsonEquals(known?.[field], value),
  );
  if (!isKept) facts.merge(collection, name, wanted);
}

function factsOf(
  { facts }: Pick<Store, 'facts'>,
  { metadata: { name, uid } }: Identified,
): ReturnType<Store['facts']['get']> {
  const known = facts.get(collection, name);
  return known?.['uid'] === uid ? known : undefined;
}

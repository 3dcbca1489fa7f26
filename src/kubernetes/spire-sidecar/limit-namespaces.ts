// Keeps entries of namespaces that may not federate without other trust domains, and gives them back when they may.

import { type ApplyContext, throwFirst } from './apply-context.ts';
import { hasReadmission, planExclusion, planReadmission } from './excluded-entries.ts';
import { isNotFound } from './spire-api.ts';

/** `trustDomains` are all that SPIRE has a bundle of: an entry can federate with no other. */
export async function excludeEntries(
  { spire, store, namespaces }: ApplyContext,
  trustDomains: readonly string[],
): Promise<void> {
  if (namespaces === undefined || trustDomains.length === 0) return;
  const federated = await spire.entries(trustDomains);
  const { update, exclusions } = planExclusion(namespaces, federated, store.exclusions());
  if (update.length === 0) return;
  await store.saveExclusions(exclusions);
  throwFirst((await spire.setFederatesWith(update)).filter((result) => !isNotFound(result)));
}

export async function readmitEntries(
  { spire, store, namespaces }: ApplyContext,
  hasBundle: (trustDomain: string) => boolean,
): Promise<void> {
  const isUsable = (trustDomain: string): boolean =>
    hasBundle(trustDomain) && store.records().get(trustDomain)?.withheld !== true;
  if (!hasReadmission(namespaces, store.exclusions(), isUsable)) return;
  const all = await spire.entries();
  const { update, exclusions } = planReadmission(namespaces, all, store.exclusions(), isUsable);
  throwFirst((await spire.setFederatesWith(update)).filter((result) => !isNotFound(result)));
  await store.saveExclusions(exclusions);
}

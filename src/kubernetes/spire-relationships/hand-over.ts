// Hands the relationships of a SPIRE server over: in the request to its sidecar, or in ClusterFederatedTrustDomains.
// Neither depends on the other objects of the server, so nothing that keeps those back keeps trust from ending.

import type { Manifest } from '../../core/kube/manifests/manifest.ts';
import { readRelationships } from '../spire-sidecar/read-relationships.ts';
import type { ClusterObject } from '../sync/read-cluster-object.ts';
import { ownedBy } from '../spire/compile-objects.ts';
import { compileRequest } from '../spire/compile-sidecar-objects.ts';
import type { ObjectApplier, ObjectOutcome } from '../spire/object-applier.ts';
import {
  compileFederatedTrustDomains,
  federatedTrustDomainNamed,
  isOwnObject,
  objectNameOf,
  type Relationships,
} from './relationships.ts';
import { namedTrustDomains, withoutRemoved } from './removed-trust.ts';
import { relationshipsKey, relationshipsMapName } from './sidecar-contract.ts';
import type { SpireWatches } from '../spire/spire-watches.ts';

export interface HandOverParts {
  readonly object: ClusterObject;
  readonly applier: ObjectApplier;
  /** Ends trust also with `createOnly`, under which `applier` changes nothing. */
  readonly remover: ObjectApplier;
  readonly watches: Pick<SpireWatches, 'domains' | 'readValue'>;
  /** Of the server. */
  readonly namespace: string;
}

const none: ReadonlySet<string> = new Set();

/** `request` is for the sidecar, and `className` for spire-controller-manager. One of them is there. */
export async function handOver(
  parts: HandOverParts,
  relationships: Relationships,
  request: readonly Manifest[],
  className: string | undefined,
): Promise<readonly ObjectOutcome[]> {
  const { object, applier, remover, watches } = parts;
  const { list, held } = relationships;
  const names = new Set([...list, ...held].map(({ trustDomain }) => trustDomain));
  const isWritten = className !== undefined;
  const outcomes = await removeDomains(remover, watches, isWritten ? names : none);
  const domains = isWritten ? compileFederatedTrustDomains(relationships, className) : [];
  const { uid } = object.metadata;
  for (const manifest of [...request, ...domains.map((each) => ownedBy(each, uid))]) {
    const outcome = await applier.apply(manifest);
    outcomes.push(outcome);
    if (outcome.state === 'drift' && request.includes(manifest)) await withdrawRequested(parts);
  }
  return outcomes;
}

/** Removes what the SpireServer does not name any more, and does nothing else. */
export async function withdrawRemoved(parts: HandOverParts): Promise<void> {
  const { object, remover, watches } = parts;
  const named = namedTrustDomains(object);
  if (named === undefined) return;
  await removeDomains(remover, watches, named.isFederated ? named.names : none);
  await withdrawRequested(parts);
}

async function withdrawRequested({
  object,
  remover,
  watches,
  namespace,
}: HandOverParts): Promise<void> {
  const named = namedTrustDomains(object);
  if (named === undefined) return;
  const text = await watches.readValue(relationshipsMapName, relationshipsKey);
  const { document } = readRelationships(text);
  const reduced = document && withoutRemoved(document, named);
  if (reduced === undefined) return;
  await remover.apply(ownedBy(compileRequest(reduced, namespace), object.metadata.uid));
}

/** Deletes the ClusterFederatedTrustDomains that this site wrote for other trust domains than these. */
async function removeDomains(
  applier: ObjectApplier,
  watches: Pick<SpireWatches, 'domains'>,
  names: ReadonlySet<string>,
): Promise<ObjectOutcome[]> {
  const wanted = new Set([...names].map(objectNameOf));
  const outcomes: ObjectOutcome[] = [];
  for (const each of watches.domains() ?? []) {
    const { name } = each.metadata;
    if (!isOwnObject(each) || wanted.has(name)) continue;
    outcomes.push(await applier.remove(federatedTrustDomainNamed(name)));
  }
  return outcomes;
}

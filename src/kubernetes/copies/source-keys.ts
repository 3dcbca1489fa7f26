// Says which keys a changed slice of a member Service has. They are the same for all targets of a site, so they are
// computed once for each change, however many members the site leads.

import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import { serviceNameLabel } from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import { keyOfRef } from '../services/federated-name.ts';
import { isSource, sourceID } from '../services/slice-source.ts';
import type { CopyRules } from './copy-rules.ts';
import { slicesKey } from './sync-keys.ts';
import type { SyncedMember } from './synced-member.ts';

export interface SourceKey {
  /** `keyOfRef` of the federated Service. */
  readonly federated: string;
  /** `slicesKey` of the slices that come from the changed one. */
  readonly slices: string;
}

/** A change is of one member of one site, and is told to all listeners before the next one. */
const known = {
  copies: new WeakMap<ObjectChange<EndpointSlice>, readonly SourceKey[]>(),
  imports: new WeakMap<ObjectChange<EndpointSlice>, readonly SourceKey[]>(),
} as const;

/** Two keys where a slice moves from one federated Service to another, none where no other cluster gets it. */
export function sourceKeysOf(
  change: ObjectChange<EndpointSlice>,
  member: SyncedMember,
  rules: Pick<CopyRules, 'name' | 'refOf'>,
): readonly SourceKey[] {
  const found = known[rules.name].get(change);
  if (found !== undefined) return found;
  const { old, new: now } = change;
  const keys: SourceKey[] = [];
  for (const version of [old, now]) {
    const key = version && keyOf(version, member, rules);
    if (key !== undefined && keys[0]?.slices !== key.slices) keys.push(key);
  }
  known[rules.name].set(change, keys);
  return keys;
}

function keyOf(
  slice: EndpointSlice,
  member: SyncedMember,
  { refOf }: Pick<CopyRules, 'refOf'>,
): SourceKey | undefined {
  if (!isSource(slice)) return undefined;
  const { namespace = '', labels, name: sliceName } = slice.metadata;
  const name = labels?.[serviceNameLabel] ?? '';
  const service = member.services.byKey(`${namespace}/${name}`);
  const ref = service && refOf(service, member);
  if (ref === undefined) return undefined;
  const federated = keyOfRef(ref);
  const { clusterID } = member;
  const source = sourceID({ clusterID, kind: 'Service', namespace, name }, sliceName);
  return { federated, slices: slicesKey(federated, source) };
}

// Facts about slices of the target that its plans depend on. They are computed once for each version of a
// slice, so that a change of one endpoint costs no look at the others.

import { jsonEquals } from '../../api/schema/json.ts';
import type { EndpointSlice } from '../objects.ts';
import type { MemberPort } from '../services/member-service.ts';
import type { UsableAddresses } from '../services/usable-address.ts';

export interface SliceFacts {
  readonly hasReady: boolean;
  /** The first address that other members do not get. */
  readonly refusedAddress: string | undefined;
}

const known = new WeakMap<UsableAddresses, WeakMap<EndpointSlice, SliceFacts>>();

export function factsOf(slice: EndpointSlice, usable: UsableAddresses): SliceFacts {
  let facts = known.get(usable);
  if (facts === undefined) {
    facts = new WeakMap();
    known.set(usable, facts);
  }
  let found = facts.get(slice);
  if (found === undefined) {
    found = compute(slice, usable);
    facts.set(slice, found);
  }
  return found;
}

function compute(slice: EndpointSlice, usable: UsableAddresses): SliceFacts {
  let hasReady = false;
  let refusedAddress: string | undefined;
  for (const { addresses, conditions } of slice.endpoints ?? []) {
    const [address] = addresses;
    if (address === undefined) continue;
    hasReady ||= conditions?.ready ?? true;
    if (refusedAddress === undefined && !usable.has(address)) refusedAddress = address;
  }
  return { hasReady, refusedAddress };
}

/** Whether a plan could differ between two versions of a slice. Undefined: the slice is not there. */
export function changesPlan(
  old: EndpointSlice | undefined,
  now: EndpointSlice | undefined,
  usable: UsableAddresses,
): boolean {
  if (old === undefined || now === undefined) return true;
  const [before, after] = [factsOf(old, usable), factsOf(now, usable)];
  return (
    before.hasReady !== after.hasReady ||
    before.refusedAddress !== after.refusedAddress ||
    old.addressType !== now.addressType ||
    !jsonEquals(old.ports ?? [], now.ports ?? [])
  );
}

/** Whether a copy in the same cluster gets a ready endpoint from this slice. */
export function isReadyFor(
  ports: readonly MemberPort[],
  slice: EndpointSlice,
  usable: UsableAddresses,
): boolean {
  return (
    slice.addressType !== 'FQDN' &&
    factsOf(slice, usable).hasReady &&
    ports.some((own) =>
      (slice.ports ?? []).some(
        ({ name = '', protocol = 'TCP', port }) =>
          port !== undefined && name === own.name && protocol === own.protocol,
      ),
    )
  );
}

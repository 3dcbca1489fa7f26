// Distributes endpoints over slices. The result depends on the set of endpoints alone, and a change of
// one endpoint changes one slice, or splits or joins two.

import { createHash } from 'node:crypto';
import type { Endpoint } from '../objects.ts';

/** As many as kube-controller-manager puts into a slice by default. */
export const mostEndpoints = 100;

export interface PlacedEndpoints {
  /** Stable: the path in the tree of splits, such as `01`. Empty where all endpoints fit into one slice. */
  readonly place: string;
  /** Sorted by address. */
  readonly endpoints: readonly Endpoint[];
}

/**
 * A slice that is too large is split in two by the next bit of a hash of the address, as in a trie. The
 * first of several endpoints with one address wins. O(endpoints × splits).
 */
export function placeEndpoints(endpoints: readonly Endpoint[]): readonly PlacedEndpoints[] {
  const unique = new Map<string, Endpoint>();
  for (const endpoint of endpoints) {
    const [address] = endpoint.addresses;
    if (address !== undefined && !unique.has(address)) unique.set(address, endpoint);
  }
  const sorted = [...unique].toSorted(([a], [b]) => (a < b ? -1 : 1));
  if (sorted.length <= mostEndpoints) {
    return sorted.length === 0 ? [] : [{ place: '', endpoints: sorted.map(([, each]) => each) }];
  }
  const placed: PlacedEndpoints[] = [];
  const hashed = sorted.map(([address, endpoint]) => ({
    endpoint,
    bits: createHash('sha256').update(address).digest(),
  }));
  split(hashed, '', placed);
  return placed;
}

interface Hashed {
  readonly endpoint: Endpoint;
  readonly bits: Buffer;
}

function split(all: readonly Hashed[], place: string, placed: PlacedEndpoints[]): void {
  if (all.length === 0) return;
  if (all.length <= mostEndpoints) {
    placed.push({ place, endpoints: all.map(({ endpoint }) => endpoint) });
    return;
  }
  const depth = place.length;
  const isOne = ({ bits }: Hashed): boolean =>
    (((bits[depth >> 3] ?? 0) >> (7 - (depth & 7))) & 1) === 1;
  split(
    all.filter((each) => !isOne(each)),
    `${place}0`,
    placed,
  );
  split(all.filter(isOne), `${place}1`, placed);
}

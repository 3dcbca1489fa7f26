// Where a site answers otherwise than kube-apiserver on purpose: the whole list, each with its
// reason. Everything else is a fault.

import type { Difference, Place } from './compare.ts';

interface Deviation {
  readonly reason: string;
  readonly covers: (place: Place, difference: Difference) => boolean;
}

const deviations: readonly Deviation[] = [
  {
    reason: 'a site speaks JSON and YAML, not protobuf, and does not offer what it cannot do',
    covers: ({ one, other }) =>
      typeof one === 'string' && one.replace(', application/vnd.kubernetes.protobuf', '') === other,
  },
];

/** The differences without what is deviated from on purpose. */
export function faults(differences: readonly Difference[]): readonly Difference[] {
  return differences.flatMap((difference) => {
    const places = difference.places.filter(
      (place) => !deviations.some(({ covers }) => covers(place, difference)),
    );
    return places.length === 0 ? [] : [{ ...difference, places }];
  });
}

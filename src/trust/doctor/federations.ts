// The check of `hansa doctor` for federations: it warns of bundles that are not fresh. It reports no
// problem, because this site is healthy even if another one is gone.

import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { type Finding, ok, type SiteCheck, warning } from '../../core/plane/doctor.ts';
import { countsText } from '../state-counts.ts';
import { countFederations, federationRow } from '../trust-rows.ts';
import { printable } from '../../core/command/columns.ts';

const check = 'federations';
/** More would hide the other findings; `hansa trust status` has them all. */
const maxTold = 5;

export const federationsCheck: SiteCheck = {
  name: check,
  follows: 'authority',
  run: async ({ client, clock, running }) => {
    if (!running) return [];
    const { items } = await client.list(spiffeFederationKind);
    return judgeFederations(items as unknown as SPIFFEFederation[], clock.now());
  },
};

export function judgeFederations(
  federations: readonly SPIFFEFederation[],
  nowMs: number,
): Finding[] {
  if (federations.length === 0) return [];
  const odd = federations
    .map((federation) => federationRow(federation, nowMs))
    .filter(({ state }) => state !== 'fresh' && state !== 'quarantined');
  const counts = countsText(countFederations(federations, nowMs));
  if (odd.length === 0) return [ok(check, counts)];
  const told = odd
    .slice(0, maxTold)
    .map(({ trustDomain, state, why, todo }) =>
      warning(check, printable(`${trustDomain} is ${state}: ${why}`), printable(todo)),
    );
  if (odd.length <= maxTold) return told;
  const more = `and ${odd.length - maxTold} more (${counts})`;
  return [...told, warning(check, more, 'hansa trust status lists all of them.')];
}

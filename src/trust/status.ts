// The section of `hansa status` about the bundle of this site and the bundles of its federations.

import { type SPIFFEFederation, spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import type { StatusPart } from '../core/plane/command-line.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { ownFingerprint } from './client/site-bundle.ts';
import {
  countFederations,
  countsText,
  federationRow,
  todoLines,
  troubled,
  type TrustRow,
} from './trust-rows.ts';

export async function trustStatus(client: SiteClient, nowMs: number): Promise<StatusPart> {
  const [{ items }, fingerprint] = await Promise.all([
    client.list(spiffeFederationKind),
    ownFingerprint(client),
  ]);
  const federations = items as unknown as SPIFFEFederation[];
  const counts = countFederations(federations, nowMs);
  const odd = troubled(federations.map((federation) => federationRow(federation, nowMs)));
  const areAllFresh = (counts.states['fresh'] ?? 0) === counts.total;
  const why = areAllFresh ? '' : '; for reasons see hansa trust status';
  return {
    fields: { fingerprint, federations: { ...counts, troubled: odd } },
    // For `peer invite --for NAME@FINGERPRINT` at another site.
    identity: [['fingerprint', fingerprint]],
    rows: [['federations', `${countsText(counts)}${why}`]],
    ...troublesOf(odd),
  };
}

/** More would hide the other parts of the status; `hansa trust status` has them all. */
const maxTold = 5;

function troublesOf(odd: readonly TrustRow[]): Pick<StatusPart, 'table' | 'lines'> {
  if (odd.length === 0) return {};
  const told = odd.slice(0, maxTold);
  const rows = told.map(({ trustDomain, state, since, why }) => [trustDomain, state, since, why]);
  const more = odd.length - told.length;
  return {
    table: [['FEDERATION', 'BUNDLE', 'SINCE', 'WHY'], ...rows],
    lines: [...todoLines(told), ...(more > 0 ? [`and ${more} more: hansa trust status`] : [])],
  };
}

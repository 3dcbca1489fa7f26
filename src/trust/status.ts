// The section of `hansa status` about the bundle of this site, the bundles of its federations, and its
// agents.

import { type Agent, agentKind } from '../api/kinds/agent.ts';
import { type SPIFFEFederation, spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import type { StatusPart } from '../core/plane/command-line.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { countAgents, troubleLines } from './agents/agent-rows.ts';
import { ownFingerprint } from './client/site-bundle.ts';
import { countsText } from './state-counts.ts';
import {
  countFederations,
  federationRow,
  todoLines,
  troubled,
  type TrustRow,
} from './trust-rows.ts';

export async function trustStatus(client: SiteClient, nowMs: number): Promise<StatusPart> {
  const [{ items }, fingerprint, { items: found }] = await Promise.all([
    client.list(spiffeFederationKind),
    ownFingerprint(client),
    client.list(agentKind),
  ]);
  const agents = found as unknown as Agent[];
  const federations = items as unknown as SPIFFEFederation[];
  const counts = countFederations(federations, nowMs);
  const odd = troubled(federations.map((federation) => federationRow(federation, nowMs)));
  const areAllFresh = (counts.states['fresh'] ?? 0) === counts.total;
  const why = areAllFresh ? '' : '; for reasons see hansa trust status';
  const { table, lines = [] } = troublesOf(odd);
  return {
    fields: {
      fingerprint,
      federations: { ...counts, troubled: odd },
      agents: countAgents(agents),
    },
    // For `peer invite --for NAME@FINGERPRINT` at another site.
    identity: [['fingerprint', fingerprint]],
    rows: [
      ['federations', `${countsText(counts)}${why}`],
      ['agents', countsText(countAgents(agents))],
    ],
    ...(table === undefined ? {} : { table }),
    lines: [...lines, ...troubleLines(agents, nowMs, maxTold)],
  };
}

/** More would hide the other parts of the status; `hansa trust status` and `hansa agent list` have them all. */
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

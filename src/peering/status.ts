// The part of `hansa status` about peers, their audit logs, offers and grants.

import type { Kind } from '../api/kind.ts';
import { federationGrantKind } from '../api/kinds/federation-grant.ts';
import { serviceOfferKind } from '../api/kinds/service-offer.ts';
import type { StatusPart } from '../core/plane/command-line.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import { listLogs, listPeers } from './client/peers.ts';
import { peerHintLines } from './peers/peer-hints.ts';
import { logHints } from './witness/log-rows.ts';
import { peerCells, peerHeadings } from './peers/peer-rows.ts';

export async function peeringStatus(client: SiteClient, nowMs: number): Promise<StatusPart> {
  const [peers, logs, offers, grants] = await Promise.all([
    listPeers(client),
    listLogs(client),
    count(client, serviceOfferKind),
    count(client, federationGrantKind),
  ]);
  const none = 'none; to invite one: hansa peer invite';
  return {
    fields: { peers, offers, grants },
    rows: [
      ['shared', `${plural(offers, 'offer')}, ${plural(grants, 'grant')}`],
      ['peers', peers.length === 0 ? none : String(peers.length)],
    ],
    ...(peers.length === 0
      ? {}
      : { table: [peerHeadings(), ...peers.map((peer) => peerCells(peer, nowMs))] }),
    lines: [...peerHintLines(peers), ...logHints(logs)],
  };
}

async function count(client: SiteClient, kind: Kind): Promise<number> {
  return (await client.list(kind)).items.length;
}

function plural(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? '' : 's'}`;
}

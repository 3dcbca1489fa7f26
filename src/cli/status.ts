// hansa status: the site at a glance.

import { Command } from 'commander';
import { humanDuration } from '../api/duration.ts';
import type { Kind } from '../api/kind.ts';
import { federationGrantKind } from '../api/kinds/federation-grant.ts';
import { serviceOfferKind } from '../api/kinds/service-offer.ts';
import { type SPIFFEFederation, spiffeFederationKind } from '../api/kinds/spiffe-federation.ts';
import { siteKind } from '../api/kinds/site.ts';
import type { Condition } from '../api/object.ts';
import type { PeerSummary } from '../peering/operator-routes.ts';
import type { Cli } from './cli.ts';
import { outputOption, renderValue } from './output.ts';
import { listPeers } from './peer.ts';
import { peerHintLines } from './peer-hints.ts';
import { peerCells, peerHeadings } from './peer-rows.ts';
import { ownFingerprint } from './trust.ts';
import {
  countFederations,
  countsText,
  type FederationCounts,
  federationRow,
  todoLines,
  troubled,
  type TrustRow,
} from './trust-rows.ts';
import type { SiteClient } from '../core/plane/site-client.ts';
import type { OutputFormat } from '../core/plane/command-kit.ts';
import { printable, renderColumns } from '../core/command/columns.ts';

interface SiteStatus {
  readonly trustDomain?: string;
  readonly version?: string;
  readonly startedAt?: string;
  readonly advertiseURL?: string;
  readonly listeners?: readonly { readonly name: string; readonly address: string }[];
  readonly conditions?: readonly Condition[];
}

export function statusCommand(cli: Cli): Command {
  return new Command('status')
    .description(
      'the site at a glance: where it listens, whom it believes, and how its peers are doing',
    )
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa status\n  hansa status -o json')
    .action((options: { readonly output: OutputFormat }, command: Command) =>
      cli.withClient(command, async (client) => {
        const nowMs = cli.io.clock.now();
        const [site, peers, offers, grants, federations, fingerprint] = await Promise.all([
          client.get(siteKind, siteKind.singleton as string),
          listPeers(client),
          count(client, serviceOfferKind),
          count(client, federationGrantKind),
          federationsOf(client, nowMs),
          ownFingerprint(client),
        ]);
        const status = (site.status ?? {}) as SiteStatus;
        const found = { site: status, fingerprint, federations, peers, offers, grants };
        cli.print(renderValue(found, options.output) ?? statusText(found, nowMs));
      }),
    );
}

async function count(client: SiteClient, kind: Kind): Promise<number> {
  return (await client.list(kind)).items.length;
}

interface Federations extends FederationCounts {
  /** Those about which something is to be done. */
  readonly troubled: readonly TrustRow[];
}

async function federationsOf(client: SiteClient, nowMs: number): Promise<Federations> {
  const { items } = await client.list(spiffeFederationKind);
  const federations = items as unknown as SPIFFEFederation[];
  const rows = federations.map((federation) => federationRow(federation, nowMs));
  return {
    ...countFederations(federations, nowMs),
    troubled: troubled(rows),
  };
}

interface Found {
  readonly site: SiteStatus;
  /** Of the authorities of this site, for `peer invite --for NAME@FINGERPRINT` at another. */
  readonly fingerprint: string;
  readonly federations: Federations;
  readonly peers: readonly PeerSummary[];
  readonly offers: number;
  readonly grants: number;
}

function statusText(found: Found, nowMs: number): string {
  const { site: status, fingerprint, federations, peers, offers, grants } = found;
  const ready = status.conditions?.find(({ type }) => type === 'Ready');
  const since =
    status.startedAt === undefined
      ? ''
      : `, up ${humanDuration(nowMs - Date.parse(status.startedAt))}`;
  const health =
    ready?.status === 'True' ? 'ready' : `not ready: ${ready?.message ?? 'nothing is known yet'}`;
  const head = [
    [status.trustDomain ?? 'unknown', `${health}${since}, version ${status.version ?? 'unknown'}`],
    ['advertised', status.advertiseURL ?? ''],
    ['fingerprint', fingerprint],
    ...(status.listeners ?? []).map(({ name, address }) => [name, address]),
    [
      'federations',
      `${countsText(federations)}${areAllFresh(federations) ? '' : '; hansa trust status tells why'}`,
    ],
    ['shared', `${plural(offers, 'offer')}, ${plural(grants, 'grant')}`],
    [
      'peers',
      peers.length === 0 ? 'none; invite one with hansa peer invite' : String(peers.length),
    ],
  ];
  const parts = [renderColumns(clean(head)), ...troublesOf(federations)];
  if (peers.length > 0) {
    parts.push(
      '',
      renderColumns(clean([peerHeadings(), ...peers.map((peer) => peerCells(peer, nowMs))])),
      ...peerHintLines(peers).map((line) => printable(line)),
    );
  }
  return parts.join('\n');
}

/** More would hide the peers; `hansa trust status` has them all. */
const maxTold = 5;

function troublesOf({ troubled: all }: Federations): string[] {
  if (all.length === 0) return [];
  const told = all.slice(0, maxTold);
  const headings = ['FEDERATION', 'BUNDLE', 'SINCE', 'WHY'];
  const rows = told.map(({ trustDomain, state, since, why }) => [trustDomain, state, since, why]);
  const more = all.length - told.length;
  return [
    '',
    renderColumns(clean([headings, ...rows])),
    ...todoLines(told).map((line) => printable(line)),
    ...(more > 0 ? [`and ${more} more: hansa trust status`] : []),
  ];
}

function areAllFresh({ total, states }: FederationCounts): boolean {
  return (states['fresh'] ?? 0) === total;
}

function plural(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? '' : 's'}`;
}

function clean(rows: readonly (readonly string[])[]): string[][] {
  return rows.map((row) => row.map((cell) => printable(cell)));
}

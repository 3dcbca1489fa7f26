// hansa peer: other sites. Invite one, accept an invitation, and see how peers are doing.

import { Command } from 'commander';
import { federationPeerKind } from '../api/kinds/federation-peer.ts';
import { siteKind } from '../api/kinds/site.ts';
import type { Resource } from '../api/object.ts';
import { HansaError } from '../core/errors/error.ts';
import type { InvitationPreview, PeerSummary } from '../peering/operator-routes.ts';
import {
  isLive,
  nextState,
  type PeerEvent,
  type PeerState,
  refuseStep,
} from '../peering/peer-states.ts';
import type { Cli } from './cli.ts';
import { readInvitation } from './invitation-input.ts';
import { outputOption, renderValue } from './output.ts';
import { forgottenMembersLines } from './peer-members.ts';
import { peerHint, peerHintLines } from './peer-hints.ts';
import { invitationCommand, inviteCommand } from './peer-invitation.ts';
import { peerCells, peerHeadings, peerLines, revocationEffect } from './peer-rows.ts';
import { objectPath, type SiteClient } from '../core/plane/site-client.ts';
import type { OutputFormat } from '../core/plane/command-kit.ts';
import { printable, renderColumns } from '../core/command/columns.ts';

const base = '/hansa/v1/peering';

interface Output {
  readonly output: OutputFormat;
}

export function peerCommand(cli: Cli): Command {
  return new Command('peer')
    .description('other sites: invite, accept, look after')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa peer invite --for bruges.example\n  hansa peer list',
    )
    .addCommand(inviteCommand(cli))
    .addCommand(invitationCommand(cli))
    .addCommand(acceptCommand(cli))
    .addCommand(listCommand(cli))
    .addCommand(showCommand(cli))
    .addCommand(confirmCommand(cli))
    .addCommand(switchCommand(cli, 'suspend'))
    .addCommand(switchCommand(cli, 'resume'))
    .addCommand(revokeCommand(cli));
}

function acceptCommand(cli: Cli): Command {
  return new Command('accept')
    .description('accept an invitation, and become a peer of the site that made it')
    .argument(
      '[invitation]',
      'the line; without it you are asked, or it is read from standard input',
    )
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Paste the line when asked: it is not shown. An invitation on the command line is visible to every
local user in the process list, and the first site that redeems it becomes the peer.

Examples:
  hansa peer accept
  hansa peer accept < invitation
  ssh lubeck hansa peer invite --for bruges.example | hansa peer accept --yes`,
    )
    .action((given: string | undefined, options: Output, command: Command) =>
      cli.withClient(command, async (client) => {
        const { line: invitation, usedStdin } = await readInvitation(cli.io, given);
        const preview = (
          await client.request({ method: 'POST', path: `${base}/preview`, body: { invitation } })
        ).body as InvitationPreview;
        for (const line of await previewLines(client, preview)) cli.note(printable(line));
        await cli.confirm(command, 'Accept?', usedStdin ? 'terminal' : 'stdin');
        const peer = (
          await client.request({ method: 'POST', path: `${base}/accept`, body: { invitation } })
        ).body as PeerSummary;
        const rendered = renderValue(peer, options.output);
        if (rendered === undefined) reportAccepted(cli, peer);
        else cli.print(rendered);
      }),
    );
}

async function previewLines(client: SiteClient, preview: InvitationPreview): Promise<string[]> {
  const { body } = await client.request({
    path: objectPath(siteKind, siteKind.singleton as string),
  });
  const own = (body as { readonly status?: { readonly trustDomain?: string } }).status?.trustDomain;
  const offers =
    preview.offers.length === 0 ? 'no offers yet' : `offers: ${preview.offers.join(', ')}`;
  return [
    `${preview.trustDomain} invites ${own ?? 'this site'}`,
    `  fingerprint   ${preview.fingerprint}`,
    `                (if the invitation came over an untrusted channel, compare it with the operator of ${preview.trustDomain} by phone)`,
    '  they get      your public bundle',
    `  you get       their public bundle, ${offers}`,
    ...(preview.confirmation
      ? [`  then          the operator of ${preview.trustDomain} has to confirm`]
      : []),
  ];
}

function reportAccepted(cli: Cli, peer: PeerSummary): void {
  const name = printable(peer.name);
  if (peer.state === 'active') {
    cli.note(
      `  ✓ contract version ${peer.contractVersion ?? 1}   ✓ token   ✓ bundles exchanged   ✓ enrolled   ✓ first heartbeat`,
    );
    cli.print(`${name} is active. Grants: hansa grant list --peer ${name}`);
  } else {
    const why = peer.reason === undefined ? '' : `: ${peer.reason}`;
    cli.print(printable(`${peer.name} is ${peer.state}${why}`));
    const hint = peerHint(peer);
    cli.note(printable(hint === '' ? `See how far it is with: hansa peer show ${name}` : hint));
  }
}

function listCommand(cli: Cli): Command {
  return new Command('list')
    .description('list the peers of this site, and how they are doing')
    .addOption(outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa peer list\n  hansa peer list -o wide')
    .action((options: Output, command: Command) =>
      cli.withClient(command, async (client) => {
        const peers = await listPeers(client);
        const rendered = renderValue({ peers }, options.output);
        if (rendered !== undefined) cli.print(rendered);
        else if (options.output.format === 'name') {
          for (const { name } of peers) cli.print(printable(name));
        } else if (peers.length === 0) {
          cli.note('There are no peers. Invite one with: hansa peer invite --for TRUST-DOMAIN');
        } else {
          const nowMs = cli.io.clock.now();
          const wide = options.output.format === 'wide';
          const rows = peers.map((peer) =>
            peerCells(peer, nowMs, wide).map((cell) => printable(cell)),
          );
          cli.print(renderColumns([peerHeadings(wide), ...rows]));
          for (const line of peerHintLines(peers)) cli.note(printable(line));
        }
      }),
    );
}

function showCommand(cli: Cli): Command {
  return new Command('show')
    .description('show all that is known of a peer')
    .argument('<name>', 'its trust domain')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa peer show bruges.example')
    .action((name: string, options: Output, command: Command) =>
      cli.withClient(command, async (client) => {
        const peer = await findPeer(client, name);
        cli.print(
          renderValue(peer, options.output) ??
            renderColumns(
              peerLines(peer, cli.io.clock.now()).map((row) => row.map((cell) => printable(cell))),
            ),
        );
      }),
    );
}

interface StepOptions {
  readonly output: OutputFormat;
}

function confirmCommand(cli: Cli): Command {
  return new Command('confirm')
    .description('say yes to a site that used an invitation and waits')
    .argument('<name>', 'its trust domain')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa peer confirm bruges.example')
    .action((name: string, { output }: StepOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        const peer = await findPeer(client, name);
        if (peer.state === 'proposed' || peer.alert !== undefined) {
          if (peer.state === 'proposed') {
            cli.note(printable(`${name} used an invitation, and waits: ${peer.reason ?? ''}`));
          }
          if (peer.alert !== undefined) cli.note(printable(`Warning: ${peer.alert}`));
          cli.note(printable(`  fingerprint   ${peer.fingerprint ?? 'unknown'}`));
          await cli.confirm(command, `Confirm ${name}?`);
        }
        const { body } = await client.request({
          method: 'POST',
          path: `${base}/confirm/${encodeURIComponent(name)}`,
        });
        const { state } = body as PeerSummary;
        const text = printable(`${name} is confirmed, and ${state} now.`);
        cli.print(renderValue({ name, state }, output) ?? text);
      }),
    );
}

function switchCommand(cli: Cli, event: 'suspend' | 'resume'): Command {
  const desiredState = event === 'suspend' ? 'suspended' : 'active';
  return new Command(event)
    .description(
      event === 'suspend'
        ? 'trust nothing of a peer, and send it nothing, until it is resumed'
        : 'trust a suspended peer again',
    )
    .argument('<name>', 'its trust domain')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText('after', `\nExamples:\n  hansa peer ${event} bruges.example`)
    .action((name: string, { output }: StepOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        const peer = await findPeer(client, name);
        checkStep(peer, event);
        const { body } = await client.request({
          method: 'PATCH',
          path: objectPath(federationPeerKind, name),
          contentType: 'application/merge-patch+json',
          body: { spec: { desiredState } },
        });
        const settled = await untilState(cli, client, body as Resource, (state) =>
          event === 'suspend' ? state === 'suspended' : state !== 'suspended',
        );
        cli.print(
          renderValue({ name, state: settled }, output) ?? printable(`${name} is ${settled}.`),
        );
      }),
    );
}

function revokeCommand(cli: Cli): Command {
  return new Command('revoke')
    .description('end the peering with a site, at once and for good')
    .argument('<name>', 'its trust domain')
    .addOption(outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Works whether the other site answers or not. Agents and bots that joined with an SVID of the peer are
listed and forgotten. A new invitation makes it a peer again.

Examples:
  hansa peer revoke reval.example --yes`,
    )
    .action((name: string, { output }: StepOptions, command: Command) =>
      cli.withClient(command, async (client) => {
        await findPeer(client, name);
        for (const line of await forgottenMembersLines(client, [name])) cli.note(line);
        await cli.confirm(command, `Revoke ${name}? ${revocationEffect([name])}`);
        await client.request({
          method: 'POST',
          path: `${base}/revoke/${encodeURIComponent(name)}`,
        });
        cli.print(
          renderValue({ name, state: 'revoked' }, output) ?? printable(`${name} is revoked.`),
        );
      }),
    );
}

/** Refused here, with what is possible, rather than wished for without end. */
function checkStep(peer: PeerSummary, event: PeerEvent): void {
  const state = peer.state as PeerState;
  if (event === 'suspend' && state === 'suspended') return;
  if (event === 'resume' && isLive(state)) return;
  if (nextState({ state }, event) === undefined) {
    throw refuseStep(peer.name, state, event);
  }
}

/** Follows the object from the answer to the change on, so that no state is missed. */
async function untilState(
  cli: Cli,
  client: SiteClient,
  changed: Resource,
  holds: (state: string) => boolean,
): Promise<string> {
  const { name, resourceVersion } = changed.metadata;
  const abort = new AbortController();
  const timer = cli.io.clock.timer(settleWithinMs, () => abort.abort());
  let state = stateOf(changed);
  try {
    if (holds(state)) return state;
    const selection = { fieldSelector: `metadata.name=${name}`, resourceVersion };
    for await (const { object } of client.watch(federationPeerKind, {
      ...selection,
      signal: abort.signal,
    })) {
      state = stateOf(object as Resource);
      if (holds(state)) return state;
    }
  } catch (error) {
    if (!abort.signal.aborted) throw error;
  } finally {
    timer.cancel();
    abort.abort();
  }
  throw new HansaError(
    'HANSA_CONDITION_NOT_MET',
    `${name} is still ${state}: the site is busy. See hansa peer show ${name}`,
  );
}

const settleWithinMs = 10_000;

function stateOf({ status }: Resource): string {
  return (status as { readonly state?: string } | undefined)?.state ?? 'unknown';
}

export async function listPeers(client: SiteClient): Promise<readonly PeerSummary[]> {
  const { body } = await client.request({ path: `${base}/peers` });
  return (body as { readonly peers: readonly PeerSummary[] }).peers;
}

async function findPeer(client: SiteClient, name: string): Promise<PeerSummary> {
  const peer = (await listPeers(client)).find((known) => known.name === name);
  if (peer !== undefined) return peer;
  throw new HansaError(
    'HANSA_NOT_FOUND',
    `There is no peer ${name}. See those that there are with: hansa peer list`,
  );
}

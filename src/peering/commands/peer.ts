// `hansa peer`: invites other sites, accepts invitations, and shows and changes the state of peers.

import { Command } from 'commander';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { siteKind } from '../../api/kinds/site.ts';
import type { Condition, Resource } from '../../api/object.ts';
import { HansaError } from '../../core/errors/error.ts';
import { findCondition } from '../../core/reconcile/conditions.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';
import { findPeer, listPeers } from '../client/peers.ts';
import { peerHintLines } from '../peers/peer-hints.ts';
import { checkStep } from '../peers/possible-step.ts';
import { acceptCommand, retryCommand } from './peer-accept.ts';
import { catalogCommand } from './peer-catalog.ts';
import { invitationCommand, inviteCommand } from './peer-invitation.ts';
import { reenrolCommand } from './peer-reenrol.ts';
import { peerCells, peerHeadings, peerLines, revocationEffect } from '../peers/peer-rows.ts';
import { objectPath, type SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { peeringPaths } from '../paths.ts';

interface Output {
  readonly output: OutputFormat;
}

export function peerCommand(kit: CommandKit): Command {
  return new Command('peer')
    .description('manage peers: invite, accept, list, suspend, re-enrol, revoke')
    .addHelpText(
      'after',
      '\nExamples:\n  hansa peer invite --for bruges.example\n  hansa peer list',
    )
    .addCommand(inviteCommand(kit))
    .addCommand(invitationCommand(kit))
    .addCommand(acceptCommand(kit))
    .addCommand(listCommand(kit))
    .addCommand(showCommand(kit))
    .addCommand(catalogCommand(kit))
    .addCommand(confirmCommand(kit))
    .addCommand(retryCommand(kit))
    .addCommand(switchCommand(kit, 'suspend'))
    .addCommand(switchCommand(kit, 'resume'))
    .addCommand(reenrolCommand(kit))
    .addCommand(revokeCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list the peers of this site and their states')
    .addOption(kit.outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText('after', '\nExamples:\n  hansa peer list\n  hansa peer list -o wide')
    .action((options: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const peers = await listPeers(client);
        const rendered = kit.renderValue({ peers }, options.output);
        if (rendered !== undefined) kit.print(rendered);
        else if (options.output.format === 'name') {
          for (const { name } of peers) kit.print(printable(name));
        } else if (peers.length === 0) {
          kit.note('There are no peers. To invite one: hansa peer invite --for TRUST-DOMAIN');
        } else {
          const nowMs = kit.io.clock.now();
          const wide = options.output.format === 'wide';
          const rows = peers.map((peer) =>
            peerCells(peer, nowMs, wide).map((cell) => printable(cell)),
          );
          kit.print(renderColumns([peerHeadings(wide), ...rows]));
          for (const line of peerHintLines(peers)) kit.note(printable(line));
          for (const line of await ownLogLines(client)) kit.note(printable(line));
        }
      }),
    );
}

/** Why the peers of this site do not cosign its audit log, where the reason is the log itself. */
async function ownLogLines(client: SiteClient): Promise<readonly string[]> {
  // A user may list peers without the right to read the Site.
  const site = await client.get(siteKind, siteKind.singleton as string).catch(() => undefined);
  const { conditions } = (site?.status ?? {}) as { readonly conditions?: readonly Condition[] };
  const ready = findCondition(conditions, 'Ready');
  if (ready?.status !== 'False' || !ready.message.startsWith('audit: ')) return [];
  return [`The audit log of this site is not signed: ${ready.message.slice('audit: '.length)}`];
}

function showCommand(kit: CommandKit): Command {
  return new Command('show')
    .description('show the details of a peer')
    .argument('<name>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa peer show bruges.example')
    .action((name: string, options: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const peer = await findPeer(client, name);
        kit.print(
          kit.renderValue(peer, options.output) ??
            renderColumns(
              peerLines(peer, kit.io.clock.now()).map((row) => row.map((cell) => printable(cell))),
            ),
        );
      }),
    );
}

interface StepOptions {
  readonly output: OutputFormat;
}

interface RevokeOptions extends StepOptions {
  readonly emergency?: string;
}

function confirmCommand(kit: CommandKit): Command {
  return new Command('confirm')
    .description('admit a site that redeemed an invitation, or clear the alert of a peer')
    .argument('<name>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa peer confirm bruges.example')
    .action((name: string, { output }: StepOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const peer = await findPeer(client, name);
        if (peer.state === 'proposed' || peer.alert !== undefined) {
          if (peer.state === 'proposed') {
            kit.note(
              printable(`${name} is proposed: ${peer.reason ?? 'it redeemed an invitation'}`),
            );
          }
          if (peer.alert !== undefined) kit.note(printable(`Warning: ${peer.alert}`));
          kit.note(printable(`  fingerprint   ${peer.fingerprint ?? 'unknown'}`));
          await kit.confirm(command, `Confirm ${name}?`);
        }
        const { body } = await client.request({
          method: 'POST',
          path: pathTo(peeringPaths.confirm, { name }),
        });
        const { state } = body as PeerSummary;
        const text = printable(`${name} is confirmed. Its state is ${state}.`);
        kit.print(kit.renderValue({ name, state }, output) ?? text);
      }),
    );
}

function switchCommand(kit: CommandKit, event: 'suspend' | 'resume'): Command {
  const desiredState = event === 'suspend' ? 'suspended' : 'active';
  return new Command(event)
    .description(
      event === 'suspend'
        ? 'stop trusting a peer and sending to it, until you resume it'
        : 'trust a suspended peer again',
    )
    .argument('<name>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', `\nExamples:\n  hansa peer ${event} bruges.example`)
    .action((name: string, { output }: StepOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const peer = await findPeer(client, name);
        checkStep(peer, event);
        const { body } = await client.request({
          method: 'PATCH',
          path: objectPath(federationPeerKind, name),
          contentType: 'application/merge-patch+json',
          body: { spec: { desiredState } },
        });
        const settled = await untilState(kit, client, body as Resource, (state) =>
          event === 'suspend' ? state === 'suspended' : state !== 'suspended',
        );
        kit.print(
          kit.renderValue({ name, state: settled }, output) ?? printable(`${name} is ${settled}.`),
        );
      }),
    );
}

function revokeCommand(kit: CommandKit): Command {
  return new Command('revoke')
    .description('end the peering with a site, immediately and for good')
    .argument('<name>', 'the trust domain of the peer')
    .option(
      '--emergency <reason>',
      'do not wait for an approval: revoke now, and let another user review it afterwards',
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The other site does not have to be reachable. The command lists the agents and bots that joined with
an SVID of the peer, and the site forgets them. Only a new invitation makes the site a peer again.

Examples:
  hansa peer revoke reval.example --yes
  hansa peer revoke reval.example --emergency 'its signing key was stolen'`,
    )
    .action((name: string, { output, emergency }: RevokeOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        await findPeer(client, name);
        const peer = { kind: federationPeerKind, name };
        for (const line of await kit.deletionNotes(client, [peer])) kit.note(line);
        await kit.confirm(command, `Revoke ${name}? ${revocationEffect([name])}`);
        const { body } = await client.request({
          method: 'POST',
          path: pathTo(peeringPaths.revoke, { name }),
          body: { emergency },
        });
        const { review } = body as { readonly review?: string };
        if (review !== undefined) {
          kit.note(printable(`Another user must review this: hansa approval show ${review}`));
        }
        kit.print(kit.renderValue(body, output) ?? printable(`${name} is revoked.`));
      }),
    );
}

/** Watches the peer from the revision of the change, so that it misses no state. */
async function untilState(
  kit: CommandKit,
  client: SiteClient,
  changed: Resource,
  holds: (state: string) => boolean,
): Promise<string> {
  const { name, resourceVersion } = changed.metadata;
  const abort = new AbortController();
  const timer = kit.io.clock.timer(settleWithinMs, () => abort.abort());
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
    `${name} is still ${state}, because the site is busy. To see its state: hansa peer show ${name}`,
  );
}

const settleWithinMs = 10_000;

function stateOf({ status }: Resource): string {
  return (status as { readonly state?: string } | undefined)?.state ?? 'unknown';
}

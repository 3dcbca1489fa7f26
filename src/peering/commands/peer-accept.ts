// `hansa peer accept` and `hansa peer retry`: accept an invitation and show each step as it happens, and
// repeat the soft steps of an acceptance.

import { Command } from 'commander';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { printable } from '../../core/command/columns.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { objectPath, type SiteClient } from '../../core/plane/site-client.ts';
import type { Acceptance } from '../handshake/acceptance.ts';
import { peeringPaths } from '../paths.ts';
import { peerHint } from '../peers/peer-hints.ts';
import type { InvitationPreview } from '../handshake/acceptor.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';
import { readInvitation } from './invitation-input.ts';

interface Output {
  readonly output: OutputFormat;
}

export function acceptCommand(kit: CommandKit): Command {
  return new Command('accept')
    .description('accept an invitation and become a peer of the inviting site')
    .argument('[invitation]', 'the invitation; if missing, from a prompt or from standard input')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
Paste the invitation at the prompt, which does not echo it. On the command line, every local user
can read it in the process list, and the first site that redeems it becomes the peer.

Examples:
  hansa peer accept
  hansa peer accept < invitation
  ssh lubeck hansa peer invite --for bruges.example | hansa peer accept --yes`,
    )
    .action((given: string | undefined, options: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const { line: invitation, usedStdin } = await readInvitation(kit.io, given);
        const preview = (
          await client.request({ method: 'POST', path: peeringPaths.preview, body: { invitation } })
        ).body as InvitationPreview;
        for (const line of await previewLines(client, preview)) kit.note(printable(line));
        await kit.confirm(command, 'Accept?', usedStdin ? 'terminal' : 'stdin');
        const peer = await acceptShowing(kit, client, invitation, preview);
        const rendered = kit.renderValue(peer, options.output);
        if (rendered === undefined) reportAccepted(kit, peer);
        else kit.print(rendered);
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
    ...(preview.reenrols === true
      ? [
          `  again         ${preview.trustDomain} trusts only the new keys of this site, and keeps what it granted`,
        ]
      : []),
    `  fingerprint   ${preview.fingerprint}`,
    `                (if the invitation came over an untrusted channel, compare it with the operator of ${preview.trustDomain} by phone)`,
    '  they get      your public bundle',
    `  you get       their public bundle, ${offers}`,
    ...(preview.confirmation
      ? [`  then          the operator of ${preview.trustDomain} must confirm this site`]
      : []),
  ];
}

/** Accepts the invitation, and shows the steps of the acceptance while the site takes them. */
export async function acceptShowing(
  kit: CommandKit,
  client: SiteClient,
  invitation: string,
  preview: InvitationPreview,
): Promise<PeerSummary> {
  const shown = new Set<string>();
  const show = (acceptance: Acceptance | undefined): void => {
    for (const line of stepLines(acceptance)) {
      if (!shown.has(line)) kit.note(printable(line));
      shown.add(line);
    }
  };
  const abort = new AbortController();
  // A user who may not watch peers sees all steps at the end.
  const following = follow(client, preview, abort.signal, show).catch(() => undefined);
  try {
    const { body } = await client.request({
      method: 'POST',
      path: peeringPaths.accept,
      body: { invitation },
    });
    const peer = body as PeerSummary;
    abort.abort();
    await following;
    show(peer.acceptance);
    return peer;
  } finally {
    abort.abort();
    await following;
  }
}

async function follow(
  client: SiteClient,
  { trustDomain, invitation }: InvitationPreview,
  signal: AbortSignal,
  show: (acceptance: Acceptance | undefined) => void,
): Promise<void> {
  const fieldSelector = `metadata.name=${trustDomain}`;
  for await (const { object } of client.watch(federationPeerKind, { fieldSelector, signal })) {
    const { status } = object as FederationPeer;
    // An earlier peer of this name has steps, too.
    if (status?.invitation === invitation) show(status.acceptance);
  }
}

const marks = { done: '✓', skipped: '–', failed: '✗' } as const;

/** One line for each step: its outcome, name, need and message. */
export function stepLines(acceptance: Acceptance | undefined): readonly string[] {
  return (acceptance?.steps ?? []).map(({ step, need, outcome, message = '' }) =>
    `  ${marks[outcome]} ${step.padEnd(12)}${need.padEnd(6)}${message}`.trimEnd(),
  );
}

function reportAccepted(kit: CommandKit, peer: PeerSummary): void {
  const name = printable(peer.name);
  reportWarnings(kit, peer);
  if (peer.state === 'active') {
    kit.note('  ✓ first heartbeat');
    kit.print(`${name} is active. Grants: hansa grant list --peer ${name}`);
  } else {
    const why = peer.reason === undefined ? '' : `: ${peer.reason}`;
    kit.print(printable(`${peer.name} is ${peer.state}${why}`));
    const hint = peerHint(peer);
    kit.note(printable(hint === '' ? `To see its progress: hansa peer show ${name}` : hint));
  }
}

function reportWarnings(kit: CommandKit, { name, acceptance }: PeerSummary): void {
  for (const warning of acceptance?.warnings ?? []) kit.note(printable(`Warning: ${warning}`));
  if (acceptance?.steps.some(({ need, outcome }) => need === 'soft' && outcome === 'failed')) {
    kit.note(printable(`To repeat the soft steps: hansa peer retry ${name}`));
  }
}

export function retryCommand(kit: CommandKit): Command {
  return new Command('retry')
    .description('repeat the soft steps of an acceptance that are not done')
    .argument('<name>', 'the trust domain of the peer')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
A soft step that fails does not stop an acceptance: the peer is enrolled, with a warning. This command
repeats the soft steps that failed or were skipped, and shows all steps.

Examples:
  hansa peer retry bruges.example`,
    )
    .action((name: string, { output }: Output, command: Command) =>
      kit.withClient(command, async (client) => {
        const { body } = await client.request({
          method: 'POST',
          path: pathTo(peeringPaths.retry, { name }),
        });
        const peer = body as PeerSummary;
        const rendered = kit.renderValue(peer, output);
        if (rendered !== undefined) {
          kit.print(rendered);
          return;
        }
        for (const line of stepLines(peer.acceptance)) kit.print(printable(line));
        reportWarnings(kit, peer);
      }),
    );
}

// `hansa peer invite` and `hansa peer invitation`: create, list and cancel invitations of this site.

import { Command, Option } from 'commander';
import { humanDuration } from '../../api/values/duration.ts';
import { type FederationPeer, federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { InvitationSummary } from '../routes/invitation-routes.ts';
import { shortId } from '../handshake/invitation.ts';
import { warnUnlessAdvertised } from '../../core/plane/advertised-url.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { usageError } from '../../core/command/usage-error.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable, renderColumns } from '../../core/command/columns.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { peeringPaths } from '../paths.ts';

interface InviteFlags {
  readonly for?: string;
  readonly ttl?: number;
  readonly output: OutputFormat;
}

export function inviteCommand(kit: CommandKit): Command {
  return new Command('invite')
    .description('create an invitation: one line of text for the operator of another site')
    .option(
      '--for <name[@fingerprint]>',
      'the trust domain that may redeem it, and the fingerprint of its keys; without --for, any site may redeem it, and you must confirm that site',
    )
    .addOption(
      new Option('--ttl <duration>', 'how long it is valid (default 15m, maximum 4h)').argParser(
        parseDurationFlag,
      ),
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
The command prints only the invitation to standard output. Any site that has the invitation can redeem
it, once. Send it over a channel that you trust. With --for NAME, the first site that calls itself NAME becomes the peer.
With --for NAME@FINGERPRINT, the site must also have those keys. Its operator finds the fingerprint
in hansa status.

Examples:
  hansa peer invite --for bruges.example
  hansa peer invite --for bruges.example@7f3a…c1
  (umask 077 && hansa peer invite --ttl 1h > invitation)`,
    )
    .action((flags: InviteFlags, command: Command) =>
      kit.withClient(command, async (client) => {
        const [name, ...rest] = flags.for?.split('@') ?? [];
        const { body } = await client.request({
          method: 'POST',
          path: peeringPaths.invite,
          body: {
            ...(name === undefined ? {} : { for: name }),
            ...(rest.length === 0 ? {} : { fingerprint: rest.join('@') }),
            ...(flags.ttl === undefined ? {} : { ttlSeconds: Math.floor(flags.ttl / 1000) }),
          },
        });
        showInvitation(kit, body as ShownInvitation, flags.output);
        if (name !== undefined) await warnOfPeer(kit, client, name);
        for (const line of inviteHints(name, rest.length > 0)) kit.note(printable(line));
        await warnUnlessAdvertised(kit, client);
      }),
    );
}

/** A new invitation, as the site returns it. */
export interface ShownInvitation {
  readonly id: string;
  readonly invitation: string;
  readonly expiresAt: string;
  readonly fingerprint: string;
}

/** Only the invitation goes to standard output. */
export function showInvitation(kit: CommandKit, made: ShownInvitation, output: OutputFormat): void {
  kit.print(kit.renderValue(made, output) ?? printable(made.invitation));
  const left = leftOf(Date.parse(made.expiresAt) - kit.io.clock.now());
  const cancel = `hansa peer invitation cancel ${printable(shortId(made.id))}`;
  kit.note(`(expires in ${left}; works once; to cancel it: ${cancel})`);
  kit.note(`fingerprint   ${printable(made.fingerprint)}`);
}

/** To the nearest minute, as the user wrote it; seconds where it is short. */
function leftOf(ms: number): string {
  const unitMs = ms > 110_000 ? 60_000 : 1_000;
  return humanDuration(Math.round(ms / unitMs) * unitMs);
}

/** An invitation for a peer is of use only after a revocation. */
async function warnOfPeer(kit: CommandKit, client: SiteClient, name: string): Promise<void> {
  try {
    const { status } = (await client.get(federationPeerKind, name)) as FederationPeer;
    const state = status?.state;
    if (state === undefined || state === 'revoked') return;
    const known = printable(name);
    kit.note(
      `Warning: ${known} is already a peer (${state}), and cannot redeem this invitation while it is. If it lost its keys: hansa peer reenrol ${known}. To end the peering first: hansa peer revoke ${known}`,
    );
  } catch (error) {
    if (!hasCode(error, 'HANSA_NOT_FOUND') && !hasCode(error, 'HANSA_FORBIDDEN')) throw error;
  }
}

/** Hints for an invitation that is not bound to a trust domain or to keys. */
export function inviteHints(name: string | undefined, bindsKeys: boolean): string[] {
  if (name === undefined) {
    return ['Any site may redeem it. To admit the site that did: hansa peer confirm TRUST-DOMAIN'];
  }
  if (bindsKeys) return [];
  return [
    `The first site that calls itself ${name} becomes the peer. To require its keys too: --for ${name}@FINGERPRINT, with the fingerprint from hansa status at ${name}`,
  ];
}

export function invitationCommand(kit: CommandKit): Command {
  return new Command('invitation')
    .description('list and cancel invitations of this site')
    .addHelpText('after', '\nExamples:\n  hansa peer invitation list')
    .addCommand(listCommand(kit))
    .addCommand(cancelCommand(kit));
}

function listCommand(kit: CommandKit): Command {
  return new Command('list')
    .description('list invitations, newest first, until they expire or their peering is complete')
    .addOption(kit.outputOption(['json', 'yaml', 'wide', 'name']))
    .addHelpText(
      'after',
      `
The site does not store the secret of an invitation, so it cannot show a lost invitation again. Cancel
the lost one and create another.

Examples:
  hansa peer invitation list
  hansa peer invitation list -o wide`,
    )
    .action((options: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        const invitations = await listInvitations(client);
        const { format } = options.output;
        const rendered = kit.renderValue({ invitations }, options.output);
        if (rendered !== undefined) kit.print(rendered);
        else if (format === 'name') for (const { id } of invitations) kit.print(printable(id));
        else if (invitations.length === 0) {
          kit.note('There are no invitations. To create one: hansa peer invite --for TRUST-DOMAIN');
        } else {
          const rows = invitationRows(invitations, kit.io.clock.now(), format === 'wide');
          kit.print(renderColumns(rows.map((row) => row.map((cell) => printable(cell)))));
        }
      }),
    );
}

export function invitationRows(
  invitations: readonly InvitationSummary[],
  nowMs: number,
  wide: boolean,
): readonly (readonly string[])[] {
  const headings = ['ID', 'FOR', 'STATE', 'AGE', 'EXPIRES', 'REDEEMED BY'];
  const more = ['MADE BY', 'KEYS'];
  return [
    wide ? [...headings, ...more] : headings,
    ...invitations.map((each) => {
      const { state, expiresAt, redeemedBy = '', contestedBy } = each;
      const leftMs = Date.parse(expiresAt) - nowMs;
      const contest = contestedBy === undefined ? '' : `, also tried by ${contestedBy}`;
      const cells = [
        wide ? each.id : shortId(each.id),
        each.for === undefined
          ? 'any site'
          : `${each.for}${each.forKeys === undefined ? '' : ' (keys bound)'}`,
        state,
        humanDuration(nowMs - Date.parse(each.createdAt)),
        state === 'open' ? `in ${humanDuration(leftMs)}` : '',
        `${redeemedBy}${contest}`,
      ];
      return wide ? [...cells, each.createdBy ?? '', each.forKeys ?? ''] : cells;
    }),
  ];
}

function cancelCommand(kit: CommandKit): Command {
  return new Command('cancel')
    .description('cancel an invitation that no site has redeemed')
    .argument('<id>', 'the id of the invitation, or its first characters')
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText('after', '\nExamples:\n  hansa peer invitation cancel 4be0a1c29f3d')
    .action((given: string, options: { readonly output: OutputFormat }, command: Command) =>
      kit.withClient(command, async (client) => {
        const { id } = findInvitation(await listInvitations(client), given);
        const { body } = await client.request({
          method: 'DELETE',
          path: pathTo(peeringPaths.invitation, { id }),
        });
        kit.print(
          kit.renderValue(body, options.output) ??
            printable(`The invitation ${shortId(id)} is cancelled.`),
        );
      }),
    );
}

/** Finds an invitation by its id or by a unique prefix of at least 4 characters. */
export function findInvitation(
  invitations: readonly InvitationSummary[],
  given: string,
): InvitationSummary {
  if (!/^[0-9a-f]{4,64}$/.test(given)) {
    throw usageError(
      `${JSON.stringify(given)} is not the id of an invitation. Enter at least the first 4 characters that hansa peer invitation list shows.`,
    );
  }
  const [found, second] = invitations.filter(({ id }) => id.startsWith(given));
  if (found === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `There is no invitation ${given}. To list the invitations: hansa peer invitation list`,
    );
  }
  if (second !== undefined) {
    throw usageError(`Several invitations begin with ${given}. Enter more characters of the id.`);
  }
  return found;
}

async function listInvitations(client: SiteClient): Promise<readonly InvitationSummary[]> {
  const { body } = await client.request({ path: peeringPaths.invitations });
  return (body as { readonly invitations: readonly InvitationSummary[] }).invitations;
}

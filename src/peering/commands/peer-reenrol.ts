// `hansa peer reenrol`: lets a peer that lost its keys start over with a fresh invitation.

import { Command, Option } from 'commander';
import { printable } from '../../core/command/columns.ts';
import { parseDurationFlag } from '../../core/command/duration-flag.ts';
import { warnUnlessAdvertised } from '../../core/plane/advertised-url.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { findPeer } from '../client/peers.ts';
import { peeringPaths } from '../paths.ts';
import { checkStep } from '../peers/possible-step.ts';
import type { PeerSummary } from '../routes/operator-routes.ts';
import { type ShownInvitation, showInvitation } from './peer-invitation.ts';

interface ReenrolFlags {
  readonly fingerprint?: string;
  readonly ttl?: number;
  readonly output: OutputFormat;
}

export function reenrolCommand(kit: CommandKit): Command {
  return new Command('reenrol')
    .description('let a peer that lost its keys start over with a fresh invitation')
    .argument('<name>', 'the trust domain of the peer')
    .option(
      '--fingerprint <fingerprint>',
      'the fingerprint of its new keys; without it, you must confirm the peer',
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
For a peer that was rebuilt and has none of its earlier keys. This site stops trusting those keys at once,
and forgets the agents and bots that joined with them. It prints an invitation, with which the operator of
the peer runs hansa peer accept. The peer keeps its grants and its history. If the invitation expires,
repeat the command.

The peer gets its grants at once. So give the fingerprint of its new keys, which its operator finds in
hansa status, over another channel than the invitation. Otherwise compare it before hansa peer confirm.

For a revoked peer, use hansa peer invite. A peer that still has its store, and only replaced its keys,
does not have to start over: see hansa trust bundle bootstrap.

Examples:
  hansa peer reenrol bruges.example
  hansa peer reenrol bruges.example --fingerprint 7f3a…c1
  (umask 077 && hansa peer reenrol bruges.example --ttl 1h --yes > invitation)`,
    )
    .action((name: string, flags: ReenrolFlags, command: Command) =>
      kit.withClient(command, async (client) => {
        const peer = await findPeer(client, name);
        checkStep(peer, 'reenrol');
        for (const line of effectLines(peer, flags.fingerprint)) kit.note(printable(line));
        await kit.confirm(command, `Re-enrol ${name}?`);
        const { body } = await client.request({
          method: 'POST',
          path: pathTo(peeringPaths.reenrol, { name }),
          body: {
            ...(flags.fingerprint === undefined ? {} : { fingerprint: flags.fingerprint }),
            ...(flags.ttl === undefined ? {} : { ttlSeconds: Math.floor(flags.ttl / 1000) }),
          },
        });
        showInvitation(kit, body as ShownInvitation, flags.output);
        kit.note(
          printable(
            flags.fingerprint === undefined
              ? `When ${name} has accepted it, compare its fingerprint and admit it: hansa peer confirm ${name}`
              : `Send it to the operator of ${name}, for hansa peer accept.`,
          ),
        );
        await warnUnlessAdvertised(kit, client);
      }),
    );
}

function effectLines(
  { name, state, fingerprint }: PeerSummary,
  newKeys: string | undefined,
): readonly string[] {
  return [
    `${name} is ${state}. This site stops trusting its keys, and forgets what joined with them.`,
    ...(fingerprint === undefined ? [] : [`  old keys      ${fingerprint}`]),
    `  new keys      ${newKeys ?? 'any, until you confirm them'}`,
    '  it keeps      its grants and its history',
  ];
}

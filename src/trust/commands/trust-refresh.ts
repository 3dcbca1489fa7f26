// `hansa trust refresh`: makes the site fetch the bundle of another trust domain now.

import { Command, Option } from 'commander';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { RefreshAnswer } from '../federation/refresh-routes.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { trustPaths } from '../paths.ts';

/** Twice the timeout of a fetch. */
const waitSeconds = 20;

export function refreshCommand(kit: CommandKit): Command {
  return new Command('refresh')
    .description('fetch the bundle of a trust domain now')
    .argument('<trust-domain>', 'a trust domain that this site federates with')
    .addOption(new Option('--wait', 'wait for the fetch, and show its result'))
    .addOption(
      new Option(
        '--accept-rollback',
        'accept a bundle with a lower sequence, for example after the peer was restored',
      ),
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With --wait, the exit code is 9 (HANSA_CONDITION_NOT_MET) if the fetch failed.

Examples:
  hansa trust refresh bruges.example --wait
  hansa trust refresh bruges.example --accept-rollback --wait`,
    )
    .action((name: string, options: RefreshOptions, command: Command) =>
      kit.withClient(command, async (client) => {
        const { wait = false, acceptRollback = false } = options;
        const trustDomain = TrustDomain.parse(name).name;
        const answer = await askRefresh(client, trustDomain, {
          acceptRollback,
          waitSeconds: wait ? waitSeconds : 0,
        });
        if (wait) refuseFailure(answer);
        const rendered = kit.renderValue(answer, options.output);
        kit.print(
          rendered ??
            printable(
              wait ? refreshedLine(answer) : `Requested a fetch of the bundle of ${trustDomain}.`,
            ),
        );
      }),
    );
}

interface RefreshOptions {
  readonly wait?: boolean;
  readonly acceptRollback?: boolean;
  readonly output: OutputFormat;
}

export interface RefreshWish {
  readonly acceptRollback?: boolean;
  readonly rebootstrap?: boolean;
  readonly waitSeconds: number;
}

export async function askRefresh(
  client: SiteClient,
  trustDomain: string,
  wish: RefreshWish,
): Promise<RefreshAnswer> {
  const path = pathTo(trustPaths.refresh, { name: trustDomain });
  return (await client.request({ method: 'POST', path, body: wish })).body as RefreshAnswer;
}

/** Throws if the command waited for a fetch that failed or did not end in time. */
export function refuseFailure({ trustDomain, done, status }: RefreshAnswer): void {
  if (!done) {
    throw new HansaError(
      'HANSA_CONDITION_NOT_MET',
      `The site did not fetch the bundle of ${trustDomain} within ${waitSeconds} seconds. Check with hansa status that the controller federation-sync is running.`,
    );
  }
  if (status?.lastError !== undefined) {
    const { class: kind, message } = status.lastError;
    throw new HansaError('HANSA_CONDITION_NOT_MET', `${message} (${kind})`);
  }
}

export function refreshedLine({ trustDomain, status }: RefreshAnswer): string {
  const { authorityCount = 0, sequence } = status ?? {};
  const held = `${authorityCount} ${authorityCount === 1 ? 'authority' : 'authorities'}`;
  return `The bundle of ${trustDomain} is fresh: ${held}${sequence === undefined ? '' : `, sequence ${sequence}`}.`;
}

// hansa trust refresh: ask the endpoint of another trust domain now, and not when it is due.

import { Command, Option } from 'commander';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { RefreshAnswer } from '../federation/refresh-routes.ts';
import type { SiteClient } from '../../core/plane/site-client.ts';
import type { CommandKit, OutputFormat } from '../../core/plane/command-kit.ts';
import { printable } from '../../core/command/columns.ts';
import { pathTo } from '../../core/plane/path-to.ts';
import { trustPaths } from '../paths.ts';

/** Twice as long as a fetch may take. */
const waitSeconds = 20;

export function refreshCommand(kit: CommandKit): Command {
  return new Command('refresh')
    .description('ask the endpoint of a trust domain for its bundle now')
    .argument('<trust-domain>', 'one that this site federates with')
    .addOption(new Option('--wait', 'until it was asked, and tell what came of it'))
    .addOption(
      new Option(
        '--accept-rollback',
        'take a bundle with a lower sequence than was seen before: the peer was rebuilt or restored',
      ),
    )
    .addOption(kit.outputOption(['json', 'yaml']))
    .addHelpText(
      'after',
      `
With --wait it ends with exit code 9 (HANSA_CONDITION_NOT_MET) where no bundle could be had.

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
              wait ? refreshedLine(answer) : `${trustDomain} is being asked for its bundle.`,
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

/** Throws where it was waited for, and nothing good came of it. */
export function refuseFailure({ trustDomain, done, status }: RefreshAnswer): void {
  if (!done) {
    throw new HansaError(
      'HANSA_CONDITION_NOT_MET',
      `${trustDomain} was not asked for its bundle within ${waitSeconds} seconds. Is the controller federation-sync running? See hansa status.`,
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

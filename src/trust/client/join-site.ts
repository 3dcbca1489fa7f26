// Joins a site as an agent or a bot, and keeps the SVID in a folder.

import { createPrivateKey } from 'node:crypto';
import { stayAlive } from '../../core/command/stay-alive.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import type { Joined, JoinServer, SvidCredential } from './join-client.ts';
import type { JoinFolder } from './join-folder.ts';
import { isPassing } from './join-renewal.ts';
import type { Asking } from './workload-client.ts';

type JoinBySvid = typeof import('./join-client.ts')['joinBySvid'];

/** Which member to become, by which token. */
export type JoinWish = Parameters<JoinBySvid>[1];

/** Calls the site and proves what the token asks for. */
export type Prove = (parts: Parameters<JoinBySvid>[0], wish: JoinWish) => Promise<Joined>;

/** Throws HANSA_USAGE where the folder belongs to a member already. */
export function refuseMember({ path, membership }: JoinFolder): void {
  if (membership === undefined) return;
  throw usageError(
    `${path} already belongs to ${membership.spiffeId}. Renew it with hansa join renew, or choose another folder.`,
  );
}

export async function joinSite(
  io: Pick<Io, 'clock' | 'random' | 'interruption'>,
  folder: JoinFolder,
  server: JoinServer,
  wish: JoinWish,
  prove: Prove,
): Promise<Joined> {
  const { clock, random } = io;
  const key = await folder.nextKey(random);
  const signal = io.interruption();
  const joined = await prove({ server, clock, random, key, signal }, wish).catch(
    (error: unknown) => {
      // Where no answer arrived, the site may know the key: the next attempt needs it.
      if (!signal.aborted && !isPassing(error)) folder.abandonKey();
      throw hasCode(error, 'HANSA_UNREACHABLE') ? unreachable(server.url, error) : error;
    },
  );
  folder.keep(joined, server.url);
  return joined;
}

function unreachable(url: URL, cause: HansaError): HansaError {
  return new HansaError(
    'HANSA_UNREACHABLE',
    `${cause.message} Check that the site runs and that ${url.origin} (--server) is its federation listener, and run the command again.`,
    { cause },
  );
}

/** The first SVID that the Workload API gives to this process. */
export async function svidFromSocket(asking: Asking): Promise<SvidCredential> {
  const { fetchSvids } = await import('./workload-client.ts');
  const first = (await stayAlive(() => fetchSvids(asking)))?.svids[0];
  if (first === undefined) {
    const message = `The workload socket ${asking.socket} returned no SVID.`;
    throw new HansaError('HANSA_UNREACHABLE', message);
  }
  const key = createPrivateKey({ key: Buffer.from(first.key), format: 'der', type: 'pkcs8' });
  return { chain: first.chain, key };
}

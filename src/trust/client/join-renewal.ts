// Renews the SVID in the folder of a member, once or continuously. It stores the next key before it calls
// the site, so that a lost response can be repeated.

import { createPrivateKey } from 'node:crypto';
import { timestamp } from '../../api/object.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { type Random, sleep } from '../../core/clock/clock.ts';
import { usageError } from '../../core/command/usage-error.ts';
import { type ErrorCode, HansaError, toHansaError } from '../../core/errors/error.ts';
import { parseCertificatesPem } from '../../core/identity/x509/pem.ts';
import { maxChainLength } from '../../core/identity/x509/svid-validator.ts';
import type { Io } from '../../core/plane/command-kit.ts';
import type { Joined, JoinServer } from './join-client.ts';
import type { JoinFolder, Membership } from './join-folder.ts';
import { parseServer, readBundle, refreshBundle } from './join-server.ts';

export interface RenewalParts {
  readonly io: Pick<Io, 'clock' | 'random' | 'interruption'>;
  readonly folder: JoinFolder;
  /** Where the site is now; undefined: where it was when the member joined. */
  readonly server: string | undefined;
  /** Whether something else keeps the bundle current, such as the channel of an agent. */
  readonly hasCurrentBundle?: boolean;
  /** Called after a renewal that is tried again. */
  readonly failed?: () => void;
}

export function membershipOf(folder: JoinFolder): Membership {
  const { membership } = folder;
  if (membership !== undefined) return membership;
  throw usageError(`${folder.path} is not the folder of a member: it has no join.json.`);
}

function serverOf({ folder, server: moved }: RenewalParts): JoinServer {
  const { server, trustDomain } = membershipOf(folder);
  return {
    url: parseServer(moved ?? server),
    bundle: readBundle(folder.read('bundle.pem'), TrustDomain.parse(trustDomain), 'bundle.pem'),
  };
}

/** By folder. Two renewals at once would both use the newest SVID, and the site would refuse one of them. */
const running = new Map<string, Promise<Joined>>();

/** Calls for the same folder at the same time share one renewal. */
export function renewOnce(parts: RenewalParts): Promise<Joined> {
  const { path } = parts.folder;
  let renewal = running.get(path);
  if (renewal === undefined) {
    renewal = renew(parts).finally(() => running.delete(path));
    running.set(path, renewal);
  }
  return renewal;
}

async function renew(parts: RenewalParts): Promise<Joined> {
  const { folder } = parts;
  const { clock, random, interruption } = parts.io;
  const { renewSvid } = await import('./join-client.ts');
  // Checks the folder before it creates a key there.
  membershipOf(folder);
  const key = await folder.nextKey(random);
  // Read together, because another process may renew meanwhile.
  const { instance, generation } = membershipOf(folder);
  const server = serverOf(parts);
  const credential = { chain: chainOf(folder), key: createPrivateKey(folder.read('svid.key')) };
  const joined = await renewSvid(
    { server, clock, random, key, signal: interruption() },
    { instance, generation: BigInt(generation) },
    credential,
  );
  folder.keep(joined, server.url);
  return joined;
}

const chainOf = (folder: JoinFolder): Joined['chain'] =>
  parseCertificatesPem(folder.read('svid.pem'), maxChainLength);

/** What time may heal: the site is away, or has too much to do. */
const passing: ReadonlySet<ErrorCode> = new Set([
  'HANSA_UNREACHABLE',
  'HANSA_TIMEOUT',
  'HANSA_UNAVAILABLE',
  'HANSA_TOO_MANY_REQUESTS',
  'HANSA_INTERNAL',
]);
/** Whether the same attempt may succeed later. */
export function isPassing(error: unknown): boolean {
  return passing.has(toHansaError(error).code);
}

/** Renewals of members that joined together drift apart by this share of the half-life. */
const jitter = 0.1;
const retryMs = 15_000;
/** After the expiry nothing is urgent, and many members may wait for one site. */
const maxRetryMs = 300_000;

/** While the SVID is valid, retries are frequent. After its expiry, they back off with jitter. */
function retryDelayMs(failuresAfterExpiry: number, random: Pick<Random, 'unit'>): number {
  if (failuresAfterExpiry === 0) return retryMs;
  const mostMs = Math.min(maxRetryMs, retryMs * 2 ** Math.min(failuresAfterExpiry, 10));
  return Math.round(mostMs * (0.5 + random.unit() / 2));
}

/**
 * Renews whenever half of the SVID's life is over, and refreshes the bundle in between. It continues after
 * the expiry of the SVID, as long as the site accepts its key. Returns when it is interrupted; rejects
 * when a renewal is refused, or when that time is over.
 */
export async function keepFresh(
  parts: RenewalParts,
  renewed: (joined: Joined) => void,
  note: (text: string) => void,
): Promise<void> {
  const { io, folder } = parts;
  const { clock, random, interruption } = io;
  const signal = interruption();
  const startedMs = clock.now();
  let bundleAtMs = parts.hasCurrentBundle === true ? Number.POSITIVE_INFINITY : startedMs;
  let told = false;
  let failuresAfterExpiry = 0;
  let spread = random.unit();
  while (!signal.aborted) {
    const [leaf] = chainOf(folder);
    if (leaf === undefined) throw usageError(`${folder.path}/svid.pem contains no certificate.`);
    const lifeMs = leaf.notAfterMs - leaf.notBeforeMs;
    const halfLifeMs = Math.round(leaf.notBeforeMs + (lifeMs / 2) * (1 - jitter * spread));
    // Else half an hour would pass without a word.
    if (!told && halfLifeMs > startedMs) note(`The next renewal is at ${timestamp(halfLifeMs)}.`);
    told = true;
    const renews = halfLifeMs <= bundleAtMs;
    const delayMs = Math.min(halfLifeMs, bundleAtMs) - clock.now();
    await sleep(clock, Math.max(0, delayMs), signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      if (renews) {
        renewed(await renewOnce(parts));
        failuresAfterExpiry = 0;
        spread = random.unit();
      } else {
        const fresh = await refreshBundle(io, serverOf(parts));
        folder.keepBundle(fresh.bundle);
        bundleAtMs = clock.now() + fresh.againAfterMs;
      }
    } catch (caught) {
      if (signal.aborted) return;
      const error = toHansaError(caught);
      if (!renews) {
        // The bundle in the folder still works.
        note(`${error.message} Trying again in ${retryMs / 1000} s.`);
        bundleAtMs = clock.now() + retryMs;
        continue;
      }
      if (!isPassing(error)) throw error;
      if (isTooLate(folder, leaf.notAfterMs, clock.now(), error)) {
        throw tooLate(membershipOf(folder), leaf.notAfterMs, error);
      }
      parts.failed?.();
      if (clock.now() > leaf.notAfterMs) failuresAfterExpiry++;
      const againMs = retryDelayMs(failuresAfterExpiry, random);
      note(`${error.message} Trying again in ${Math.round(againMs / 1000)} s.`);
      await sleep(clock, againMs, signal).catch(() => undefined);
    }
  }
}

/** The site extends the time for members that it does not renew for now. It then answers HANSA_UNAVAILABLE. */
function isTooLate(
  folder: JoinFolder,
  notAfterMs: number,
  nowMs: number,
  { code }: HansaError,
): boolean {
  const { reattestSeconds = 0 } = membershipOf(folder);
  return nowMs > notAfterMs + reattestSeconds * 1000 && code !== 'HANSA_UNAVAILABLE';
}

function tooLate(
  { instance }: Membership,
  notAfterMs: number,
  { message }: HansaError,
): HansaError {
  const [role, name = ''] = instance.split('/');
  const next =
    role === 'agent'
      ? `Ask the operator to forget the agent (hansa agent forget ${name}), and join again.`
      : 'Join again.';
  return new HansaError(
    'HANSA_CERTIFICATE_INVALID',
    `Cannot renew: the SVID expired at ${timestamp(notAfterMs)}, and the time in which its key can renew it is over. ${next} ${message}`,
  );
}

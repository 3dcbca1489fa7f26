// Opens TCP connections to other sites: resolves the name (look-up-name.ts) and tries its addresses
// as RFC 8305 says. A new attempt starts after 250 ms or when one fails, and earlier attempts
// continue. node:net cancels them instead, so it never reaches a distant site with several addresses.

import { isIP, connect, type Socket } from 'node:net';
import type { Clock, Timer } from '../../clock/clock.ts';
import { lookUpName } from './look-up-name.ts';

export interface DialOptions {
  /** A name, or an address without brackets. */
  readonly host: string;
  readonly port: number;
  readonly clock: Clock;
  /** For the lookup and all attempts together. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Called with each address before anything is sent there. Throws to reject the call. */
  readonly checkAddress?: ((address: string) => void) | undefined;
}

export interface DialParts {
  readonly lookUp: (host: string, clock: Clock) => Promise<readonly string[]>;
  /** Begins to connect, and emits `connect` or `error`. */
  readonly open: (address: string, port: number) => Socket;
}

/** RFC 8305 section 8: Connection Attempt Delay. */
const attemptDelayMs = 250;
/** Most addresses to try. More would not fit into the timeouts of callers. */
const mostAddresses = 16;

const systemParts: DialParts = {
  lookUp: lookUpName,
  open: (host, port) => connect({ host, port, autoSelectFamily: false }),
};

/**
 * Resolves with a connected socket. Rejects with the error of node:net or node:dns that says most,
 * after `timeoutMs` with an error that `isLate` recognizes, with the error of `checkAddress`, or with
 * the reason of the signal. No attempt outlives the call.
 */
export async function dial(
  options: DialOptions,
  { lookUp, open }: DialParts = systemParts,
): Promise<Socket> {
  const { host, port, clock, timeoutMs, signal, checkAddress } = options;
  signal?.throwIfAborted();
  const over = new AbortController();
  const onAbort = (): void => over.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const timer = clock.timer(timeoutMs, () => over.abort(new LateError(timeoutMs)));
  try {
    const addresses =
      isIP(host) === 0 ? await unlessOver(lookUp(host, clock), over.signal) : [host];
    const tried = addresses.slice(0, mostAddresses);
    for (const address of tried) checkAddress?.(address);
    return await firstToConnect(tried, (address) => open(address, port), clock, over.signal);
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Whether a call of `dial` timed out. */
export function isLate(caught: unknown): boolean {
  return caught instanceof LateError;
}

class LateError extends Error {
  constructor(timeoutMs: number) {
    super(`it did not answer within ${timeoutMs} ms`);
  }
}

function unlessOver<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function firstToConnect(
  addresses: readonly string[],
  open: (address: string) => Socket,
  clock: Clock,
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const waiting = new Set<Socket>();
    const errors: NodeJS.ErrnoException[] = [];
    let next = 0;
    let timer: Timer | undefined;
    const finish = (settle: () => void): void => {
      timer?.cancel();
      signal.removeEventListener('abort', onAbort);
      for (const socket of waiting) socket.destroy();
      waiting.clear();
      settle();
    };
    const onAbort = (): void => finish(() => reject(signal.reason));
    const attempt = (): void => {
      timer?.cancel();
      const address = addresses[next++] as string;
      const socket = open(address);
      waiting.add(socket);
      // Stays attached, to ignore errors of a socket that lost the race.
      socket.on('error', (error: Error) => {
        if (!waiting.delete(socket)) return;
        errors.push(error);
        if (next < addresses.length) attempt();
        else if (waiting.size === 0) finish(() => reject(mostTelling(errors)));
      });
      socket.once('connect', () => {
        if (waiting.delete(socket)) finish(() => resolve(socket));
      });
      if (next < addresses.length) timer = clock.timer(attemptDelayMs, attempt);
    };
    if (signal.aborted) reject(signal.reason);
    else {
      signal.addEventListener('abort', onAbort, { once: true });
      attempt();
    }
  });
}

/** A machine without IPv6 cannot reach any IPv6 address, which says nothing about the site. */
const noWay = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT']);

function mostTelling(errors: readonly NodeJS.ErrnoException[]): Error {
  return (errors.find(({ code }) => !noWay.has(code ?? '')) ?? errors[0]) as Error;
}

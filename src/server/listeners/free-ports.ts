// Whether the site can listen on its configured addresses, which it asks before it creates a data folder.

import { createServer } from 'node:net';
import { formatListenAddress, type ListenAddress } from '../../core/config/config-values.ts';
import { HansaError } from '../../core/errors/error.ts';

export const listenerNames = ['api', 'federation', 'web', 'metrics'] as const;
export type ListenerName = (typeof listenerNames)[number];
export type ListenAddresses = Readonly<Record<ListenerName, ListenAddress | 'off'>>;

/** Throws HANSA_CONFIG_INVALID with the flag of the first listener that cannot listen. */
export async function requireFreePorts(addresses: ListenAddresses): Promise<void> {
  for (const name of listenerNames) {
    const address = addresses[name];
    const cause = address === 'off' ? undefined : await whyNotFree(address);
    if (address === 'off' || cause === undefined) continue;
    const place = `${formatListenAddress(address)} (--${name})`;
    throw cannotListen(place, cause, `--${name}`);
  }
}

/** Undefined where the address is free, and for port 0: the system then chooses a free one. */
export function whyNotFree({
  host,
  port,
}: ListenAddress): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.on('error', resolve);
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(undefined)));
  });
}

export function cannotListen(
  place: string,
  cause: NodeJS.ErrnoException,
  flags = '--api, --federation, --web or --metrics',
): HansaError {
  const why =
    cause.code === 'EADDRINUSE'
      ? `another program listens there. Stop it, or choose another address with ${flags}`
      : cause.code === 'EACCES'
        ? 'the system does not allow it. Choose a port above 1023, or run with the right to bind it'
        : cause.code === 'EADDRNOTAVAIL'
          ? 'this machine has no such address'
          : cause.message;
  return new HansaError('HANSA_CONFIG_INVALID', `Cannot listen on ${place}: ${why}.`, { cause });
}

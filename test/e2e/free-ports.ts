// Finds free ports for programs that cannot choose one, or that must restart on the same one. The ports
// are outside the kernel's ephemeral range, so no connection of another test can take them.

import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const lowest = 10_000;
/** What was asked for twice may be used at once. */
const given = new Set<number>();

export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(lowest, firstEphemeral());
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
}

function firstEphemeral(): number {
  const [first = 0] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8')
    .split(/\s+/)
    .map(Number);
  // A machine may be set up to give all of them.
  return first > lowest + 1_000 ? first : 32_768;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

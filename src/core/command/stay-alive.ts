// Keeps the process of a command alive while it waits.

import { MessageChannel } from 'node:worker_threads';

/** The timers of the clock do not keep the process alive between two requests. This port does. */
export async function stayAlive<T>(work: () => Promise<T>): Promise<T> {
  const { port1: anchor } = new MessageChannel();
  anchor.on('message', () => undefined);
  try {
    return await work();
  } finally {
    anchor.close();
  }
}

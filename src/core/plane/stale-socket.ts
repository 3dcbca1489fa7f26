// Removes a stale Unix socket, which a killed daemon left, before a site or plane listens on its
// path.

import { lstatSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { HansaError } from '../errors/error.ts';

/** Removes the socket file if no process answers on it. */
export function removeStaleSocket(path: string): Promise<void> {
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there === undefined) return Promise.resolve();
  if (!there.isSocket()) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot listen on ${path}: a file that is not a socket exists there. Move it, or use another --data-dir.`,
    );
  }
  return new Promise((resolve, reject) => {
    const probe = createConnection(path);
    probe.once('connect', () => {
      probe.destroy();
      reject(
        new HansaError(
          'HANSA_STORE_LOCKED',
          `Cannot listen on ${path}: another daemon answers there. Stop it, or use another --data-dir.`,
        ),
      );
    });
    probe.once('error', () => {
      rmSync(path, { force: true });
      resolve();
    });
  });
}

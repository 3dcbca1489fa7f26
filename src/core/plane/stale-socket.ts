// Before a site or a plane listens on a Unix socket: the file of a daemon that was killed is in the way.

import { lstatSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { HansaError } from '../errors/error.ts';

/** A socket file that nobody answers on was left by a daemon that was killed. */
export function removeStaleSocket(path: string): Promise<void> {
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there === undefined) return Promise.resolve();
  if (!there.isSocket()) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot listen on ${path}: something lies there that is no socket. Move it away, or use another --data-dir.`,
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

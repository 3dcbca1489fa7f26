// A real etcd on loopback. Several API servers can share one, each with a prefix of its own.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../e2e/free-ports.ts';
import { assertRunning, endProgram, startProgram } from './program.ts';

export interface Etcd {
  readonly url: string;
  readonly pid: number;
  /** Throws if it has ended. */
  check(): void;
  /**
   * Kills it, lets `change` work on its data folder, and starts it again at the same address. Resolves before
   * it is ready.
   */
  restart(change?: (dataDir: string) => Promise<void>): Promise<void>;
  /** Ends it and removes its folder; with `keepLogs` says where the logs are. */
  stop(options?: { readonly keepLogs?: boolean }): Promise<void>;
}

/** Resolves before it is ready: API servers wait for it. */
export async function startEtcd(): Promise<Etcd> {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-etcd-'));
  const url = `http://127.0.0.1:${await freePort()}`;
  const peerUrl = `http://127.0.0.1:${await freePort()}`;
  const dataDir = join(folder, 'etcd');
  const flags = [
    '--name=oracle',
    `--data-dir=${dataDir}`,
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=oracle=${peerUrl}`,
    '--log-level=warn',
  ];
  let etcd = await startProgram(folder, 'etcd', flags);
  return {
    url,
    get pid() {
      return etcd.pid ?? 0;
    },
    check: () => assertRunning([etcd]),
    restart: async (change) => {
      await endProgram(etcd);
      await change?.(dataDir);
      etcd = await startProgram(folder, 'etcd', flags);
    },
    stop: async ({ keepLogs = false } = {}) => {
      await endProgram(etcd);
      if (keepLogs) console.error(`the log of etcd is kept in ${folder}`);
      else await rm(folder, { recursive: true, force: true });
    },
  };
}

// Keeps the SVIDs of workloads with their keys on disk, sealed, so that an agent can serve them after a
// restart while the site is down. Used only where the sealing key is outside the data folder: a copy of
// the folder then contains no key of a workload.

import { realpathSync, rmSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import type { Clock, Random, Timer } from '../../core/clock/clock.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import { loadOrCreateKey } from '../../core/store/sealing/key-file.ts';
import { createSealer, type SealedPlace, type Sealer } from '../../core/store/sealing/sealer.ts';
import { readDataFile, replaceSecretFile } from '../../core/plane/data-files.ts';
import { sealedIn } from './agent-folder.ts';
import type { KeptSvid, SvidVault } from './agent-workloads.ts';

const place: SealedPlace = {
  collection: 'agent.secrets',
  key: 'svids',
  column: 'svids',
  version: 1,
};
const pauseMs = 1_000;
/** 10,000 entries with certificates and keys take about 20 MB. */
const maxFileBytes = 64 * 1024 * 1024;

/** Throws HANSA_CONFIG_INVALID where the key file is in the data folder, or cannot be used. */
export async function sealerOf(keyFile: string, dataDir: string, random: Random): Promise<Sealer> {
  const folder = realpathSync(dataDir);
  const path = realFile(keyFile);
  if (path === folder || path.startsWith(folder + sep)) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot use ${keyFile} as --key-file: it is in the data folder, so a copy of the folder would contain the key. Choose a path outside of ${dataDir}.`,
    );
  }
  return createSealer(await loadOrCreateKey(keyFile, random, sealedIn(dataDir)), random);
}

/** The file may not exist yet. */
function realFile(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    try {
      return resolve(realpathSync(dirname(path)), path.slice(path.lastIndexOf(sep) + 1));
    } catch {
      return resolve(path);
    }
  }
}

export class SealedSvids implements SvidVault {
  readonly #parts: {
    readonly file: string;
    readonly sealer: Sealer;
    readonly clock: Clock;
    readonly log: Log;
  };
  #waiting: (() => readonly KeptSvid[]) | undefined;
  #timer: Timer | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: {
    readonly file: string;
    readonly sealer: Sealer;
    readonly clock: Clock;
    readonly log: Log;
  }) {
    this.#parts = parts;
  }

  async load(): Promise<readonly KeptSvid[]> {
    const { file, sealer, log } = this.#parts;
    try {
      const stored = readDataFile(file, maxFileBytes);
      if (stored === undefined) return [];
      const opened = await sealer.open(place, stored);
      const read = (JSON.parse(opened.toString('utf8')) as StoredSvid[]).map(fromStored);
      opened.fill(0);
      return read;
    } catch (error) {
      log.error('cannot use the kept SVIDs; the agent asks the site for new ones', {
        file,
        why: error instanceof HansaError ? error.message : fileProblem(error),
      });
      return [];
    }
  }

  save(held: () => readonly KeptSvid[]): void {
    this.#waiting = held;
    this.#timer ??= this.#parts.clock.timer(pauseMs, () => this.#write());
  }

  /** Removes what is kept. */
  async drop(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#waiting = undefined;
    await this.#writing;
    rmSync(this.#parts.file, { force: true });
  }

  /** Writes what waits. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    if (this.#waiting !== undefined) this.#write();
    await this.#writing;
  }

  #write(): void {
    this.#timer = undefined;
    const held = this.#waiting;
    if (held === undefined) return;
    this.#waiting = undefined;
    this.#writing = this.#replace(this.#writing, held);
  }

  async #replace(before: Promise<void>, held: () => readonly KeptSvid[]): Promise<void> {
    await before;
    const { file, sealer, log } = this.#parts;
    try {
      const plain = Buffer.from(JSON.stringify(held().map(toStored)));
      const sealed = await sealer.seal(place, plain);
      plain.fill(0);
      await replaceSecretFile(file, sealed);
    } catch (error) {
      log.error('cannot keep the SVIDs of workloads', { file, why: fileProblem(error) });
    }
  }
}

interface StoredSvid extends Omit<KeptSvid, 'chain' | 'key'> {
  readonly chain: readonly string[];
  readonly key: string;
}

function toStored({ chain, key, ...rest }: KeptSvid): StoredSvid {
  return {
    ...rest,
    chain: chain.map((der) => der.toString('base64')),
    key: key.toString('base64'),
  };
}

function fromStored({ chain, key, ...rest }: StoredSvid): KeptSvid {
  return {
    ...rest,
    chain: chain.map((der) => Buffer.from(der, 'base64')),
    key: Buffer.from(key, 'base64'),
  };
}

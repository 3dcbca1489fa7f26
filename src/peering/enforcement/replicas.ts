// Which replicas of this site run. Each registers under an id of its data folder, so that a process that
// starts again after a crash replaces its own record. A replica that runs alone writes nothing more; with
// others, it renews its record, and deletes those of others that were not renewed for a long time.

import { hash } from 'node:crypto';
import type { Clock, Timer } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { Log } from '../../core/log/log.ts';
import { type RunningSource, StoreSource } from '../../core/reconcile/source.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Store } from '../../core/store/store.ts';

export const replicasCollection = 'peering.replicas';

export interface Replica {
  readonly id: string;
  /** Unique among the replicas, for people. */
  readonly name: string;
}

interface ReplicaRecord {
  readonly host: string;
  /** Grows with each renewal. */
  readonly beat: number;
}

export interface ReplicasParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'>;
  readonly host: string;
  readonly dataDir: string;
}

const renewEveryMs = 20_000;
/** Long, because a replica that does not answer may still admit a peer. */
export const goneAfterMs = 600_000;
/** Of the id in the name of a replica, where several run on one host. */
const idInName = 4;
const collection = replicasCollection;
const reader = recordReader<ReplicaRecord>(collection);

export class Replicas {
  readonly id: string;
  readonly #parts: ReplicasParts;
  readonly #listeners = new Set<() => void>();
  /** When this process saw another version of the record, in monotonic time. */
  readonly #seen = new Map<string, { readonly revision: number; readonly atMs: number }>();
  #source: RunningSource | undefined;
  #timer: Timer | undefined;
  #isStopped = false;

  constructor(parts: ReplicasParts) {
    this.#parts = parts;
    const place = JSON.stringify([parts.host, parts.dataDir]);
    this.id = hash('sha256', place, 'hex').slice(0, 16);
  }

  /** Resolves when this replica is registered. */
  async start(): Promise<void> {
    const { store, clock, host } = this.#parts;
    const known = reader.get(store, this.id);
    if (known?.host !== host) await this.#put(1);
    this.#source = new StoreSource({ store, clock, collection }).start({
      add: () => this.#changed(),
      // The store is closed.
      ended: () => undefined,
    });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    this.#source?.stop();
    if (this.#others().length === 0) return;
    const { store, log } = this.#parts;
    await commitFenced(store, { delete: [{ collection, name: this.id }] }).catch((error: unknown) =>
      log.warn('cannot remove the record of this replica', { error }),
    );
  }

  /** This one and all others, in order of ids. */
  get all(): readonly Replica[] {
    const { store, host } = this.#parts;
    const hosts = new Map([[this.id, host]]);
    for (const entry of store.list(collection).entries) {
      hosts.set(entry.name, reader.of(entry).host);
    }
    const inOrder = [...hosts].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return inOrder.map(([id, name]) => {
      const isOnly = inOrder.every(([other, its]) => other === id || its !== name);
      return { id, name: isOnly ? name : `${name}-${id.slice(0, idInName)}` };
    });
  }

  /** Calls `listener` when a replica comes or goes. Returns how to stop. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #others(): readonly string[] {
    const { entries } = this.#parts.store.list(collection);
    return entries.map(({ name }) => name).filter((name) => name !== this.id);
  }

  #changed(): void {
    if (this.#isStopped) return;
    if (this.#others().length > 0) this.#arm();
    for (const listener of this.#listeners) listener();
  }

  #arm(): void {
    this.#timer ??= this.#parts.clock.timer(renewEveryMs, () => {
      this.#timer = undefined;
      void this.#renew();
    });
  }

  /** Never rejects. */
  async #renew(): Promise<void> {
    const { store, log } = this.#parts;
    if (this.#isStopped || this.#others().length === 0) return;
    this.#arm();
    try {
      await this.#put((reader.get(store, this.id)?.beat ?? 0) + 1);
      await this.#removeGone();
    } catch (error) {
      log.warn('cannot renew the record of this replica', { error });
    }
  }

  async #put(beat: number): Promise<void> {
    const { store, host } = this.#parts;
    const bytes = Buffer.from(JSON.stringify({ host, beat } satisfies ReplicaRecord));
    await commitFenced(store, { put: [{ collection, name: this.id, encode: () => bytes }] });
  }

  async #removeGone(): Promise<void> {
    const { store, clock } = this.#parts;
    const nowMs = clock.monotonic();
    for (const name of this.#others()) {
      const revision = store.get(collection, name)?.revision;
      if (revision === undefined) continue;
      const seen = this.#seen.get(name);
      if (seen?.revision !== revision) {
        this.#seen.set(name, { revision, atMs: nowMs });
      } else if (nowMs - seen.atMs >= goneAfterMs) {
        this.#seen.delete(name);
        await commitFenced(store, {
          expect: [{ collection, name, at: revision }],
          delete: [{ collection, name }],
        }).catch((error: unknown) => {
          // It renewed its record meanwhile.
          if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
        });
      }
    }
  }
}

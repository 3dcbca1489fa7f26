// Keeps the record of this replica fresh while it serves agents: one commit every 20 seconds, however
// many agents there are. The record is how other replicas know that the streams of this one live.

import type { Clock, Timer } from '../../core/clock/clock.ts';
import { commitUnfenced } from '../../core/lease/current-fence.ts';
import type { Log } from '../../core/log/log.ts';
import type { Store } from '../../core/store/store.ts';
import { replicasCollection, type ReplicaRecord, replicasReader } from './agent-session-records.ts';

export interface ReplicaPulseParts {
  readonly store: Pick<Store, 'list' | 'commit'>;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'>;
  /** The id of this process. */
  readonly replica: string;
}

/** A third of the time after which a replica counts as dead, so that two writes may fail. */
const everyMs = 20_000;
/** The record of a replica that died is deleted after this time. */
const deleteAfterMs = 600_000;
/** Fewer than a commit takes. The next write continues. */
const deletedAtOnce = 100;

export class ReplicaPulse {
  readonly #parts: ReplicaPulseParts;
  readonly #isNeeded: () => boolean;
  #timer: Timer | undefined;
  #isStopped = false;

  /** `isNeeded` is asked before each write. After false, the pulse pauses until `start`. */
  constructor(parts: ReplicaPulseParts, isNeeded: () => boolean) {
    this.#parts = parts;
    this.#isNeeded = isNeeded;
  }

  /** The first write is 20 seconds later: a new session counts as live for longer. */
  start(): void {
    if (this.#isStopped) return;
    this.#timer ??= this.#parts.clock.timer(everyMs, () => {
      this.#timer = undefined;
      void this.#beat();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  async #beat(): Promise<void> {
    if (!this.#isNeeded()) return;
    this.start();
    const { store, clock, log, replica } = this.#parts;
    const nowMs = clock.now();
    const record: ReplicaRecord = { aliveAtMs: nowMs };
    const bytes = Buffer.from(JSON.stringify(record));
    try {
      await commitUnfenced(store, {
        put: [{ collection: replicasCollection, name: replica, encode: () => bytes }],
        delete: this.#dead(nowMs).map((name) => ({ collection: replicasCollection, name })),
      });
    } catch (error) {
      log.warn('cannot record that this replica serves agents', { error });
    }
  }

  #dead(nowMs: number): readonly string[] {
    return this.#parts.store
      .list(replicasCollection)
      .entries.filter(
        (entry) =>
          entry.name !== this.#parts.replica &&
          Math.abs(nowMs - replicasReader.of(entry).aliveAtMs) >= deleteAfterMs,
      )
      .slice(0, deletedAtOnce)
      .map(({ name }) => name);
  }
}

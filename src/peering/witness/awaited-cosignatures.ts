// How long peers have not cosigned new events of this site's log. In monotonic time of this process, so that
// neither the clock of a witness nor a changed clock of this site hides or creates a wait. Events that no peer
// has cosigned could be removed without a trace.

import type { PublicLog } from '../../core/audit/public-log.ts';
import type { Clock } from '../../core/clock/clock.ts';

interface Wait {
  /** Events that the peer had cosigned at the last look. */
  readonly cosigned: number;
  /** Since when events wait, and the peer has cosigned no others. Undefined if it has cosigned all. */
  readonly sinceMs: number | undefined;
}

export class AwaitedCosignatures {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #log: Pick<PublicLog, 'size' | 'cosignedBy'>;
  readonly #waits = new Map<string, Wait>();

  constructor(clock: Pick<Clock, 'monotonic'>, log: Pick<PublicLog, 'size' | 'cosignedBy'>) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Called with each message for a peer that witnesses logs, and with each of its cosignatures. */
  look(name: string): void {
    this.#waits.set(name, this.#next(name, this.#waits.get(name)));
  }

  forget(name: string): void {
    this.#waits.delete(name);
  }

  /** 0 if the peer has cosigned all events. Undefined if it is no witness. */
  waitsMs(name: string): number | undefined {
    if (!this.#waits.has(name)) return undefined;
    this.look(name);
    const { sinceMs } = this.#waits.get(name) as Wait;
    return sinceMs === undefined ? 0 : this.#clock.monotonic() - sinceMs;
  }

  /** The shortest wait. Undefined without witnesses. */
  leastMs(): number | undefined {
    const waits = [...this.#waits.keys()].map((name) => this.waitsMs(name) as number);
    return waits.length === 0 ? undefined : Math.min(...waits);
  }

  #next(name: string, before: Wait | undefined): Wait {
    const cosigned = this.#log.cosignedBy(name);
    if (cosigned >= this.#log.size) return { cosigned, sinceMs: undefined };
    const goesOn = before?.sinceMs !== undefined && cosigned <= before.cosigned;
    return { cosigned, sinceMs: goesOn ? before.sinceMs : this.#clock.monotonic() };
  }
}

// One pacer for all parts of the controller of a member. With one for each part, a cluster whose Services, exports and
// policies change all the time would get the rate and its share of the runs several times.

import type { Clock } from '../../core/clock/clock.ts';
import { parallelism } from '../controllers/member-controller.ts';
import { OriginPacer, type PacedRun } from './origin-pacer.ts';

/** What one part uses in one term. */
export interface PartPacer {
  /** At the begin of each run. `end` of the result must be called. */
  begin(key: string): PacedRun;
  /** At the end of the term. */
  stop(): void;
}

/** The parts of one term, and what they share. */
interface Term {
  readonly pacer: OriginPacer;
  /** How a key of a part is added to the queue, by the number of the part. */
  readonly parts: Map<string, (key: string) => void>;
}

/** Behind the number of a part. */
const separator = ' ';

/** A term begins with the first part that joins, and ends when the last one stops. */
export class MemberPacer {
  readonly #clock: Clock;
  #term: Term | undefined;
  #joined = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `add` adds a key of this part to the queue. */
  join(add: (key: string) => void): PartPacer {
    const term = (this.#term ??= this.#begin());
    const { pacer, parts } = term;
    const part = String(++this.#joined);
    parts.set(part, add);
    return {
      begin: (key) => pacer.begin(`${part}${separator}${key}`),
      stop: () => {
        parts.delete(part);
        if (parts.size > 0) return;
        pacer.stop();
        if (this.#term === term) this.#term = undefined;
      },
    };
  }

  #begin(): Term {
    const parts: Term['parts'] = new Map();
    const add = (key: string): void => {
      const end = key.indexOf(separator);
      parts.get(key.slice(0, end))?.(key.slice(end + separator.length));
    };
    return { pacer: new OriginPacer({ clock: this.#clock, parallelism, add }), parts };
  }
}

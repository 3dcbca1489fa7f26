// Limits the audit records of JWT-SVIDs. A workload chooses its audiences, and must not be able to fill
// the audit log with them.

/** Audit records per entry and minute, each with the audience of a token. A later record counts the rest. */
const recordsPerMinute = 60;
const minuteMs = 60_000;
/** Entries that are remembered. The one whose minute began longest ago makes room. */
const maxEntries = 4096;

interface Minute {
  readonly sinceMs: number;
  count: number;
  unrecorded: number;
}

export class JwtRecordLimit {
  readonly #minutes = new Map<string, Minute>();

  /**
   * Whether a token of this entry gets a record: the number of tokens that had none since the last
   * record; or undefined, and the token counts as one of them.
   */
  take(entryUid: string, nowMs: number): number | undefined {
    let minute = this.#minutes.get(entryUid);
    if (minute === undefined || Math.abs(nowMs - minute.sinceMs) >= minuteMs) {
      minute = { sinceMs: nowMs, count: 0, unrecorded: minute?.unrecorded ?? 0 };
      this.#minutes.delete(entryUid);
      this.#minutes.set(entryUid, minute);
      if (this.#minutes.size > maxEntries) {
        this.#minutes.delete(this.#minutes.keys().next().value as string);
      }
    }
    if (minute.count >= recordsPerMinute) {
      minute.unrecorded += 1;
      return undefined;
    }
    minute.count += 1;
    const { unrecorded } = minute;
    minute.unrecorded = 0;
    return unrecorded;
  }
}

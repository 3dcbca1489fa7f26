// Reads /etc/passwd and /etc/group, again after each change. It never asks a directory service, because
// a network request for each connection could block forever.

import { readFileSync, statSync } from 'node:fs';
import type { Clock } from '../../core/clock/clock.ts';
import { accountNames, maxAccountFileBytes } from '../workload/entries/account-names.ts';

/** The maximum delay until a change is noticed. */
const lookEveryMs = 1000;
const none: ReadonlyMap<number, string> = new Map();

export class AccountFile {
  readonly #path: string;
  readonly #clock: Pick<Clock, 'monotonic'>;
  #names = none;
  #version = '';
  #lookedAtMs = -Infinity;

  constructor(path: string, clock: Pick<Clock, 'monotonic'>) {
    this.#path = path;
    this.#clock = clock;
  }

  /** Undefined if the file has no name for the number. */
  nameOf(number: number): string | undefined {
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#lookedAtMs >= lookEveryMs) {
      this.#lookedAtMs = nowMs;
      this.#look();
    }
    return this.#names.get(number);
  }

  #look(): void {
    try {
      const { dev, ino, size, mtimeNs } = statSync(this.#path, { bigint: true });
      const version = `${dev}:${ino}:${size}:${mtimeNs}`;
      if (version === this.#version) return;
      this.#names =
        size > BigInt(maxAccountFileBytes) ? none : accountNames(readFileSync(this.#path, 'utf8'));
      this.#version = version;
    } catch {
      this.#names = none;
      this.#version = '';
    }
  }
}

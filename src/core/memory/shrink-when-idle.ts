// Returns memory to the system when a process becomes idle. V8 keeps its young generation and free
// pages after the start, or after load, for as long as the process allocates little: 20 MB of an idle
// site. Pages of program files take another 35 MB (release-program-pages.ts). A collection that reduces memory stops the process: for 50 ms with a heap of 30 MiB, for
// 115 ms with 56 MiB. So it runs only after a minute without load, on a small heap, and not again
// within an hour: a caller that alternates load and silence cannot cause one pause after another.

import type { Clock, Timer } from '../clock/clock.ts';
import { releaseProgramPages } from './release-program-pages.ts';

const everyMs = 10_000;

/** A period is quiet with less CPU time than this share of it. An idle site uses less than 1 %. */
const busyShare = 0.02;

/** So many quiet periods in a row make a process idle. */
const quietPeriods = 6;

const notAgainWithinMs = 3_600_000;

/**
 * The pause grows with the objects in use: above this, 20 MB are not worth it. An empty site uses 32 MiB, and its heap
 * also holds up to 18 MiB of garbage of the start, which V8 has not collected yet.
 */
const maxHeapBytes = 56 * 1024 ** 2;

export interface Process {
  /** Milliseconds of CPU time since the start. */
  cpuMs(): number;
  heapBytes(): number;
  /** Collects everything, and returns free pages to the system. */
  collect(): void;
  /** Returns the pages of program files. Takes a few milliseconds, whatever the heap holds. */
  releaseProgram(): void;
}

/** Without a process, does nothing: Node runs without --expose-gc, which the launcher sets. */
export function shrinkWhenIdle(
  clock: Pick<Clock, 'timer' | 'monotonic'>,
  process: Process | undefined = thisProcess(),
): { stop(): void } {
  if (process === undefined) return { stop: () => undefined };
  let timer: Timer;
  let usedMs = process.cpuMs();
  // The start counts as load.
  let isDue = true;
  let quiet = 0;
  let collectedAtMs: number | undefined;
  const look = (): void => {
    timer = clock.timer(everyMs, look);
    const sinceMs = process.cpuMs() - usedMs;
    const isBusy = sinceMs >= busyShare * everyMs;
    quiet = isBusy ? 0 : quiet + 1;
    isDue ||= isBusy;
    const isEarly =
      collectedAtMs !== undefined && clock.monotonic() - collectedAtMs < notAgainWithinMs;
    if (isDue && quiet >= quietPeriods && !isEarly) {
      if (process.heapBytes() <= maxHeapBytes) process.collect();
      process.releaseProgram();
      isDue = false;
      collectedAtMs = clock.monotonic();
    }
    // Read after the collection, whose own CPU time does not count as load.
    usedMs = process.cpuMs();
  };
  timer = clock.timer(everyMs, look);
  return { stop: () => timer.cancel() };
}

function thisProcess(): Process | undefined {
  const { gc, process } = globalThis;
  if (gc === undefined) return undefined;
  return {
    cpuMs: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
    heapBytes: () => process.memoryUsage().heapUsed,
    collect: () => gc({ type: 'major', flavor: 'last-resort', execution: 'sync' }),
    // Without koffi, the pages stay.
    releaseProgram: () => void releaseProgramPages().catch(() => undefined),
  };
}

// Returns memory to the system when a process becomes idle. V8 keeps its young generation and free
// pages after start or load while the process allocates little: 20 MB for an idle site. A collection
// that frees this memory stops the process for about 100 ms, so it runs once per idle phase, and only
// on a small heap.

import type { Clock, Timer } from '../clock/clock.ts';

const everyMs = 10_000;

/** A process is idle when it has used less CPU time than this share of the last period. An idle site uses less than 1 %. */
const busyShare = 0.1;

/** Largest heap to collect: the time of a collection grows with it. */
const maxHeapBytes = 64 * 1024 ** 2;

export interface Process {
  /** Milliseconds of CPU time since the start. */
  cpuMs(): number;
  heapBytes(): number;
  /** Collects everything, and returns free pages to the system. */
  collect(): void;
}

/** Without a process, does nothing: Node runs without --expose-gc, which the launcher sets. */
export function shrinkWhenIdle(
  clock: Pick<Clock, 'timer'>,
  process: Process | undefined = thisProcess(),
): { stop(): void } {
  if (process === undefined) return { stop: () => undefined };
  let timer: Timer;
  let usedMs = process.cpuMs();
  // The start counts as load.
  let wasBusy = true;
  const look = (): void => {
    timer = clock.timer(everyMs, look);
    const sinceMs = process.cpuMs() - usedMs;
    const isBusy = sinceMs >= busyShare * everyMs;
    if (!isBusy && wasBusy && process.heapBytes() <= maxHeapBytes) process.collect();
    wasBusy = isBusy;
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
  };
}

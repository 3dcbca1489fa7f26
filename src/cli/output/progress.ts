// A progress bar for long operations, on standard error if that is a terminal.

import type { Io } from '../../core/plane/command-kit.ts';

export interface Progress {
  readonly update: (done: number, total: number) => void;
  /** Erases the bar. */
  readonly end: () => void;
}

const barWidth = 30;
/** Operations shorter than `quietMs` show no bar. The bar is drawn at most ten times per second. */
const quietMs = 500;
const intervalMs = 100;

export function createProgress(io: Io, what: string): Progress {
  if (io.stderr.isTTY !== true) return { update: () => undefined, end: () => undefined };
  let nextMs = io.clock.monotonic() + quietMs;
  let shown = false;
  return {
    update: (done, total) => {
      const nowMs = io.clock.monotonic();
      if (nowMs < nextMs) return;
      nextMs = nowMs + intervalMs;
      shown = true;
      io.stderr.write(`\r${progressLine(what, done, total)}`);
    },
    end: () => {
      if (shown) io.stderr.write('\r\u001b[K');
    },
  };
}

export function progressLine(what: string, done: number, total: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const full = Math.round(share * barWidth);
  const bar = '█'.repeat(full) + '░'.repeat(barWidth - full);
  const counts = `${done.toLocaleString('en')} of ${total.toLocaleString('en')}`;
  return `${what} ${bar} ${Math.floor(share * 100)} %  ${counts}`;
}

// Runs parts of `make bench`: one works at a time, and those that measure idle processes do so side by side.

import { SharedAnchors } from './anchors.ts';
import type { Figure } from './figure.ts';
import { PartRun } from './part-run.ts';
import { type Part, phases, plannedQuiet } from './parts.ts';
import { missedPromises } from './report.ts';
import type { Size } from './size.ts';

export interface Scheduled {
  /** With their programs. */
  readonly folder: string;
  readonly size: Size;
  /** Takes each figure as a line of JSON, when it is measured. */
  readonly print: (line: string) => void;
  readonly note: (text: string) => void;
}

/** What a part gave. */
export interface Outcome {
  readonly part: Part;
  readonly figures: readonly Figure[];
  readonly failure: string | undefined;
}

const sizeVariables: Readonly<Record<Size, Readonly<Record<string, string>>>> = {
  long: { BENCH_LONG: '1' },
  quick: {},
  small: { BENCH_SMALL: '1' },
};

/** Where one part fails, the others are worth having all the same. In the order of `wanted`. */
export async function runParts(
  wanted: readonly Part[],
  { folder, size, print, note }: Scheduled,
): Promise<readonly Outcome[]> {
  const anchors = new SharedAnchors();
  const { idling, others } = phases(wanted);
  const left = new Set(wanted);
  const ended = new Map<Part, PartRun>();
  const start = async (part: Part): Promise<PartRun> =>
    new PartRun(
      folder,
      part.name,
      { ...sizeVariables[size], ...(await anchors.environmentOf(part)) },
      print,
    );
  const work = (run: PartRun) => whileNoting(note, run.name, () => run.work());
  /** Alone from now on, whatever it wishes for. */
  const finish = async (part: Part, run: PartRun): Promise<void> => {
    while ((await work(run)) !== 'end') run.fulfil();
    ended.set(part, run);
    left.delete(part);
    await anchors.keepFor(left);
    note(summary(part, run, size));
  };
  try {
    const ready: (readonly [Part, PartRun])[] = [];
    for (const part of idling) {
      const run = await start(part);
      if ((await work(run)) === 'quiet') ready.push([part, run]);
      else await finish(part, run);
    }
    if (ready.length > 0) {
      const begunMs = performance.now();
      await whileNoting(note, 'idle processes of all parts', () =>
        Promise.all(ready.map(([, run]) => run.measureQuietly())),
      );
      const planned =
        size === 'small' ? '' : `${Math.round(plannedQuiet(idling, size))} s planned, `;
      note(`idle processes of ${ready.length} parts  (${planned}${secondsSince(begunMs)} used)`);
    }
    for (const [part, run] of ready.toReversed()) {
      run.fulfil();
      await finish(part, run);
    }
    for (const part of others) await finish(part, await start(part));
  } finally {
    await anchors.stop();
  }
  return wanted.map((part) => {
    const run = ended.get(part);
    return { part, figures: run?.figures ?? [], failure: run?.failure };
  });
}

/** The parts whose quick figures miss a promise are measured again in their long form, which decides. */
export async function confirmMisses(
  outcomes: readonly Outcome[],
  scheduled: Scheduled,
): Promise<readonly Outcome[]> {
  const missing = outcomes.filter(({ figures }) => missedPromises(figures).length > 0);
  if (scheduled.size !== 'quick' || missing.length === 0) return outcomes;
  for (const { part, figures } of missing) {
    const names = missedPromises(figures).map(({ bench }) => bench);
    scheduled.note(`${part.name} once more in its long form, because of: ${names.join('; ')}`);
  }
  const again = await runParts(
    missing.map(({ part }) => part),
    { ...scheduled, size: 'long' },
  );
  return outcomes.map((outcome) => again.find(({ part }) => part === outcome.part) ?? outcome);
}

function summary({ works }: Part, run: PartRun, size: Size): string {
  const planned = size === 'small' ? '' : `${works[size]} s planned, `;
  const used = `${(run.busyMs / 1000).toFixed(0)} s used`;
  const verdict = run.failure === undefined ? '✓' : `✗ ${run.failure}`;
  return `${run.name} ${verdict}  (${planned}${used})`;
}

const secondsSince = (begunMs: number): string =>
  `${((performance.now() - begunMs) / 1000).toFixed(0)} s`;

async function whileNoting<T>(
  note: (text: string) => void,
  name: string,
  work: () => Promise<T>,
): Promise<T> {
  const begunMs = performance.now();
  const progress = setInterval(() => note(`${name} … ${secondsSince(begunMs)}`), 10_000);
  try {
    return await work();
  } finally {
    clearInterval(progress);
  }
}

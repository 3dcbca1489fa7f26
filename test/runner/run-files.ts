// Runs test files with node:test, each in its own process or several in one, and sums the results.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { type EventData, run } from 'node:test';
import { inspect } from 'node:util';
import { running, say } from './report.ts';
import { sharesOf, writeShare } from './shares.ts';

const root = join(import.meta.dirname, '..', '..');

/** The figures of node:test's closing lines, in its order. */
export const total = { tests: 0, suites: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 };
/** By reason. */
export const skipped = new Map<string, string[]>();
export const failures: string[] = [];

export interface RunOptions {
  readonly concurrency: number;
  /** Options of Node for the processes of the tests. */
  readonly nodeOptions?: readonly string[];
  /** Runs several files in one process. Only for tests that change nothing in their process for long. */
  readonly shared?: boolean;
  /** Called when a process of tests has ended. */
  readonly onEnd?: () => void;
}

/**
 * A test has no time limit, because a slow machine must not fail it. A run that hangs, such as a file
 * whose processes outlive it, ends after this.
 */
const silentMinutes = 15;

export async function runFiles(files: readonly string[], options: RunOptions): Promise<void> {
  if (files.length === 0) return;
  const folder = mkdtempSync(join(tmpdir(), 'hansa-shares-'));
  try {
    const shares = options.shared === true ? sharesOf(files) : files.map((file) => [file]);
    await runPrograms(
      shares.map((share, i) => writeShare(folder, i, share)),
      new Set(shares.filter((share) => share.length > 1).flat()),
      options,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
  for (const file of files) running.delete(file);
}

/** @param suites files that come as a suite with their name, because they share a process. */
async function runPrograms(
  programs: readonly string[],
  suites: ReadonlySet<string>,
  options: RunOptions,
): Promise<void> {
  const skippedIn = new Map<string, number>();
  const silence = new AbortController();
  const stream = run({
    files: [...programs],
    concurrency: options.concurrency,
    execArgv: ['--disable-warning=ExperimentalWarning', ...(options.nodeOptions ?? [])],
    signal: silence.signal,
  });
  const isFile = (event: { readonly name: string; readonly nesting: number }): boolean =>
    event.nesting === 0 && suites.has(event.name);
  /** Results come in the order of the files, so everything up to its end belongs to this one. */
  let current: { readonly file: string; tests: number } | undefined;
  const sayFile = (file: string, passed: boolean, tests: number, milliseconds: number): void => {
    const left = skippedIn.get(file) ?? 0;
    const tail = left > 0 ? `, ${left} skipped` : '';
    const took = `${(milliseconds / 1000).toFixed(1)} s`;
    say(`test    ${passed ? '✓' : '✗'} ${file}  (${tests} tests${tail}, ${took})`);
  };
  const countResult = (event: EventData.TestPass | EventData.TestFail, passed: boolean): void => {
    if (isFile(event)) {
      sayFile(event.name, passed, current?.tests ?? 0, event.details.duration_ms);
      current = undefined;
    } else if (current !== undefined && event.details.type !== 'suite') {
      current.tests += 1;
    }
  };
  stream.on('test:dequeue', (event) => {
    if (isFile(event)) running.set(event.name, performance.now());
    // A file with its own process comes as a test that has the name of its file.
    const file = relative(root, event.file ?? '');
    if (relative(root, event.name) === file && !file.startsWith('..')) {
      running.set(file, performance.now());
    }
  });
  stream.on('test:complete', (event) => {
    if (isFile(event)) running.delete(event.name);
  });
  stream.on('test:start', (event) => {
    if (isFile(event)) current = { file: event.name, tests: 0 };
  });
  stream.on('test:pass', (event) => {
    countResult(event, true);
    if (event.skip === undefined || event.skip === false) return;
    const file = current?.file ?? relative(root, event.file ?? '');
    skippedIn.set(file, (skippedIn.get(file) ?? 0) + 1);
    // A skipped suite does not report how many tests it holds: it counts as one.
    if (event.details.type === 'suite') total.skipped += 1;
    const reason = typeof event.skip === 'string' ? event.skip : 'no reason given';
    skipped.set(reason, [...(skipped.get(reason) ?? []), `${file}: ${event.name}`]);
  });
  stream.on('test:fail', (event) => {
    const where = relative(root, event.file ?? '');
    const file = current?.file ?? where;
    // A failing child fails its suite and its file too: shown once, where it happened.
    const error = event.details.error as Error & { failureType?: string };
    if (error.failureType !== 'subtestsFailed') {
      // A file that cannot be loaded says why on standard error only.
      const why = event.name === where ? errors.get(where) : inspect(error.cause ?? error);
      const at = `${where}:${event.line ?? 0}`;
      const place = file === where ? at : isFile(event) ? file : `${file} (${at})`;
      const text = `✗ ${place}: ${event.name}\n${why}`;
      failures.push(text);
      say(text);
      // A file that cannot be loaded counts as a failing test, as it does in its own process.
      if (isFile(event)) {
        total.tests += 1;
        total.fail += 1;
      }
    }
    countResult(event, false);
  });
  const errors = new Map<string, string>();
  stream.on('test:stderr', (event) => {
    const file = relative(root, event.file);
    errors.set(file, ((errors.get(file) ?? '') + event.message).slice(-8192));
    if (process.env['VERBOSE'] === '1') process.stderr.write(event.message);
  });
  stream.on('test:summary', (event) => {
    const { counts } = event;
    if (event.file !== undefined) {
      const file = relative(root, event.file);
      running.delete(file);
      if (!file.startsWith('..')) sayFile(file, event.success, counts.tests, event.duration_ms);
      options.onEnd?.();
      return;
    }
    total.tests += counts.tests;
    total.suites += counts.suites - suites.size;
    total.pass += counts.passed;
    total.fail += counts.tests - counts.passed - counts.cancelled - counts.skipped - counts.todo;
    total.cancelled += counts.cancelled;
    total.skipped += counts.skipped;
    total.todo += counts.todo;
  });
  const hanging = setTimeout(
    () => silence.abort(new Error(`no test reported anything for ${silentMinutes} minutes`)),
    silentMinutes * 60_000,
  );
  // The events above do not flow until the stream is read.
  await stream.forEach(() => {
    hanging.refresh();
  });
  clearTimeout(hanging);
}

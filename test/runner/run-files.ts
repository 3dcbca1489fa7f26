// Runs test files with node:test, a process each, and counts over all runs.

import { join, relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { running, say } from './report.ts';

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
  /** After the process of a file has ended. */
  readonly onEnd?: () => void;
}

/**
 * A test has no time limit of its own: a slow machine is no failure. A run that hangs, such as a file
 * whose processes outlive it, is ended after this.
 */
const silentMinutes = 15;

export async function runFiles(files: readonly string[], options: RunOptions): Promise<void> {
  if (files.length === 0) return;
  const skippedIn = new Map<string, number>();
  const silence = new AbortController();
  const stream = run({
    files: [...files],
    concurrency: options.concurrency,
    execArgv: ['--disable-warning=ExperimentalWarning', ...(options.nodeOptions ?? [])],
    signal: silence.signal,
  });
  stream.on('test:dequeue', (event) => {
    // A file comes as a test that has the name of its file.
    const file = relative(root, event.file ?? '');
    if (relative(root, event.name) === file) running.set(file, performance.now());
  });
  stream.on('test:pass', (event) => {
    if (event.skip === undefined || event.skip === false) return;
    const file = relative(root, event.file ?? '');
    skippedIn.set(file, (skippedIn.get(file) ?? 0) + 1);
    // A suite that is skipped does not tell how many tests it holds: it counts as one.
    if (event.details.type === 'suite') total.skipped += 1;
    const reason = typeof event.skip === 'string' ? event.skip : 'no reason given';
    skipped.set(reason, [...(skipped.get(reason) ?? []), `${file}: ${event.name}`]);
  });
  stream.on('test:fail', (event) => {
    const file = relative(root, event.file ?? '');
    // A failing child fails its suite and its file too: shown once, where it happened.
    const error = event.details.error as Error & { failureType?: string };
    if (error.failureType === 'subtestsFailed') return;
    // A file that could not even be loaded says why on standard error only.
    const why = event.name === file ? errors.get(file) : inspect(error.cause ?? error);
    const text = `✗ ${file}:${event.line ?? 0}: ${event.name}\n${why}`;
    failures.push(text);
    say(text);
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
      const left = skippedIn.get(file) ?? 0;
      const mark = event.success ? '✓' : '✗';
      const tail = left > 0 ? `, ${left} skipped` : '';
      const took = `${(event.duration_ms / 1000).toFixed(1)} s`;
      say(`test    ${mark} ${file}  (${counts.tests} tests${tail}, ${took})`);
      options.onEnd?.();
      return;
    }
    total.tests += counts.tests;
    total.suites += counts.suites;
    total.pass += counts.passed;
    total.fail += counts.tests - counts.passed - counts.cancelled - counts.skipped - counts.todo;
    total.cancelled += counts.cancelled;
    total.skipped += counts.skipped;
    total.todo += counts.todo;
  });
  const hanging = setTimeout(
    () => silence.abort(new Error(`nothing came of it for ${silentMinutes} minutes`)),
    silentMinutes * 60_000,
  );
  // The events above do not flow until the stream is read.
  await stream.forEach(() => {
    hanging.refresh();
  });
  clearTimeout(hanging);
  for (const file of files) running.delete(file);
}

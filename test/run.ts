// `make test`: types, lint and format, then every test. Unit tests come first, and the Go programs
// that the other tests need are built beside them. Ends with the closing lines of node:test, summed
// over all runs, and with what was skipped and why.
//
//   node test/run.ts [--checks-only] [FILE…]      UNIT=1 leaves out what needs a built program

import { spawn } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { ensureTool, failedVariable, type ToolName, toolNames } from './tools/build.ts';

const root = join(import.meta.dirname, '..');
process.chdir(root);

const say = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

const checks: readonly (readonly [name: string, command: string, ...args: string[]])[] = [
  ['types', 'tsc', '-p', '.'],
  ['lint', 'oxlint', '--type-aware', '--deny-warnings', 'src', 'test', 'bench', 'examples'],
  ['format', 'biome', 'format', '.'],
];

async function runChecks(): Promise<boolean> {
  let sound = true;
  for (const [name, command, ...args] of checks) {
    const started = performance.now();
    const { code, output } = await execute(join('node_modules', '.bin', command), args);
    if (code !== 0) {
      sound = false;
      process.stdout.write(output);
    }
    say(`check   ${name} ${code === 0 ? '✓' : '✗'}  (${seconds(started)})`);
  }
  return sound;
}

function execute(command: string, args: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    }
    child.on('error', (error) => resolve({ code: 127, output: `${error.message}\n` }));
    child.on('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}

/** The figures of node:test's closing lines, in its order. */
const total = { tests: 0, suites: 0, pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 };
const skipped = new Map<string, string[]>();
const failures: string[] = [];

/**
 * A test has no time limit of its own: a slow machine is no failure. What hangs, as a file whose
 * processes outlive it, is ended after this.
 */
const silentMinutes = 15;

async function runFiles(files: string[], concurrency: number): Promise<void> {
  if (files.length === 0) return;
  const perFile = new Map<string, { passed: number; failed: number; skipped: number }>();
  const counter = (file: string): { passed: number; failed: number; skipped: number } => {
    const existing = perFile.get(file);
    if (existing !== undefined) return existing;
    const fresh = { passed: 0, failed: 0, skipped: 0 };
    perFile.set(file, fresh);
    return fresh;
  };
  const silence = new AbortController();
  const stream = run({
    files,
    concurrency,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    signal: silence.signal,
  });
  stream.on('test:pass', (event) => {
    const file = relative(root, event.file ?? '');
    const isSuite = event.details.type === 'suite';
    if (event.skip === undefined || event.skip === false) {
      if (!isSuite) counter(file).passed += 1;
      return;
    }
    counter(file).skipped += 1;
    // A suite that is skipped does not tell how many tests it holds: it counts as one.
    if (isSuite) total.skipped += 1;
    const reason = typeof event.skip === 'string' ? event.skip : 'no reason given';
    skipped.set(reason, [...(skipped.get(reason) ?? []), `${file}: ${event.name}`]);
  });
  stream.on('test:fail', (event) => {
    const file = relative(root, event.file ?? '');
    // A failing child fails its suite and its file too: shown once, where it happened.
    const error = event.details.error as Error & { failureType?: string };
    if (error.failureType === 'subtestsFailed') return;
    counter(file).failed += 1;
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
      const { skipped: left } = counter(file);
      const mark = event.success ? '✓' : '✗';
      const tail = left > 0 ? `, ${left} skipped` : '';
      const took = `${(event.duration_ms / 1000).toFixed(1)} s`;
      say(`test    ${mark} ${file}  (${counts.tests} tests${tail}, ${took})`);
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
}

/** Files that run a built program import test/tools/build.ts, directly or through a file of test/. */
function needsTools(file: string): boolean {
  return file.startsWith('test/interop/') || readFileSync(file, 'utf8').includes('tools/build.ts');
}

async function buildTools(): Promise<void> {
  const failed: Record<string, string> = {};
  const build = async (name: ToolName): Promise<void> => {
    const tool = await ensureTool(name);
    if (tool.path !== undefined) return;
    failed[name] = tool.reason;
    say(`tools   ✗ ${tool.reason}`);
  };
  const started = performance.now();
  const progress = setInterval(() => {
    say(`tools   building what tests run against … ${seconds(started)}`);
  }, 30_000);
  for (const name of toolNames) await build(name);
  clearInterval(progress);
  process.env[failedVariable] = JSON.stringify(failed);
}

const started = performance.now();
const args = process.argv.slice(2);
const checksOnly = args.includes('--checks-only');
const patterns = args.filter((arg) => !arg.startsWith('--'));
const sound = patterns.length > 0 || (await runChecks());

if (!checksOnly) {
  const files = globSync(patterns.length > 0 ? patterns : ['src/**/*.test.ts', 'test/**/*.test.ts'])
    .toSorted()
    .filter((file) => file.endsWith('.test.ts'));
  const unit = files.filter((file) => !needsTools(file) && !file.startsWith('test/e2e/'));
  const endToEnd = files.filter((file) => !needsTools(file) && file.startsWith('test/e2e/'));
  const withTools = process.env['UNIT'] === '1' ? [] : files.filter(needsTools);
  const tools = withTools.length > 0 ? buildTools() : Promise.resolve();
  await runFiles(unit, availableParallelism());
  await runFiles(endToEnd, 1);
  await tools;
  // One at a time: an API server and etcd already keep two processors busy.
  await runFiles(withTools, 1);

  if (failures.length > 0) say(`\n${failures.length} failed:\n${failures.join('\n')}`);
  say('');
  for (const [name, count] of Object.entries(total)) say(`# ${name} ${count}`);
  say(`# duration_ms ${(performance.now() - started).toFixed(3)}`);
  say(`skipped: ${total.skipped}`);
  for (const [reason, tests] of skipped) {
    say(`  ${tests.length} × ${reason}`);
    for (const test of tests) say(`      ${test}`);
  }
}
if (!sound) say('types, lint or format: see above');
if (!sound || failures.length > 0 || total.fail > 0 || total.cancelled > 0) process.exitCode = 1;

// `make test`: types, lint and format, then every test. Unit tests come first, and the Go programs
// that the other tests need are built beside them; a test starts when its programs are built. Ends with the closing lines of node:test, summed
// over all runs, and with what was skipped and why.
//
//   node test/run.ts [--checks-only] [FILE…]      UNIT=1 leaves out what needs a built program

import { spawn } from 'node:child_process';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { inspect } from 'node:util';
import { ensureTool, failedVariable, type ToolName, toolNames } from './tools/build.ts';
import { neededTools } from './tools/needed-tools.ts';

const root = join(import.meta.dirname, '..');
process.chdir(root);

let lastSaid = performance.now();
const say = (line: string): void => {
  lastSaid = performance.now();
  process.stdout.write(`${line}\n`);
};

/** What runs now, and since when: shown where nothing else was for a while. */
const running = new Map<string, number>();
setInterval(() => {
  if (running.size === 0 || performance.now() - lastSaid < 10_000) return;
  const each = [...running].map(([name, since]) => `${name} (${seconds(since)})`);
  say(`running ${each.join(', ')}`);
}, 1000).unref();

async function whileRunning<T>(name: string, work: () => Promise<T>): Promise<T> {
  running.set(name, performance.now());
  try {
    return await work();
  } finally {
    running.delete(name);
  }
}

const checks: readonly (readonly [name: string, command: string, ...args: string[]])[] = [
  ['types', 'tsc', '-p', '.'],
  ['lint', 'oxlint', '--type-aware', '--deny-warnings', 'src', 'test', 'bench', 'examples'],
  ['format', 'biome', 'format', '.'],
];

async function runChecks(): Promise<boolean> {
  let sound = true;
  for (const [name, command, ...args] of checks) {
    const started = performance.now();
    const program = join('node_modules', '.bin', command);
    const { code, output } = await whileRunning(name, () => execute(program, args));
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
  stream.on('test:dequeue', (event) => {
    // A file comes as a test that has the name of its file.
    const file = relative(root, event.file ?? '');
    if (relative(root, event.name) === file) running.set(file, performance.now());
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
      running.delete(file);
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
  for (const file of files) running.delete(file);
}

/** One after another; each promise resolves when that program is there or cannot be. */
function buildTools(names: readonly ToolName[]): ReadonlyMap<ToolName, Promise<void>> {
  const failed: Record<string, string> = {};
  const build = async (name: ToolName): Promise<void> => {
    const began = performance.now();
    const tool = await whileRunning(`building ${name}`, () => ensureTool(name));
    if (tool.path === undefined) {
      failed[name] = tool.reason;
      process.env[failedVariable] = JSON.stringify(failed);
      say(`tools   ✗ ${tool.reason}`);
    } else if (performance.now() - began > 1000) {
      say(`tools   ✓ ${name}  (${seconds(began)}, next time under 1 s)`);
    }
  };
  const built = new Map<ToolName, Promise<void>>();
  let before = Promise.resolve();
  for (const name of names) {
    before = before.then(() => build(name));
    built.set(name, before);
  }
  return built;
}

const started = performance.now();
const args = process.argv.slice(2);
const checksOnly = args.includes('--checks-only');
const patterns = args.filter((arg) => !arg.startsWith('--'));
const sound = patterns.length > 0 || (await runChecks());

if (!checksOnly) {
  const files = globSync(patterns.length > 0 ? patterns : ['{src,test,bench}/**/*.test.ts'])
    .toSorted()
    .filter((file) => file.endsWith('.test.ts'));
  const byLastTool = Map.groupBy(files, (file) => neededTools(file).at(-1));
  const withoutTools = byLastTool.get(undefined) ?? [];
  const isEndToEnd = (file: string): boolean => /^test\/(e2e|interop)\//.test(file);
  const needed = new Set(files.flatMap(neededTools));
  const tools =
    process.env['UNIT'] === '1'
      ? new Map<ToolName, Promise<void>>()
      : buildTools(toolNames.filter((name) => needed.has(name)));
  await runFiles(
    withoutTools.filter((file) => !isEndToEnd(file)),
    availableParallelism(),
  );
  await runFiles(withoutTools.filter(isEndToEnd), 1);
  for (const [name, built] of tools) {
    await built;
    // One at a time: an API server and etcd already keep two processors busy.
    await runFiles(byLastTool.get(name) ?? [], 1);
  }

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

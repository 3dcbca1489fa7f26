// `make test`: checks types, lint and format, then runs all tests. Unit tests run first, while the Go
// programs for the other tests are built; each of those tests starts when its programs are built. At the
// end it prints the totals in the format of node:test, and the skipped tests with reasons.
//
//   node test/run.ts [--checks-only] [--unit] [--changed=BASE] [--coverage] [FILE…]

import { spawn } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { changedFiles } from './runner/changed-files.ts';
import { testsReachedBy } from './runner/changed-tests.ts';
import { Coverage, coverageTable } from './runner/coverage.ts';
import { say, seconds, whileRunning } from './runner/report.ts';
import { failures, type RunOptions, runFiles, skipped, total } from './runner/run-files.ts';
import { SourceGraph } from './runner/source-graph.ts';
import { startsPrograms, withoutProcesses } from './runner/test-classes.ts';
import { ensureTool, failedVariable, sourceOf, type ToolName, toolNames } from './tools/build.ts';
import { neededTools } from './tools/needed-tools.ts';

const root = join(import.meta.dirname, '..');
process.chdir(root);

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

/** Of these tests, those that the changes since `base` can reach. Says which and why. */
function onlyChanged(graph: SourceGraph, tests: readonly string[], base: string): string[] {
  const changed = changedFiles(base);
  say(`changed ${changed.length} files since the merge base with ${base}`);
  const { tests: reached, unread } = testsReachedBy({
    graph,
    changed,
    tests,
    foldersOf: (test) => [
      ...neededTools(graph, test).map(sourceOf),
      // It starts each benchmark by a name that it puts together.
      ...(graph.leadsTo(test).includes('bench/run.ts') ? ['bench'] : []),
    ],
  });
  for (const { test, chain } of reached) say(`changed ${test} ← ${chain.slice(1).join(' ← ')}`);
  for (const file of unread) say(`changed ${file} is read by none of these tests`);
  return reached.map(({ test }) => test);
}

async function runTests(
  graph: SourceGraph,
  files: readonly string[],
  onEnd: () => void = () => undefined,
): Promise<void> {
  const unit = files.filter((file) => !startsPrograms(graph, file));
  const cores = availableParallelism();
  if (options.unit) {
    // Enough to see that a scenario works; `make test` plays more, and `make simulate` thousands.
    process.env['HANSA_SEEDS'] ??= '2';
    await runFiles(unit, {
      concurrency: cores,
      nodeOptions: withoutProcesses,
      shared: true,
      onEnd,
    });
    const left = files.length - unit.length;
    if (left > 0) say(`left out: ${left} files with tests that start other programs`);
    return;
  }
  const toolsOf = new Map(files.map((file) => [file, neededTools(graph, file)]));
  const byLastTool = Map.groupBy(files, (file) => toolsOf.get(file)?.at(-1));
  const withoutTools = byLastTool.get(undefined) ?? [];
  const needed = new Set([...toolsOf.values()].flat());
  const tools = buildTools(toolNames.filter((name) => needed.has(name)));
  const isEndToEnd = (file: string): boolean => /^test\/(e2e|interop)\//.test(file);
  // These tests wait most of the time: for starts, leases and watches. More at once than processors need less time.
  const waiting: RunOptions = { concurrency: Math.min(cores + 1, 3), onEnd };
  // Tests that start processes may send signals or change the environment: each has its own process.
  const starting = withoutTools.filter((file) => !unit.includes(file) && !isEndToEnd(file));
  await runFiles(
    unit.filter((file) => withoutTools.includes(file)),
    { concurrency: cores, shared: true, onEnd },
  );
  await runFiles(starting, { concurrency: cores, onEnd });
  // A file at the end of a run has no other beside it. So one run takes all files whose programs are built.
  let ready = withoutTools.filter(isEndToEnd);
  for (const [name, built] of tools) {
    if (!(await isSettled(built))) {
      await runFiles(ready, waiting);
      ready = [];
      await built;
    }
    ready.push(...(byLastTool.get(name) ?? []));
  }
  await runFiles(ready, waiting);
}

const isSettled = (work: Promise<void>): Promise<boolean> =>
  Promise.race([
    work.then(() => true),
    new Promise<boolean>((resolve) => setImmediate(resolve, false)),
  ]);

/** Runs tests whose processes, and the processes that these start, write which lines they have run. */
async function withCoverage(work: (onEnd: () => void) => Promise<void>): Promise<void> {
  const coverage = new Coverage(root);
  const folder = mkdtempSync(join(tmpdir(), 'hansa-coverage-'));
  process.env['NODE_V8_COVERAGE'] = folder;
  // V8 does not count exactly in code that comes from the cache.
  process.env['NODE_DISABLE_COMPILE_CACHE'] = '1';
  await work(() => coverage.collect(folder));
  coverage.collect(folder);
  rmSync(folder, { recursive: true, force: true });
  say(`\n${coverageTable(coverage.byFolder())}`);
}

function sayTotals(): void {
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

const started = performance.now();
const { values: options, positionals: patterns } = parseArgs({
  options: {
    'checks-only': { type: 'boolean', default: false },
    unit: { type: 'boolean', default: false },
    changed: { type: 'string' },
    coverage: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const isPartial = patterns.length > 0 || options.unit || options.coverage;
const sound = isPartial || (await runChecks());

if (!options['checks-only']) {
  // Every test process would otherwise compile the same files again.
  process.env['NODE_COMPILE_CACHE'] ??= join(root, 'node_modules', '.cache', 'compile');
  const graph = SourceGraph.ofRepository(root);
  const files = globSync(patterns.length > 0 ? patterns : ['{src,test,bench}/**/*.test.ts'])
    .toSorted()
    .filter((file) => file.endsWith('.test.ts'));
  const { changed } = options;
  const chosen = changed === undefined ? files : onlyChanged(graph, files, changed);
  if (options.coverage) await withCoverage((onEnd) => runTests(graph, chosen, onEnd));
  else await runTests(graph, chosen);
  sayTotals();
}
if (!sound) say('types, lint or format: see above');
if (!sound || failures.length > 0 || total.fail > 0 || total.cancelled > 0) process.exitCode = 1;

// Builds the Go programs that tests and benchmarks run against, from the go.mod files beside this
// one, into the ignored folder .tools/bin: each only when something asks for it, and again only
// when its go.mod or go.sum has changed.
//
//   const apiserver = await ensureTool('kube-apiserver');
//   if (apiserver.path === undefined) t.skip(apiserver.reason);
//
// From a shell: node test/tools/build.ts kubectl etcd

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

export type ToolName = keyof typeof tools;

export type Tool =
  | { readonly path: string; readonly reason?: undefined }
  | { readonly path: undefined; readonly reason: string };

interface Recipe {
  /** The folder with the go.mod. */
  readonly module: string;
  readonly package: string;
  /** The required module whose version the program shall report, where it does not know it itself. */
  readonly versionFrom?: string;
}

const tools = {
  'kube-apiserver': {
    module: 'kubernetes',
    package: 'k8s.io/kubernetes/cmd/kube-apiserver',
    versionFrom: 'k8s.io/kubernetes',
  },
  kubectl: {
    module: 'kubernetes',
    package: 'k8s.io/kubernetes/cmd/kubectl',
    versionFrom: 'k8s.io/kubernetes',
  },
  etcd: { module: 'etcd', package: 'go.etcd.io/etcd/server/v3' },
  'go-spiffe': { module: 'go-spiffe', package: '.' },
  'ext-authz': { module: 'ext-authz', package: '.' },
  sds: { module: 'sds', package: '.' },
  'join-client': { module: 'join-client', package: '.' },
  pebble: { module: 'pebble', package: 'github.com/letsencrypt/pebble/v2/cmd/pebble' },
  mint: { module: 'mint', package: '.' },
  streams: { module: 'streams', package: '.' },
  oidc: { module: 'oidc', package: '.' },
} as const satisfies Record<string, Recipe>;

export const toolNames = Object.keys(tools) as readonly ToolName[];

/** Names, with reasons, as JSON: the tools that the test runner could not build. */
export const failedVariable = 'HANSA_TEST_TOOLS_FAILED';

const root = join(import.meta.dirname, '..', '..');
const binFolder = join(root, '.tools', 'bin');

/** Resolves at once where the program is up to date; waits where another process builds it. */
export async function ensureTool(name: ToolName): Promise<Tool> {
  const path = join(binFolder, name);
  if (isUpToDate(name)) return { path };
  const refusal = cannotBuild(name);
  if (refusal !== undefined) return { path: undefined, reason: refusal };
  mkdirSync(binFolder, { recursive: true });
  // flock lets go by itself when its process dies, however that happens.
  const lock = join(root, '.tools', `${tools[name].module}.lock`);
  const { code, output } = await run('flock', [lock, process.execPath, import.meta.filename, name]);
  if (code === 0 && isUpToDate(name)) return { path };
  const last = output.trim().split('\n').slice(-5).join(' | ');
  return { path: undefined, reason: `${name} could not be built: ${last}` };
}

function cannotBuild(name: ToolName): string | undefined {
  // The test runner builds everything once and tells its tests what failed: no need to try again.
  const failed = JSON.parse(process.env[failedVariable] ?? '{}') as Record<string, string>;
  if (failed[name] !== undefined) return failed[name];
  const hasGo = (process.env['PATH'] ?? '').split(':').some((dir) => existsSync(join(dir, 'go')));
  return hasGo ? undefined : `${name} is not built, and there is no Go here to build it`;
}

function isUpToDate(name: ToolName): boolean {
  const stamp = stampPath(name);
  return (
    existsSync(join(binFolder, name)) &&
    existsSync(stamp) &&
    readFileSync(stamp, 'utf8') === fingerprintOf(name)
  );
}

function stampPath(name: ToolName): string {
  return join(root, '.tools', `${name}.stamp`);
}

/** Of everything that decides what the program is, so that a new version is built anew. */
function fingerprintOf(name: ToolName): string {
  const folder = join(import.meta.dirname, tools[name].module);
  const hash = createHash('sha256')
    .update(readFileSync(join(folder, 'go.mod')))
    .update(readFileSync(join(folder, 'go.sum')))
    .update(JSON.stringify(goArguments(name)));
  // A program of our own is also what we wrote.
  if (tools[name].package === '.') {
    for (const file of readdirSync(folder).toSorted()) {
      if (file.endsWith('.go')) hash.update(readFileSync(join(folder, file)));
    }
  }
  return hash.digest('hex');
}

function goArguments(name: ToolName): string[] {
  const recipe: Recipe = tools[name];
  const flags = ['-s', '-w'];
  if (recipe.versionFrom !== undefined) {
    // A kube-apiserver without a version is refused by kubectl; go.mod is the one place that says it.
    const goMod = readFileSync(join(import.meta.dirname, recipe.module, 'go.mod'), 'utf8');
    const version = requiredVersion(goMod, recipe.versionFrom);
    const [major, minor] = version.slice(1).split('.');
    const variable = '-X k8s.io/component-base/version.git';
    flags.push(
      `${variable}Version=${version}`,
      `${variable}Major=${major}`,
      `${variable}Minor=${minor}`,
    );
  }
  return ['build', '-trimpath', '-ldflags', flags.join(' '), recipe.package];
}

export function requiredVersion(goMod: string, module: string): string {
  for (const line of goMod.split('\n')) {
    const words = line
      .trim()
      .replace(/^require /, '')
      .split(/\s+/);
    if (words[0] === module && words[1]?.startsWith('v')) return words[1];
  }
  throw new Error(`go.mod does not require ${module}`);
}

async function build(name: ToolName): Promise<number> {
  if (isUpToDate(name)) return 0;
  const started = performance.now();
  const seconds = (): string => ((performance.now() - started) / 1000).toFixed(0);
  mkdirSync(binFolder, { recursive: true });
  const fresh = join(binFolder, `.${name}.new`);
  const [verb = 'build', ...rest] = goArguments(name);
  process.stderr.write(`tools   ${name}: building\n`);
  const ticker = setInterval(() => {
    process.stderr.write(`tools   ${name}: building … ${seconds()} s\n`);
  }, 30_000);
  const { code, output } = await run('go', [verb, '-o', fresh, ...rest], {
    cwd: join(import.meta.dirname, tools[name].module),
    // One processor stays free for the tests that run meanwhile.
    env: {
      ...process.env,
      GOFLAGS: '-mod=readonly',
      GOMAXPROCS: String(Math.max(1, availableParallelism() - 1)),
    },
  });
  clearInterval(ticker);
  if (code !== 0) {
    process.stderr.write(output);
    rmSync(fresh, { force: true });
    return 1;
  }
  // Renamed and stamped last: a build that was killed leaves the old state.
  rmSync(stampPath(name), { force: true });
  renameSync(fresh, join(binFolder, name));
  writeFileSync(stampPath(name), fingerprintOf(name));
  process.stderr.write(`tools   ${name} ✓  (${seconds()} s)\n`);
  return 0;
}

async function run(
  command: string,
  args: readonly string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<{ code: number; output: string }> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-64 * 1024);
    });
  }
  return await new Promise((resolve) => {
    child.on('error', (error) => resolve({ code: 127, output: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 1, output }));
  });
}

if (import.meta.main) {
  for (const name of process.argv.slice(2)) {
    if (!Object.hasOwn(tools, name)) {
      process.stderr.write(`There is no tool ${name}. There are: ${toolNames.join(', ')}\n`);
      process.exitCode = 2;
    } else if ((await build(name as ToolName)) !== 0) {
      process.exitCode = 1;
    }
  }
}

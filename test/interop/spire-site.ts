// A site that operates the SPIRE server of a cluster: `hansa server` with the SPIRE operator, and a cluster whose Pods
// a test kubelet runs.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import type { Etcd } from './etcd.ts';
import type { CustomResourceDefinition } from './kube-apiserver.ts';
import { type KubeCluster, startKubeCluster } from './kube-cluster.ts';
import { Kubectl } from './kubectl.ts';
import { podName, spireServerEntryPoint } from './spire-cluster.ts';
import { TestKubelet, type TestKubeletOptions } from './test-kubelet.ts';
import { requireTool } from './tool.ts';

export interface SpireSiteOptions {
  readonly etcd: Etcd;
  readonly crds?: readonly CustomResourceDefinition[];
  /** The number of nodes that KWOK plays beside that of the test kubelet: NAME-0, NAME-1, … */
  readonly nodes?: number;
  /** Added to `hansa spire install`. */
  readonly install?: readonly string[];
  /** Of the Pods. */
  readonly pods?: Pick<TestKubeletOptions, 'env' | 'machineNames'>;
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

export interface SpireServerStatus {
  readonly conditions?: readonly Condition[];
  readonly relationships?: readonly {
    readonly trustDomain: string;
    readonly state: string;
    readonly reason?: string;
  }[];
}

const serverImage = 'spire-server:1.13.3';
const controllers = [
  'garbage-collector-controller',
  'statefulset-controller',
  'namespace-controller',
];

export class SpireSite {
  readonly cluster: KubeCluster;
  readonly kubelet: TestKubelet;
  readonly kubectl: Kubectl;
  readonly site: Daemon;

  static async start(name: string, options: SpireSiteOptions): Promise<SpireSite> {
    const { etcd, crds = [], install = [], nodes = 0, pods = {} } = options;
    const cluster = await startKubeCluster(name, { etcd, controllers, crds, nodes });
    const stops: (() => Promise<unknown>)[] = [() => cluster.stop()];
    try {
      const images = {
        [serverImage]: spireServerEntryPoint(await requireTool('spire-server')),
      };
      const kubelet = await TestKubelet.start({ cluster, images, ...pods });
      stops.unshift(() => kubelet.stop());
      const kubectl = await Kubectl.with(cluster.kubeconfig);
      stops.unshift(() => kubectl.close());
      const site = await startDaemon(join(temporaryFolder(), 'site'), [
        '--kubernetes-spire-enabled',
        'true',
        '--kubernetes-spire-server-image',
        serverImage,
      ]);
      stops.unshift(() => site.signal('SIGTERM'));
      const made = new SpireSite(cluster, kubelet, kubectl, site);
      const admin = ['--kubeconfig', cluster.kubeconfig, '--yes'];
      await made.hansa('cluster', 'add', name, ...admin);
      await made.hansa('spire', 'install', name, ...install, ...admin);
      return made;
    } catch (error) {
      for (const stop of stops) await stop();
      throw error;
    }
  }

  private constructor(cluster: KubeCluster, kubelet: TestKubelet, kubectl: Kubectl, site: Daemon) {
    this.cluster = cluster;
    this.kubelet = kubelet;
    this.kubectl = kubectl;
    this.site = site;
  }

  /** A command at the site. */
  async hansa(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await hansa([...args, '--data-dir', this.site.dataDir]);
    assert.equal(code, 0, `hansa ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  apply(object: object): Promise<string> {
    return this.kubectl.ok(['apply', '-f', '-'], { input: JSON.stringify(object) });
  }

  /** An object of the cluster. Undefined where there is none. */
  async find<T>(what: string, ...flags: readonly string[]): Promise<T | undefined> {
    const { code, stdout, stderr } = await this.kubectl.run(['get', what, '-o', 'json', ...flags]);
    if (code === 0) return JSON.parse(stdout) as T;
    assert.match(stderr, /NotFound/);
    return undefined;
  }

  async status(): Promise<SpireServerStatus> {
    const found = await this.find<{ status?: SpireServerStatus }>('spireserver/cluster');
    return found?.status ?? {};
  }

  /** Resolves when a condition of the SpireServer is so. */
  async condition(type: string, holds: (condition: Condition | undefined) => boolean) {
    let last: Condition | undefined;
    await until(
      async () => {
        last = (await this.status()).conditions?.find((each) => each.type === type);
        return holds(last);
      },
      () => `${type}: ${JSON.stringify(last)}${this.log()}`,
    );
  }

  /** Resolves when the SPIRE server runs. */
  ready(): Promise<void> {
    return this.condition('FederationServiceReady', (found) => found?.status === 'True');
  }

  get socket(): string {
    return join(this.kubelet.volume(podName, 'socket'), 'api.sock');
  }

  /** `spire-server COMMAND…` at its socket. */
  async spire(...command: readonly string[]): Promise<string> {
    const args = [...command, '-socketPath', this.socket];
    const ran = await this.kubelet.host.run(await requireTool('spire-server'), args);
    if (ran.code !== 0) throw new Error(`${command.join(' ')}: ${ran.stderr}${ran.stdout}`);
    return ran.stdout;
  }

  async stop(): Promise<void> {
    await this.site.signal('SIGTERM');
    await this.kubectl.close();
    await this.kubelet.stop();
    await this.cluster.stop();
  }

  /** The end of the log of the SPIRE server, without the lines that `omit` matches. */
  log(omit = /^$/): string {
    try {
      const lines = this.kubelet.log(podName, 'spire-server').split('\n');
      return `\n${lines
        .filter((line) => !omit.test(line))
        .slice(-30)
        .join('\n')}`;
    } catch {
      return '';
    }
  }
}

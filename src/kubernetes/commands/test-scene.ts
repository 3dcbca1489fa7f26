// Test fixture: a site without a daemon, which runs the commands of the plane with kubeconfigs of test API servers.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import type { Kind } from '../../api/kind.ts';
import { createCli } from '../../cli/cli.ts';
import { processIo } from '../../cli/process-io.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { systemClock } from '../../core/clock/system.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { CommandKit, Io } from '../../core/plane/command-kit.ts';
import type { ApplyOptions, RequestOptions, SiteClient } from '../../core/plane/site-client.ts';
import { allPlanes } from '../../test-planes.ts';
import { federationPath } from '../client/cluster-facts.ts';
import type { LeagueInfo, MemberInfo } from '../client/league-info.ts';
import { kubernetesPaths } from '../paths.ts';
import { leagueCommands } from './cluster.ts';
import { policyCommand } from './policy.ts';
import { serviceCommand } from './service.ts';
import { spireCommand } from './spire.ts';
import type { TestKube } from './test-kube.ts';

/** Once: each one listens for signals. */
const ownIo = processIo();

/** Short pauses take no time. */
const impatientClock: Clock = {
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic(),
  timer: (delayMs, fire) => systemClock.timer(delayMs <= 300 ? 0 : delayMs, fire),
};

interface ClusterObject {
  readonly metadata: {
    readonly name: string;
    readonly labels?: Record<string, string>;
    readonly managedFields?: readonly object[];
  };
  readonly spec: Readonly<Record<string, unknown>> & { readonly local?: boolean };
}

export interface Ran {
  readonly printed: string;
  readonly notes: string;
  readonly questions: readonly string[];
  readonly error: HansaError | undefined;
}

export class TestScene {
  readonly folder = mkdtempSync(join(tmpdir(), 'hansa-league-'));
  /** Variables of the user. */
  env: Readonly<Record<string, string>> = {};
  readonly clusters = new Map<string, ClusterObject>();
  readonly credentials = new Map<string, unknown>();
  /** Objects of other kinds, by KIND/NAME. */
  readonly others = new Map<string, { readonly spec?: unknown }>();
  trustDomain = 'lubeck.example';
  /** The setting kubernetes.policyKinds. */
  policyKinds = '';
  /** Of commands. */
  clock: Clock = impatientClock;
  /** Answers other requests. */
  answer: (request: RequestOptions) => unknown = () => undefined;
  /** Of each member that Federation lists. */
  stateOf: (id: string) => Partial<MemberInfo> = () => ({});
  readonly #kubes = new Map<string, TestKube>();

  end(): void {
    rmSync(this.folder, { recursive: true });
  }

  /** Writes NAME.kubeconfig. */
  addKube(name: string, kube: TestKube): void {
    this.#kubes.set(kube.server, kube);
    this.writeConfig(`${name}.kubeconfig`, kube.kubeconfig);
  }

  writeConfig(file: string, config: unknown): void {
    const text = typeof config === 'string' ? config : JSON.stringify(config);
    writeFileSync(join(this.folder, file), text);
  }

  cluster(args: readonly string[]): Promise<Ran> {
    return this.#run(leagueCommands, args);
  }

  service(args: readonly string[]): Promise<Ran> {
    return this.#run(serviceCommand, args);
  }

  policy(args: readonly string[]): Promise<Ran> {
    return this.#run(policyCommand, args);
  }

  spire(args: readonly string[]): Promise<Ran> {
    return this.#run(spireCommand, args);
  }

  /** As the site sees the Federation of its home cluster. */
  league(): LeagueInfo {
    const home = [...this.clusters.values()].find(({ spec }) => spec.local === true);
    const kube = this.#kubes.get(String(home?.spec['apiServer']));
    const federation = kube?.objects.get(federationPath);
    const { clusterSet, members = [] } = (federation?.spec ?? {}) as {
      clusterSet?: string;
      members?: readonly { readonly clusterID: string }[];
    };
    return {
      namespace: 'hansa-system',
      supervisor: federation !== undefined,
      ...(home && { home: home.metadata.name }),
      ...(clusterSet && { clusterSet }),
      policyKinds: this.policyKinds,
      members: members.map(({ clusterID }) => ({
        clusterID,
        state: 'Ready',
        since: '2026-01-01T00:00:00Z',
        reason: 'Ready',
        message: '',
        leader: 'lubeck.example/host/1/x',
        epoch: 3,
        ...this.stateOf(clusterID),
      })),
    };
  }

  async #run(make: (kit: CommandKit) => Command, args: readonly string[]): Promise<Ran> {
    const printed: string[] = [];
    const notes: string[] = [];
    const questions: string[] = [];
    const io: Io = { ...ownIo, clock: this.clock, cwd: this.folder, env: this.env };
    const kit: CommandKit = {
      ...createCli(io, { planes: allPlanes, version: '1' }),
      print: (text) => void printed.push(text),
      note: (text) => void notes.push(text),
      withClient: (_command, work) => work(this.#client()),
      confirm: async (_command, question) => void questions.push(question),
    };
    let error: HansaError | undefined;
    try {
      await make(kit)
        .exitOverride()
        .parseAsync([...args], { from: 'user' });
    } catch (caught) {
      if (!(caught instanceof HansaError)) throw caught;
      error = caught;
    }
    return { printed: printed.join('\n'), notes: notes.join('\n'), questions, error };
  }

  #client(): SiteClient {
    return {
      list: async () => ({ items: [...this.clusters.values()] }),
      get: async ({ kind }: Kind, name: string) => {
        if (kind === 'Site') return { status: { trustDomain: this.trustDomain } };
        const found =
          kind === 'Cluster' ? this.clusters.get(name) : this.others.get(`${kind}/${name}`);
        if (found !== undefined) return found;
        throw new HansaError('HANSA_NOT_FOUND', 'no such object');
      },
      apply: async (
        { kind }: Kind,
        name: string,
        object: ClusterObject,
        how: ApplyOptions = {},
      ) => {
        if (kind !== 'Cluster') {
          this.others.set(`${kind}/${name}`, object);
          return { object, created: true };
        }
        const known = this.clusters.get(name);
        const managedFields = [
          ...(known?.metadata.managedFields ?? []),
          { manager: how.fieldManager, operation: 'Apply' },
        ];
        const metadata = { ...known?.metadata, ...object.metadata, managedFields };
        const spec = { ...known?.spec, ...object.spec };
        if (how.dryRun !== true) this.clusters.set(name, { ...known, ...object, metadata, spec });
        return { object, created: known === undefined };
      },
      delete: async ({ kind }: Kind, name: string) =>
        void (kind === 'Cluster'
          ? this.clusters.delete(name)
          : this.others.delete(`${kind}/${name}`)),
      request: async (request: RequestOptions) => {
        const { method, path, body } = request;
        if (path === kubernetesPaths.members) return { status: 200, body: this.league() };
        const named = /^\/hansa\/v1\/clusters\/([^/]+)\/credential$/.exec(path)?.[1];
        if (method === 'PUT' && named !== undefined) {
          this.credentials.set(named, body);
          return { status: 200, body: { cluster: named, type: 'token' } };
        }
        return { status: 200, body: this.answer(request) };
      },
    } as unknown as SiteClient;
  }
}

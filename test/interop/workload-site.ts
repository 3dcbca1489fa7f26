// A site in this process, with real sockets and a movable clock, and programs that run as its
// workloads. These are copies of the Go test programs in a folder that every user can enter, so
// that each has its own path.

import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allKinds } from '../../src/test-planes.ts';
import {
  type SPIFFEFederation,
  spiffeFederationKind,
} from '../../src/api/kinds/spiffe-federation.ts';
import { systemRandom } from '../../src/core/clock/system.ts';
import { createLog } from '../../src/core/log/json-log.ts';
import { MetricsRegistry } from '../../src/core/metrics/registry.ts';
import type { Plane } from '../../src/core/plane/plane.ts';
import { isConditionTrue } from '../../src/core/reconcile/conditions.ts';
import { loadConfig } from '../../src/server/config/config.ts';
import { startSite } from '../../src/server/site.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { adminClient, type Answer, resources } from '../e2e/api-client.ts';
import { MovableClock } from '../e2e/movable-clock.ts';
import { until } from '../e2e/until.ts';
import { requireTool } from './tool.ts';
import type { ToolName } from '../tools/build.ts';

const apiVersion = 'hansa.dev/v1alpha1';

/** With the trust plane alone unless told; `url` is where other sites reach it. */
export async function startWorkloadSite(
  trustDomain: string,
  planes: readonly Plane[] = [trustPlane],
  /** Variables of its configuration, such as HANSA_LIMITS_MAX_WATCHES. */
  settings: Readonly<Record<string, string>> = {},
  clock = new MovableClock(),
) {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-workloads-'));
  // mkdtemp makes it for its owner alone; workloads of other users must come through.
  chmodSync(folder, 0o711);
  const dataDir = join(folder, 'site');
  const logged: string[] = [];
  const metrics = new MetricsRegistry();
  const { config } = loadConfig({
    planes,
    flags: {
      dataDir,
      trustDomain,
      api: '127.0.0.1:0',
      federation: '127.0.0.1:0',
      metrics: 'off',
    },
    env: settings,
    cwd: folder,
  });
  const site = await startSite({
    config,
    kinds: allKinds,
    planes,
    version: '0.0.0',
    clock,
    random: systemRandom,
    log: createLog({
      clock,
      level: 'info',
      format: 'json',
      sink: { write: (line: string) => logged.push(line) },
    }),
    metrics,
  });
  const admin = adminClient(dataDir);
  const running = new Set<ChildProcess>();
  const socket = join(dataDir, 'workload.sock');
  const env = { ...process.env, SPIFFE_ENDPOINT_SOCKET: `unix://${socket}` };
  const apply = (
    kind: { readonly kind: string; readonly plural: string },
    name: string,
    spec: object,
  ): Promise<Answer> =>
    admin.request('PATCH', `${resources}/${kind.plural}/${name}?fieldManager=test&force=true`, {
      headers: { 'content-type': 'application/apply-patch+yaml' },
      body: { apiVersion, kind: kind.kind, metadata: { name }, spec },
    });
  return {
    trustDomain,
    url: site.endpoints.federation as string,
    api: site.endpoints.api as string,
    store: site.store,
    clock,
    admin,
    metrics,
    dataDir,
    socket,
    env,
    log: () => logged.join(''),
    /** Creates or replaces an object. */
    apply,
    /** Believes that site by its bundle; resolves when that is so. */
    federateWith: async (other: {
      readonly trustDomain: string;
      bundle(): Promise<string>;
    }): Promise<void> => {
      const spec = { bundleSource: { static: { bundle: await other.bundle() } } };
      const answer = await apply(spiffeFederationKind, other.trustDomain, spec);
      if (answer.status >= 300) throw new Error(answer.text);
      const path = `${resources}/spiffefederations/${other.trustDomain}`;
      await until(async () => {
        const { status } = (await admin.get(path)).body as SPIFFEFederation;
        return isConditionTrue(status?.conditions, 'Ready');
      }, `${other.trustDomain} is believed`);
    },
    /** The bundle as it is published. */
    bundle: async (): Promise<string> => {
      const answer = await admin.get('/hansa/v1/trust/bundle');
      return (JSON.parse(answer.text) as { readonly bundle: string }).bundle;
    },
    /** The leaf of an SVID that was made by hand, in PEM. */
    mint: async (spiffeID: string): Promise<string> => {
      const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
      const answer = await admin.request('POST', '/hansa/v1/svids', {
        body: { spiffeID, publicKey: publicKey.export({ format: 'pem', type: 'spki' }) },
      });
      return (JSON.parse(answer.text) as { readonly certificate: string }).certificate;
    },
    /** In the place of the peering plane, which these sites run without. */
    setPeerState: async (name: string, state: string): Promise<void> => {
      const entry = site.store.get('federationpeers', name);
      const peer = JSON.parse(entry?.value.toString('utf8') ?? '{}') as object;
      const bytes = Buffer.from(JSON.stringify({ ...peer, status: { state } }));
      await site.store.commit({
        put: [{ collection: 'federationpeers', name, encode: () => bytes }],
      });
    },
    /** One step of a rotation by hand, of the JWT keys unless told. */
    rotate: async (
      step: 'prepare' | 'activate' | 'taint' | 'revoke',
      kind: 'x509' | 'jwt' = 'jwt',
    ): Promise<void> => {
      const answer = await admin.request('POST', `/hansa/v1/trust/authorities/${step}`, {
        body: { kind },
      });
      if (answer.status !== 200) throw new Error(`${step}: ${answer.text}`);
    },
    delete: (plural: string, name: string): Promise<Answer> =>
      admin.request('DELETE', `${resources}/${plural}/${name}`),
    /** The judge under a path of its own. */
    program: async (name: string, tool: ToolName): Promise<string> => {
      const path = join(folder, name);
      copyFileSync(await requireTool(tool), path);
      chmodSync(path, 0o755);
      return path;
    },
    /** Runs to its end. */
    run: (command: string, ...args: readonly string[]): Promise<Ended> =>
      finish(command, args, env),
    /** Goes on until the site stops. */
    follow: (command: string, ...args: readonly string[]): LineReader => {
      const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
      running.add(child);
      return new LineReader(child);
    },
    stop: async () => {
      for (const child of running) child.kill('SIGKILL');
      admin.close();
      await site.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export type WorkloadSite = Awaited<ReturnType<typeof startWorkloadSite>>;

export interface Ended {
  readonly code: number;
  readonly stderr: string;
  /** One value a line. */
  readonly lines: readonly unknown[];
}

/** Runs to its end, and takes what it prints as JSON, one value a line. */
export function finish(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(command, args, { env, timeout: 120_000 }, (error, stdout, stderr) => {
      const lines = stdout.split('\n').filter((line) => line !== '');
      resolve({
        code: error === null ? 0 : (child.exitCode ?? 1),
        stderr,
        lines: lines.map((line) => JSON.parse(line) as unknown),
      });
    });
  });
}

/** What a program prints, a JSON value a line. */
export class LineReader {
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  #ended = false;
  #wake = (): void => undefined;

  constructor(child: ChildProcess) {
    this.#child = child;
    let rest = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      this.#lines.push(...lines);
      this.#wake();
    });
    child.once('close', () => {
      this.#ended = true;
      this.#wake();
    });
  }

  /** Ends the program as a user does. */
  interrupt(): void {
    this.#child.kill('SIGINT');
  }

  async next<T>(): Promise<T> {
    for (;;) {
      const line = this.#lines.shift();
      if (line !== undefined) return JSON.parse(line) as T;
      if (this.#ended) throw new Error('the program ended');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** `go-spiffe calls`: requests without a pause, each with a handshake of its own. */
export class Calls {
  readonly #lines: LineReader;
  #authorities: Authorities | undefined;

  private constructor(lines: LineReader) {
    this.#lines = lines;
  }

  /** Resolves when the first was answered. */
  static async begin(lines: LineReader): Promise<Calls> {
    const calls = new Calls(lines);
    await calls.untilAnother(undefined);
    return calls;
  }

  /** As the last calls saw it. */
  get authorities(): Authorities | undefined {
    return this.#authorities;
  }

  /** Until the certificate of this end is of another authority than then; of either at the beginning. */
  async untilAnother(end: End | undefined, then = this.#authorities): Promise<void> {
    const isSame = (): boolean =>
      end === undefined
        ? this.#authorities === undefined
        : this.#authorities?.[end] === then?.[end];
    while (isSame()) this.#authorities = await this.#lines.next<Authorities>();
  }

  /** Until this end itself believes so many authorities of the other: not only a neighbour of it. */
  async untilHolds(end: End, count: number): Promise<void> {
    const held = end === 'server' ? 'heldByServer' : 'heldByClient';
    while (this.#authorities?.[held] !== count)
      this.#authorities = await this.#lines.next<Authorities>();
  }

  /** Stops, and resolves to what failed and how many there were. */
  async finish(): Promise<{ readonly calls: number; readonly failures: readonly string[] }> {
    this.#lines.interrupt();
    for (;;) {
      const line = await this.#lines.next<
        Authorities | { readonly calls: number; readonly failures: readonly string[] }
      >();
      if ('calls' in line) return line;
    }
  }
}

type End = 'server' | 'client';

/** Of which authority the certificate of each end is, and how many of the other's each believes. */
export interface Authorities extends Readonly<Record<End, string>> {
  readonly heldByServer: number;
  readonly heldByClient: number;
}

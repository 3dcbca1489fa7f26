// Two real daemons that can become peers, and that a test can kill and restart on the same data.

import { rmSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import type { PeerSummary } from '../../src/peering/routes/operator-routes.ts';
import { type Daemon, hansa, launcher, type Ran, startDaemon, temporaryFolder } from './daemon.ts';
import { freePort } from './free-ports.ts';
import { until } from './until.ts';

export class PeeringSite {
  readonly name: string;
  readonly dataDir: string;
  #daemon: Daemon | undefined;
  #port: number | undefined;

  readonly #flags: readonly string[];
  #launcher: string;

  constructor(
    folder: string,
    name: string,
    flags: readonly string[] = [],
    launcherOfBuild = launcher,
  ) {
    this.#flags = flags;
    this.#launcher = launcherOfBuild;
    this.name = `${name}.example`;
    this.dataDir = join(folder, name);
  }

  /** On the port of its last life, so that peers find it again. */
  async start(): Promise<void> {
    this.#port ??= await freePort();
    const address = `127.0.0.1:${this.#port}`;
    const flags = ['--trust-domain', this.name, '--federation', address, ...this.#flags];
    this.#daemon = await startDaemon(this.dataDir, flags, {}, [], this.#launcher);
    const site = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Site',
      metadata: { name: 'site' },
      spec: { advertiseURL: this.federationUrl },
    };
    await this.must(['apply', '-f', '-'], JSON.stringify(site));
  }

  /** The next start and all commands are of another build. */
  use(launcherOfBuild: string): void {
    this.#launcher = launcherOfBuild;
  }

  get federationUrl(): string {
    const { federation } = this.daemon.endpoints as unknown as { readonly federation: string };
    return federation;
  }

  get daemon(): Daemon {
    if (this.#daemon === undefined) throw new Error(`${this.name} was not started`);
    return this.#daemon;
  }

  run(args: readonly string[], stdin = ''): Promise<Ran> {
    return hansa([...args, '--data-dir', this.dataDir, '--yes'], { stdin }, this.#launcher);
  }

  async must(args: readonly string[], stdin = ''): Promise<string> {
    const { code, stdout, stderr } = await this.run(args, stdin);
    if (code !== 0) throw new Error(`hansa ${args.join(' ')} at ${this.name}: ${stderr}`);
    return stdout;
  }

  async invite(args: readonly string[] = []): Promise<string> {
    return (await this.must(['peer', 'invite', ...args])).trim();
  }

  accept(invitation: string): Promise<Ran> {
    return this.run(['peer', 'accept'], invitation);
  }

  async peer(name: string): Promise<PeerSummary | undefined> {
    const { peers } = JSON.parse(await this.must(['peer', 'list', '-o', 'json'])) as {
      readonly peers: readonly PeerSummary[];
    };
    return peers.find((peer) => peer.name === name);
  }

  /** Waits until it has the peer in this state, and for this reason. */
  async until(name: string, state: string, reason = /(?:)/): Promise<PeerSummary> {
    let peer: PeerSummary | undefined;
    await until(
      async () => {
        peer = await this.peer(name);
        return peer?.state === state && reason.test(peer.reason ?? '');
      },
      () => `${this.name} has ${name} as ${peer?.state}, not ${state} ${reason}: ${peer?.reason}`,
    );
    return peer as PeerSummary;
  }

  /** A request of somebody without a certificate. */
  call(path: string, body: string, more: Record<string, string> = {}): Promise<number> {
    const headers = { 'content-type': 'application/json', ...more };
    return new Promise((resolve, reject) => {
      const request = httpsRequest(
        new URL(path, this.federationUrl),
        { method: 'POST', headers, rejectUnauthorized: false },
        (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        },
      );
      request.on('error', reject);
      request.end(body);
    });
  }

  /** Dies, and loses its whole data folder: its keys and all that it knew. */
  async lose(): Promise<void> {
    await this.stop('SIGKILL');
    rmSync(this.dataDir, { recursive: true });
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.#daemon?.signal(signal);
  }
}

export function startPair(...names: readonly string[]): Promise<readonly PeeringSite[]> {
  return startSites([], ...names);
}

/** With these flags beside those that a test needs. */
export async function startSites(
  flags: readonly string[],
  ...names: readonly string[]
): Promise<readonly PeeringSite[]> {
  const folder = temporaryFolder();
  const sites = names.map((name) => new PeeringSite(folder, name, flags));
  await Promise.all(sites.map((site) => site.start()));
  return sites;
}

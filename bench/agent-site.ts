// A site in a process of its own with a fleet of agents: their token, their entries, and a federation
// whose bundle changes.

import { join } from 'node:path';
import { adminClient, type ApiClient, resources } from '../test/e2e/api-client.ts';
import { type AgentProcess, startAgent } from '../test/e2e/agent-process.ts';
import { type Daemon, startDaemon, temporaryFolder } from '../test/e2e/daemon.ts';
import { freePort } from '../test/e2e/free-ports.ts';
import { createAgentToken, Fleet, fleetLabels, joinFleet } from './agent-fleet.ts';
import { create, done } from './peered-sites.ts';

export const trustDomain = 'lubeck.example';

export class AgentSite {
  readonly folder: string;
  readonly admin: ApiClient;
  readonly url: string;
  readonly #flags: readonly string[];
  #daemon: Daemon;
  #token: string | undefined;

  private constructor(folder: string, flags: readonly string[], url: string, daemon: Daemon) {
    this.folder = folder;
    this.url = url;
    this.#flags = flags;
    this.#daemon = daemon;
    this.admin = adminClient(daemon.dataDir);
  }

  static async start(): Promise<AgentSite> {
    const folder = temporaryFolder();
    const address = `127.0.0.1:${await freePort()}`;
    const url = `https://${address}`;
    const flags = ['--federation', address, '--advertise', url];
    return new AgentSite(folder, flags, url, await startDaemon(join(folder, 'site'), flags));
  }

  get pid(): number {
    return this.#daemon.pid;
  }

  get caFile(): string {
    return join(this.#daemon.dataDir, 'ca.pem');
  }

  /** As many entries for all agents of the fleet; each trusts every other trust domain. */
  async createEntries(count: number): Promise<void> {
    for (let i = 0; i < count; i++) await this.createEntry(`load-${i}`, 4_000_000 + i);
  }

  createEntry(name: string, uid: number): Promise<void> {
    return create(this.admin, 'WorkloadEntry', 'workloadentries', name, {
      spiffeID: `spiffe://${trustDomain}/${name}`,
      selectors: [`unix:uid:${uid}`],
      federatesWith: ['*'],
      agents: { selector: { matchLabels: fleetLabels } },
    });
  }

  async deleteEntry(name: string): Promise<void> {
    await done(this.admin.request('DELETE', `${resources}/workloadentries/${name}`));
  }

  async openFleet(count: number): Promise<Fleet> {
    const file = await joinFleet(this.admin, this.reached, this.folder, count);
    const { host } = new URL(this.url);
    return Fleet.open(
      '-api=hansa',
      `-address=${host}`,
      `-trust-domain=${trustDomain}`,
      `-identities=${file}`,
    );
  }

  get reached(): {
    readonly url: string;
    readonly trustDomain: string;
    readonly caFile: string;
  } {
    return { url: this.url, trustDomain, caFile: this.caFile };
  }

  async startAgent(name: string): Promise<AgentProcess> {
    this.#token ??= await createAgentToken(this.admin, 'machines');
    const dataDir = join(this.folder, name);
    return startAgent(dataDir, { ...this.reached, token: 'machines', name, secret: this.#token });
  }

  /** Resolves to the milliseconds since 1970 when the new process started. */
  async crashAndRestart(): Promise<number> {
    await this.#daemon.signal('SIGKILL');
    const startedMs = Date.now();
    this.#daemon = await startDaemon(join(this.folder, 'site'), this.#flags);
    return startedMs;
  }

  async setBundle(name: string, bundle: string): Promise<void> {
    await done(
      this.admin.request(
        'PATCH',
        `${resources}/spiffefederations/${name}?fieldManager=bench&force=true`,
        {
          headers: { 'content-type': 'application/apply-patch+yaml' },
          body: {
            apiVersion: 'hansa.dev/v1alpha1',
            kind: 'SPIFFEFederation',
            metadata: { name },
            spec: { bundleSource: { static: { bundle } } },
          },
        },
      ),
    );
  }

  async stop(): Promise<void> {
    this.admin.close();
    await this.#daemon.signal('SIGTERM');
  }
}

// A site in a process of its own that also says how much memory it uses after a garbage collection
// (peers-main.ts), for bench/peers.ts.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { adminClient, type ApiClient } from '../test/e2e/api-client.ts';
import { type Endpoints, type Program, startProgram, temporaryFolder } from '../test/e2e/daemon.ts';
import { freePort } from '../test/e2e/free-ports.ts';
import { nodeEnvironment, nodeOptions } from './node-options.ts';
import { until } from './peered-sites.ts';

const main = join(import.meta.dirname, 'peers-main.ts');

export class ObservedSite {
  readonly trustDomain: string;
  readonly admin: ApiClient;
  readonly #program: Program;
  readonly #endpoints: Endpoints;
  #asked = 0;

  static async start(name: string, flags: readonly string[]): Promise<ObservedSite> {
    const trustDomain = `${name}.example`;
    const dataDir = join(temporaryFolder(), name);
    const federation = `127.0.0.1:${await freePort()}`;
    const words = ['server', '--data-dir', dataDir, '--trust-domain', trustDomain];
    words.push('--api', '127.0.0.1:0', '--metrics', '127.0.0.1:0', '--federation', federation);
    words.push('--advertise', `https://${federation}`, ...flags);
    const args = [...nodeOptions, main, ...words];
    const program = startProgram(process.execPath, args, nodeEnvironment);
    await program.greeted;
    return new ObservedSite(trustDomain, dataDir, program);
  }

  private constructor(trustDomain: string, dataDir: string, program: Program) {
    this.trustDomain = trustDomain;
    this.admin = adminClient(dataDir);
    this.#program = program;
    const endpoints = readFileSync(join(dataDir, 'endpoints.json'), 'utf8');
    this.#endpoints = JSON.parse(endpoints) as Endpoints;
  }

  get pid(): number {
    return this.#program.pid;
  }

  /** What is in use after a garbage collection: objects, and buffers outside of the heap. */
  async liveBytes(): Promise<number> {
    const answer = new RegExp(`^bench-live-bytes ${++this.#asked} (\\d+)$`, 'm');
    process.kill(this.pid, 'SIGUSR2');
    let bytes: number | undefined;
    await until(async () => {
      const [, found] = answer.exec(this.#program.log()) ?? [];
      bytes = found === undefined ? undefined : Number(found);
      return bytes !== undefined;
    }, 'the answer to SIGUSR2');
    return bytes as number;
  }

  async metrics(): Promise<string> {
    return (await fetch(this.#endpoints.metrics)).text();
  }

  async stop(): Promise<void> {
    this.admin.close();
    await this.#program.signal('SIGTERM');
  }
}

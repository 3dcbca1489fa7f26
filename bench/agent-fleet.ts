// Runs the Go program that speaks to a site, or to a SPIRE server, as many agents at once. It is a
// separate process, so that its CPU time does not count.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { TrustDomain } from '../src/api/values/trust-domain.ts';
import { systemClock, systemRandom } from '../src/core/clock/system.ts';
import { Bundle } from '../src/core/identity/bundle/bundle.ts';
import { exportPkcs8, generateP256 } from '../src/core/identity/x509/keys.ts';
import { parseCertificatesPem } from '../src/core/identity/x509/pem.ts';
import { joinBySecret, type JoinServer } from '../src/trust/client/join-client.ts';
import { decodeSecret } from '../src/trust/join/secret.ts';
import type { ApiClient } from '../test/e2e/api-client.ts';
import { requireTool } from '../test/interop/tool.ts';
import { create, done } from './peered-sites.ts';

/** In milliseconds since 1970. */
export interface Wave {
  readonly firstMs: number;
  readonly lastMs: number;
}

export interface Signed {
  readonly issued: number;
  readonly perSecond: number;
  /** Of a batch. */
  readonly p99Milliseconds: number;
}

/** Longer than anything here takes, so that a bench ends. */
const answerWithinMs = 300_000;

export class Fleet {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(program: string, args: readonly string[]) {
    this.#child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    process.once('exit', () => this.#child.kill('SIGKILL'));
    const { stdout } = this.#child;
    if (stdout === null) throw new Error('unreachable');
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  }

  static async open(...args: readonly string[]): Promise<Fleet> {
    return new Fleet(await requireTool('agent-load'), args);
  }

  /** Resolves when so many agents have their state; to the milliseconds that the new ones needed. */
  async connect(count: number): Promise<number> {
    this.#say(`connect ${count}`);
    const { startMs, lastMs } = await this.#hear<{ startMs: number; lastMs: number }>();
    return lastMs - startMs;
  }

  /** Runs `change`, and resolves when all agents have received an item that contains `text`. */
  expect(text: string, change: () => Promise<unknown>): Promise<Wave> {
    return this.#waitFor(`expect ${text}`, change);
  }

  /** Runs `restart`, and resolves when all agents lost their stream and have their state again. */
  lose(restart: () => Promise<unknown>): Promise<Wave> {
    return this.#waitFor('lost', restart);
  }

  async sign(seconds: number, batch: number): Promise<Signed> {
    this.#say(`sign ${seconds} ${batch}`);
    return this.#hear<Signed>();
  }

  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.stdin?.end();
    await ended;
  }

  async #waitFor(command: string, change: () => Promise<unknown>): Promise<Wave> {
    this.#say(command);
    await this.#hear();
    await change();
    return this.#hear<Wave>();
  }

  #say(command: string): void {
    this.#child.stdin?.write(`${command}\n`);
  }

  async #hear<T>(): Promise<T> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), answerWithinMs);
    const { value, done: isOver } = await this.#lines.next();
    clearTimeout(timer);
    if (isOver === true) throw new Error('the agents ended, or did not answer in time');
    return JSON.parse(value) as T;
  }
}

/** The label of all agents of the fleet, for the selectors of entries. */
export const fleetLabels = { fleet: 'bench' };

/** Joins so many agents, and writes the file with their identities that the Go program reads. */
export async function joinFleet(
  admin: ApiClient,
  site: { readonly url: string; readonly trustDomain: string; readonly caFile: string },
  folder: string,
  count: number,
): Promise<string> {
  const secret = await createAgentToken(admin, 'fleet');
  const trustDomain = TrustDomain.parse(site.trustDomain);
  const authorities = parseCertificatesPem(await readFile(site.caFile, 'utf8'), 16);
  const server: JoinServer = {
    url: new URL(site.url),
    bundle: new Bundle(trustDomain, authorities),
  };
  const agents: { name: string; chain: string[]; key: string }[] = [];
  const names = Array.from({ length: count }, (_, i) => `load-${i}`).values();
  const worker = async (): Promise<void> => {
    for (const name of names) {
      const key = await generateP256(systemRandom);
      const { chain } = await joinBySecret(
        { server, clock: systemClock, random: systemRandom, key },
        { token: 'fleet', role: 'agent', name },
        decodeSecret(secret),
      );
      agents.push({
        name,
        chain: chain.map(({ der }) => der.toString('base64')),
        key: exportPkcs8(key).toString('base64'),
      });
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  const file = join(folder, 'identities.json');
  const bundle = authorities.map(({ der }) => der.toString('base64'));
  const text = JSON.stringify({ bundle, agents });
  await writeFile(file, text, { mode: 0o600 });
  return file;
}

/** Creates a token whose agents get the labels of the fleet; resolves to its secret. */
export async function createAgentToken(admin: ApiClient, name: string): Promise<string> {
  await create(admin, 'JoinToken', 'jointokens', name, {
    method: 'secret',
    roles: ['agent'],
    expiresAt: '2099-01-01T00:00:00Z',
    labels: fleetLabels,
  });
  const made = await done(admin.request('POST', `/hansa/v1/join/secrets/${name}`, {}));
  return (JSON.parse(made.text) as { readonly secret: string }).secret;
}

// Two sites with the real peering plane on a network without faults, for cases that random
// scenarios reach too rarely.

import assert from 'node:assert/strict';
import { federationPeerKind, type FederationPeer } from '../../../src/api/kinds/federation-peer.ts';
import { noDiskFaults } from '../disk.ts';
import { Simulation } from '../simulation.ts';
import { Operators } from './operators.ts';
import type { ThreadSite } from './site.ts';
import { World } from './world.ts';

export const lubeck = 'lubeck.example';
export const bruges = 'bruges.example';
const longestMs = 30_000;

export class TwoSites {
  readonly simulation: Simulation;
  readonly world: World;
  readonly operators: Operators;

  private constructor(simulation: Simulation) {
    this.simulation = simulation;
    this.world = new World(simulation, [lubeck, bruges], { deaths: 0, disk: noDiskFaults });
    this.operators = new Operators(this.world);
    for (const name of [lubeck, bruges]) {
      simulation.node(name, (process) => this.world.boot(process));
    }
  }

  static async start(seed: string): Promise<TwoSites> {
    const sites = new TwoSites(
      new Simulation(seed, { loss: 0, duplication: 0, longestDelayMs: 5 }),
    );
    await sites.until(
      async () => [lubeck, bruges].every((name) => sites.world.site(name) !== undefined),
      'both sites are up',
    );
    return sites;
  }

  site(name: string): ThreadSite {
    const site = this.world.site(name);
    assert.ok(site !== undefined, `${name} is not up`);
    return site;
  }

  state(site: string, peer: string): string | undefined {
    return this.world.witness.peer(site, peer)?.state;
  }

  peers(name: string) {
    return this.site(name).resources<FederationPeer>(federationPeerKind);
  }

  /** How many requests for this path both sites answered. */
  answered(path: string): number {
    return this.world.answers.get(path) ?? 0;
  }

  /** Lets time pass until the task ends. */
  async done<T>(task: Promise<T>): Promise<T> {
    let ended = false;
    const finished = task.finally(() => {
      ended = true;
    });
    finished.catch(() => undefined);
    await this.until(async () => ended, 'it ends');
    return finished;
  }

  /** Lets time pass until it holds; resolves to how long that took, in simulated milliseconds. */
  async until(holds: () => Promise<boolean>, what: string): Promise<number> {
    const startedMs = this.simulation.clock.monotonic();
    for (;;) {
      if (await holds()) return this.simulation.clock.monotonic() - startedMs;
      const sinceMs = this.simulation.clock.monotonic() - startedMs;
      assert.ok(
        sinceMs < longestMs,
        `not within ${longestMs} ms: ${what}\n${this.simulation.trace.last.join('\n')}`,
      );
      await this.simulation.run(10);
    }
  }

  /** One invites, the other accepts, and both are active. */
  async peer(inviter: string, acceptor: string): Promise<void> {
    const line = await this.done(this.operators.invite(inviter, acceptor));
    await this.done(this.operators.ask(acceptor, 'accept', { invitation: line }));
    if (this.state(inviter, acceptor) === 'proposed') {
      await this.done(this.operators.ask(inviter, `confirm/${acceptor}`));
    }
    await this.untilActive();
  }

  untilActive(): Promise<number> {
    return this.until(
      async () =>
        this.state(lubeck, bruges) === 'active' && this.state(bruges, lubeck) === 'active',
      'both are active',
    );
  }
}

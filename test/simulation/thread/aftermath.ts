// What happens to audit logs after the faults have ended, when sites are peers: a site shows its peers a forked log,
// an old copy of a disk is put back with its signing key, or a site is restored from a backup. Peers must find out,
// and what they and their operators then do must lead to logs that are witnessed again, or stopped for good.

import assert from 'node:assert/strict';
import { parseCheckpoint } from '../../../src/core/audit/checkpoint.ts';
import { noteSigner } from '../../../src/core/audit/note.ts';
import {
  latestRestore,
  restoreCollection,
  signRestore,
} from '../../../src/core/audit/restore-record.ts';
import type { SeededRandom } from '../../../src/core/clock/seeded-random.ts';
import type { MemoryDatabase } from '../../../src/core/store/memory/driver.ts';
import { findingId } from '../../../src/peering/witness/finding.ts';
import { writeRow } from '../disk.ts';
import type { HostileLog } from './hostile-log.ts';
import type { Operators } from './operators.ts';
import { type Pair, settle, until, untilNone } from './settled.ts';
import type { ThreadSite } from './site.ts';
import type { World } from './world.ts';

const cutMs = 4000;

export class Aftermath {
  readonly #world: World;
  readonly #operators: Operators;
  readonly #pairs: readonly Pair[];
  readonly #random: SeededRandom;

  /** `pairs`: those that are peers now. */
  constructor(world: World, operators: Operators, pairs: readonly Pair[]) {
    this.#world = world;
    this.#operators = operators;
    this.#pairs = pairs;
    this.#random = world.simulation.random.fork('aftermath');
  }

  /**
   * Its peers have a finding at once, and cosign the log again after its lies have ended. Unless a peer had seen
   * nothing else of it, and showed it its own forged checkpoint: then it signs no more.
   */
  async expose(hostile: HostileLog): Promise<void> {
    const peers = this.#peersOf(hostile.name);
    this.#world.simulation.event(`${hostile.name} shows a fork`);
    hostile.isBlatant = true;
    await this.#untilNone(peers, (peer) =>
      this.#world.logs.witnessed(peer, hostile.name)?.finding === undefined
        ? `${peer} has no finding about the forked log of ${hostile.name}`
        : undefined,
    );
    this.#world.distort = undefined;
    await this.#untilNone(peers, async (peer) => {
      if (this.#world.logs.isStopped(hostile.name)) return undefined;
      await this.#acknowledge(peer, hostile.name);
      return this.#uncosigned(hostile.name, peer);
    });
  }

  /** An old copy of a disk is put back, and with it the key that signs the log. */
  async forget(): Promise<void> {
    const { one: name } = this.#random.pick(this.#pairs);
    const peers = this.#peersOf(name);
    const copy = await this.#copyAndGoOn(name, peers);
    await this.#restart(name, peers, copy);
    const { logs } = this.#world;
    // Every peer has seen more of the log than there is now.
    await this.#untilNone(peers, (peer) => {
      if (!logs.isStopped(name)) return `${name} still signs its log`;
      const { finding } = logs.witnessed(peer, name) ?? {};
      return finding === undefined ? `${peer} has no finding about ${name}` : undefined;
    });
    await settle(this.#world, this.#operators, this.#pairs);
  }

  /** A site is restored from a backup, with a record that its key has signed. */
  async restore(): Promise<void> {
    const { one: name } = this.#random.pick(this.#pairs);
    const peers = this.#peersOf(name);
    const site = this.#world.site(name) as ThreadSite;
    const copy = await this.#copyAndGoOn(name, peers);
    const origin = `${name}/log/2`;
    await writeRestore(copy, site, origin);
    await this.#restart(name, peers, copy, origin);
    const { logs } = this.#world;
    await this.#untilNone(peers, (peer) => {
      const { finding, key = '' } = logs.witnessed(peer, name) ?? {};
      const isShown = finding?.reason === 'Restored' && key.startsWith(`${origin}+`);
      return isShown ? undefined : `${peer} does not show the restore of ${name}`;
    });
    assert.equal(logs.isStopped(name), false, `${name} stopped signing after its restore`);
    await this.#untilNone(peers, async (peer) => {
      await this.#acknowledge(peer, name);
      // A mutual peer may have confirmed it.
      await this.#ask(name, `witness/${peer}/confirm`);
      return this.#uncosigned(name, peer) ?? this.#uncosigned(peer, name);
    });
    await settle(this.#world, this.#operators, this.#pairs);
  }

  #peersOf(name: string): readonly string[] {
    return this.#pairs.flatMap(({ one, other }) =>
      one === name ? [other] : other === name ? [one] : [],
    );
  }

  /** Copies the disk. Then the site writes more, until its peers have seen it. */
  async #copyAndGoOn(name: string, peers: readonly string[]): Promise<MemoryDatabase> {
    const copy = this.#world.database(name).copy();
    const random = this.#random.fork(`writes of ${name}`);
    await this.#untilNone(peers, async (peer) => {
      const seen = this.#world.logs.witnessed(peer, name)?.size ?? 0;
      if (seen > copy.head.treeSize + 2) return undefined;
      await until(this.#world, this.#operators.grant(name, peer, random), 'a grant is written');
      return `${peer} has not seen the newest records of ${name}`;
    });
    return copy;
  }

  /** At first, some messages get through in one direction only. */
  async #restart(
    name: string,
    peers: readonly string[],
    copy: MemoryDatabase,
    origin?: string,
  ): Promise<void> {
    const { network, clock } = this.#world.simulation;
    this.#world.crash(name, 500);
    this.#operators.acknowledged.putBack(name);
    this.#world.putBack(name, copy, origin);
    for (const peer of peers) {
      const way = this.#random.pick(['none', 'none', 'there', 'back']);
      if (way === 'there') network.cut(name, peer);
      if (way === 'back') network.cut(peer, name);
    }
    clock.timer(cutMs, () => network.heal());
    await this.#untilNone([name], () =>
      this.#world.site(name) === undefined ? `${name} is not up` : undefined,
    );
  }

  /** An operator ends the finding of the site about its peer, where there is one. */
  async #acknowledge(site: string, peer: string): Promise<void> {
    const { finding } = this.#world.logs.witnessed(site, peer) ?? {};
    if (finding === undefined) return;
    await this.#ask(site, `witness/${peer}/acknowledge`, { finding: findingId(finding) });
  }

  async #ask(site: string, path: string, body: object = {}): Promise<void> {
    await until(this.#world, this.#operators.ask(site, path, body), path);
  }

  /** Why the newest records of the log are not cosigned by this witness. */
  #uncosigned(log: string, witness: string): string | undefined {
    const size = this.#world.database(log).database.head.treeSize;
    const note = this.#world.database(log).read('audit.cosignatures', witness);
    const held =
      note && parseCheckpoint((JSON.parse(note.toString('utf8')) as { note: string }).note);
    const isNew = held !== undefined && held.size > 0 && held.size > size - 50;
    const { finding } = this.#world.logs.witnessed(witness, log) ?? {};
    return isNew && finding === undefined
      ? undefined
      : `${witness} has cosigned ${held?.size ?? 0} of ${size} records of ${log} (${finding?.reason ?? 'no finding'})`;
  }

  #untilNone(
    peers: readonly string[],
    problem: (peer: string) => string | undefined | Promise<string | undefined>,
  ): Promise<void> {
    return untilNone(this.#world, async () => {
      for (const peer of peers) {
        const found = await problem(peer);
        if (found !== undefined) return found;
      }
      return undefined;
    });
  }
}

/** As restoring a backup will do: a new log, and the record that names it. */
async function writeRestore(copy: MemoryDatabase, site: ThreadSite, origin: string): Promise<void> {
  const { name, logKey, process } = site;
  const [ended, next] = [noteSigner(name, logKey), noteSigner(origin, logKey)];
  const stored = [...copy.changes.values()].findLast(
    (row) => row.collection === 'audit.checkpoints' && row.name === 'latest',
  )?.value;
  assert.ok(stored !== undefined, `the backup of ${name} has no checkpoint`);
  const time = new Date(process.clock.now()).toISOString();
  const { note } = await signRestore(ended, next, parseCheckpoint(stored.toString('utf8')), time);
  copy.audit.length = 0;
  copy.subtrees.length = 0;
  copy.head = { ...copy.head, treeSize: 0, frontier: Buffer.alloc(0) };
  writeRow(copy, 'audit.checkpoints', 'latest', undefined);
  writeRow(copy, restoreCollection, latestRestore, Buffer.from(note));
}

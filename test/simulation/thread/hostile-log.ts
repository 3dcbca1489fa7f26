// A site that lies about audit logs, with its own keys: it shows its peers forked, shrunken and foreign logs, wrong
// proofs and keys, old cosignatures, and invented checkpoints of their logs. In everything else it is a good peer.

import type { KeyObject } from 'node:crypto';
import { type SignedCheckpoint, signCheckpoint } from '../../../src/core/audit/checkpoint.ts';
import { introduceLog } from '../../../src/core/audit/introduction.ts';
import { noteSigner } from '../../../src/core/audit/note.ts';
import { signRestore } from '../../../src/core/audit/restore-record.ts';
import type { SeededRandom } from '../../../src/core/clock/seeded-random.ts';
import { paths } from '../../../src/peering/messages.ts';
import {
  encodeLogPart,
  type LogPart,
  parseLogPart,
} from '../../../src/peering/witness/log-part.ts';
import type { Process } from '../simulation.ts';
import { seededKey } from '../seeded-key.ts';
import type { World } from './world.ts';

type Lie = (part: LogPart, to: string, key: KeyObject) => LogPart | Promise<LogPart>;

export class HostileLog {
  readonly name: string;
  readonly #world: World;
  readonly #random: SeededRandom;
  /** What it said to each site before, the oldest first. */
  readonly #said = new Map<string, LogPart[]>();
  readonly #lies: readonly Lie[];
  /** Tells every peer the worst, from here on. */
  isBlatant = false;

  constructor(world: World, name: string) {
    this.name = name;
    this.#world = world;
    this.#random = world.simulation.random.fork('hostile log');
    this.#lies = [
      (part, to, key) => this.#fork(part, to, key, 0),
      (part, to, key) => this.#fork(part, to, key, this.#random.integer(1, 9)),
      (part, to) => this.#earlier(part, to, 'checkpoint'),
      (part, to) => this.#earlier(part, to, 'held'),
      (part, to, key) => this.#inventHeld(part, to, key),
      (part, _to, key) => this.#passOn(part, key),
      (part) => this.#wrongProofs(part),
      (part, to) => this.#otherKey(part, to),
      (part) => this.#falseRestore(part),
      ({ checkpoint: _none, ...part }) => part,
      (part) => ({ ...part, seen: this.#random.integer(0, 500) }),
    ];
    world.logs.suspects.add(name);
    world.distort = (process, to, path, body) => this.#distort(process, to, path, body);
  }

  async #distort(process: Process, to: string, path: string, body: Buffer): Promise<Buffer> {
    const key = this.#world.site(this.name)?.logKey;
    if (process.node !== this.name || path !== paths.heartbeat || key === undefined) return body;
    const message = JSON.parse(body.toString('utf8')) as { readonly log?: unknown };
    if (message.log === undefined) return body;
    const part = parseLogPart(message.log);
    const said = this.#said.get(to) ?? [];
    this.#said.set(to, said);
    if (said.length < 20) said.push(part);
    if (!this.isBlatant && !this.#random.chance(0.4)) return body;
    const lie = this.isBlatant ? this.#lies[0] : this.#random.pick(this.#lies);
    const log = await (lie as Lie)(part, to, key);
    return Buffer.from(JSON.stringify({ ...message, log: encodeLogPart(log) }));
  }

  #invented(origin: string, key: KeyObject, size: number): Promise<SignedCheckpoint> {
    return signCheckpoint(noteSigner(origin, key), { size, rootHash: this.#random.take(32) });
  }

  /** Its own log, with other records: as many as the receiver has seen, or more than it has shown. */
  async #fork(part: LogPart, to: string, key: KeyObject, longerBy: number): Promise<LogPart> {
    const { checkpoint } = part;
    if (checkpoint === undefined) return part;
    const seen = this.#world.logs.witnessed(to, this.name)?.size ?? 0;
    const size = longerBy === 0 && seen > 0 ? seen : checkpoint.size + longerBy;
    return { ...part, checkpoint: await this.#invented(this.name, key, size), seen };
  }

  /** A log that shrank, or an old cosignature. */
  #earlier(part: LogPart, to: string, what: 'checkpoint' | 'held'): LogPart {
    const old = this.#random.pick(this.#said.get(to) ?? [part])[what];
    return old === undefined ? part : { ...part, [what]: old };
  }

  /** A checkpoint of the log of the receiver, which the receiver has not signed. */
  async #inventHeld(part: LogPart, to: string, key: KeyObject): Promise<LogPart> {
    const held = await this.#invented(to, key, (part.held?.size ?? 0) + 3);
    return { ...part, held };
  }

  /** Checkpoints of other logs, which they have not signed. */
  async #passOn(part: LogPart, key: KeyObject): Promise<LogPart> {
    const origin = this.#random.pick(this.#world.names);
    const other = await this.#invented(origin, key, this.#random.integer(1, 500));
    return { ...part, passesOn: true, others: [other] };
  }

  #wrongProofs(part: LogPart): LogPart {
    return {
      ...part,
      proofs: part.proofs.map(({ from, hashes }) => ({ from, hashes: hashes.slice(1) })),
    };
  }

  async #otherKey(part: LogPart, to: string): Promise<LogPart> {
    const other = noteSigner(this.name, seededKey(this.#random));
    return { ...part, introduction: await introduceLog(other, this.name, to) };
  }

  /** A restore that another key has signed. */
  async #falseRestore(part: LogPart): Promise<LogPart> {
    const key = seededKey(this.#random);
    const [ended, next] = [noteSigner(this.name, key), noteSigner(`${this.name}/log/7`, key)];
    const head = { size: 1, rootHash: this.#random.take(32) };
    const { note } = await signRestore(ended, next, head, '2026-01-01T00:00:00Z');
    return { ...part, restored: note };
  }
}

// Keeps the state of an agent on disk, so that it can serve after a restart while the site is down. It
// also keeps the newest accepted version, because an agent accepts no older state, and the time of the
// last contact, because ext_authz denies after too long without the site.

import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { StateSchema } from '../../../proto/gen/agent_pb.ts';
import type { StateFloor } from '../../core/agent/held-state.ts';
import { type AgentItem, hashState, type StateVersion } from '../../core/agent/state.ts';
import { maxStateBytes, readState } from '../../core/agent/to-agent.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { writeNewFile } from '../../core/command/new-file.ts';
import type { Log } from '../../core/log/log.ts';
import { readDataFile, replaceSecretFile } from '../../core/plane/data-files.ts';
import { type AgentFolder, readJsonFile } from './agent-folder.ts';

export interface KeptState {
  readonly version: StateVersion;
  readonly items: readonly AgentItem[];
}

/** Undefined where it is unknown. */
export interface KeptContact {
  /** Wall time. */
  readonly lastContactMs: number | undefined;
  /** How long the agent had been without contact when it wrote this; undefined: it was connected. */
  readonly offlineMs: number | undefined;
}

/** What the agent knows of the site when it starts. */
export interface Kept {
  readonly floor: StateFloor | undefined;
  readonly contact: KeptContact;
  readonly state: KeptState | undefined;
}

const magic = 'hansa-agent-state-1';
/** The first line names the member; the state follows. */
const maxHeaderBytes = 4096;
const fileMode = 0o600;

export interface AgentCacheParts {
  readonly folder: Pick<AgentFolder, 'stateFile' | 'contactFile'>;
  readonly log: Log;
  /** Whose state it is: the SPIFFE ID of the agent. A state of another one is not used. */
  readonly owner: string;
}

export class AgentCache {
  readonly #parts: AgentCacheParts;
  /** Of the newest state. */
  #floor: StateFloor | undefined;
  /** Of the state on the disk: a state that is older than the stored floor is not used. */
  #written: StateFloor | undefined;
  #newest: KeptState | undefined;
  /** The write that has not begun yet. */
  #next: Promise<void> | undefined;
  #writing: Promise<void> = Promise.resolve();
  /** By path. */
  readonly #problems = new Map<string, string>();

  constructor(parts: AgentCacheParts) {
    this.#parts = parts;
  }

  /** Why the last writes failed. A file that could be written again has none. */
  get problems(): readonly string[] {
    return [...this.#problems.values()];
  }

  /** A damaged or foreign file counts as absent, and the log says so. */
  load(): Kept {
    const { floor: known, contact } = readContact(this.#parts.folder.contactFile);
    const state = this.#loadState(known);
    const floor = newest(known, state?.version);
    this.#floor = floor;
    this.#written = floor;
    return { floor, contact, state };
  }

  /**
   * Resolves when this state, or a newer one, is on the disk, or when it cannot be written: the agent
   * goes on with what it has in memory. States that arrive during a write are written once.
   */
  keep(state: KeptState): Promise<void> {
    const { incarnation, revision, epoch } = state.version;
    this.#floor = { incarnation, revision, epoch };
    this.#newest = state;
    this.#next ??= this.#write(this.#writing);
    return this.#next;
  }

  /** Stores the time of the last contact, with the newest version. */
  contact({ lastContactMs, offlineMs }: KeptContact): void {
    const path = this.#parts.folder.contactFile;
    // Infinity becomes null, and so unknown.
    const rounded = offlineMs === undefined ? undefined : Math.round(offlineMs);
    const content = { ...this.#written, lastContactMs, offlineMs: rounded };
    try {
      writeNewFile(`${path}.next`, JSON.stringify(content), fileMode);
      renameSync(`${path}.next`, path);
      this.#problems.delete(path);
    } catch (error) {
      this.#failed(path, `cannot write ${path}: ${fileProblem(error)}`);
    }
  }

  /** Removes the state, not the newest version. */
  async drop(contact: KeptContact): Promise<void> {
    this.#newest = undefined;
    await this.close();
    this.#written = this.#floor;
    this.contact(contact);
    const left = await this.#remove();
    if (left !== undefined) this.#failed(this.#parts.folder.stateFile, left);
  }

  /** Waits for writes. */
  async close(): Promise<void> {
    await this.#next;
    await this.#writing;
  }

  #loadState(floor: StateFloor | undefined): KeptState | undefined {
    const { folder, owner, log } = this.#parts;
    try {
      const stored = readDataFile(folder.stateFile, maxStateBytes + maxHeaderBytes);
      if (stored === undefined) return undefined;
      const state = parseState(stored, owner);
      if (isOlder(state.version, floor)) throw new Error('the agent has accepted a newer state');
      return state;
    } catch (error) {
      log.error('cannot use the cached state; the agent starts without it', {
        file: folder.stateFile,
        why: fileProblem(error),
      });
      return undefined;
    }
  }

  async #write(before: Promise<void>): Promise<void> {
    await before;
    const { folder, owner } = this.#parts;
    this.#writing = this.#next ?? before;
    this.#next = undefined;
    const state = this.#newest;
    if (state === undefined) return;
    try {
      await replaceSecretFile(folder.stateFile, encodeState(state, owner));
      this.#problems.delete(folder.stateFile);
    } catch (error) {
      // An older state would bring back what the site has withdrawn. Removing it needs no space.
      const left = await this.#remove();
      const why = `cannot write ${folder.stateFile}: ${fileProblem(error)}`;
      this.#failed(folder.stateFile, left === undefined ? why : `${why}; ${left}`);
    }
    const { incarnation, revision, epoch } = state.version;
    this.#written = { incarnation, revision, epoch };
  }

  /** Why the stored state is still there; undefined: it is not. */
  async #remove(): Promise<string | undefined> {
    const { stateFile } = this.#parts.folder;
    try {
      await rm(stateFile, { force: true });
      return undefined;
    } catch (error) {
      return `cannot remove the older state in ${stateFile}: ${fileProblem(error)}; a restart while the site is away may bring back what the site has withdrawn, so repair the disk, or remove the file`;
    }
  }

  #failed(path: string, why: string): void {
    this.#problems.set(path, why);
    this.#parts.log.error('cannot keep the state of the agent', { file: path, why });
  }
}

function encodeState({ version, items }: KeptState, owner: string): Buffer {
  const { incarnation, revision, epoch, hash } = version;
  const state = create(StateSchema, {
    version: { incarnation, revision: BigInt(revision), epoch: BigInt(epoch), hash },
    put: items.map(({ section, collection, name, value }) => ({
      name: { section, collection, name },
      value,
    })),
  });
  return Buffer.concat([Buffer.from(`${magic} ${owner}\n`), toBinary(StateSchema, state)]);
}

function parseState(bytes: Buffer, owner: string): KeptState {
  const end = bytes.subarray(0, maxHeaderBytes).indexOf('\n');
  const [found, whose] = bytes.subarray(0, Math.max(0, end)).toString('utf8').split(' ');
  if (found !== magic) throw new Error('it is not the state of an agent');
  if (whose !== owner) throw new Error(`it is the state of ${whose ?? ''}, not of ${owner}`);
  let read: ReturnType<typeof readState>;
  try {
    read = readState(fromBinary(StateSchema, bytes.subarray(end + 1)));
  } catch {
    throw new Error('it is damaged');
  }
  if (!hashState(read.put).equals(read.version.hash)) throw new Error('it is damaged');
  return { version: read.version, items: read.put };
}

function readContact(path: string): Pick<Kept, 'floor' | 'contact'> {
  const read = readJsonFile(path) ?? {};
  const { incarnation, revision, epoch, lastContactMs, offlineMs } = read;
  const hasLength = offlineMs === undefined || isTime(offlineMs);
  return {
    floor:
      typeof incarnation === 'string' && isCount(revision) && isCount(epoch)
        ? { incarnation, revision, epoch }
        : undefined,
    contact: {
      // Without a known length, as after a start without it, the time is worth nothing.
      lastContactMs: isTime(lastContactMs) && hasLength ? lastContactMs : undefined,
      offlineMs: isTime(offlineMs) ? offlineMs : undefined,
    },
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** A time that a Date can show (ECMA-262 §21.4.1.1), or a duration before now of which it can show the start. */
function isTime(value: unknown): value is number {
  return isCount(value) && value <= 8.64e15;
}

/** The rules by which an agent refuses a state of the site. */
function isOlder(version: StateVersion, floor: StateFloor | undefined): boolean {
  if (floor === undefined) return false;
  if (version.epoch < floor.epoch) return true;
  return version.incarnation === floor.incarnation && version.revision < floor.revision;
}

/** The file of the contact may be older or newer than the state. */
function newest(
  one: StateFloor | undefined,
  other: StateFloor | undefined,
): StateFloor | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const later =
    one.epoch > other.epoch || (one.epoch === other.epoch && one.revision > other.revision)
      ? one
      : other;
  const { incarnation, revision, epoch } = later;
  return { incarnation, revision, epoch };
}

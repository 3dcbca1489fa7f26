// The folder of a member: svid.pem, svid.key, bundle.pem, and join.json with the data for renewals. The
// files change together, even across a crash: new files are written beside the old ones, join.json.next
// last, and then renamed. The next command completes an interrupted change.

import { createPrivateKey, type KeyObject } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Random } from '../../core/clock/clock.ts';
import type { Bundle } from '../../core/identity/bundle/bundle.ts';
import { exportPkcs8, generateP256 } from '../../core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import type { Joined } from './join-client.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { readOwnFile, writeNewFile } from '../../core/command/new-file.ts';
import { readDataFile } from '../../core/plane/data-files.ts';
import { removeMade } from './svid-files.ts';
import { usageError } from '../../core/command/usage-error.ts';

/** What join.json holds. */
export interface Membership {
  readonly server: string;
  readonly trustDomain: string;
  readonly spiffeId: string;
  readonly instance: string;
  readonly generation: string;
  /** How long after its expiry the SVID can be renewed. Older versions wrote none, and then it cannot. */
  readonly reattestSeconds?: number;
}

const files = ['svid.key', 'svid.pem', 'bundle.pem', 'join.json'] as const;
type FileName = (typeof files)[number];
/** Only the owner can read the files. */
const fileMode = 0o600;
/** A bundle with many authorities. */
const maxFileBytes = 4 * 1024 * 1024;

export class JoinFolder {
  readonly path: string;
  /** The outermost folder that was made here. */
  #made: string | undefined;
  #hasNewKey = false;

  constructor(path: string) {
    this.path = path;
    this.#do('use', () => {
      if (existsSync(this.#next('join.json'))) this.#move();
    });
  }

  /** Undefined if the folder has no member yet. */
  get membership(): Membership | undefined {
    const path = join(this.path, 'join.json');
    if (!existsSync(path)) return undefined;
    const read = JSON.parse(this.read('join.json')) as Membership;
    if (
      [read.server, read.trustDomain, read.instance, read.generation].every(
        (each) => typeof each === 'string',
      )
    ) {
      return read;
    }
    throw usageError(
      `${path} is damaged or not written by hansa join. Join again with another folder.`,
    );
  }

  read(name: FileName): string {
    const path = join(this.path, name);
    return this.#do('read', () => {
      const content = readDataFile(path, maxFileBytes);
      if (content === undefined) throw new Error(`${name} does not exist`);
      return content.toString('utf8');
    });
  }

  /**
   * The key for the next SVID, stored before the site is called: the key of an attempt whose
   * response was lost, or a new key.
   */
  async nextKey(random: Random): Promise<KeyObject> {
    // Otherwise another user who can write to the folder could get his or her own key certified.
    const waiting = readOwnFile(this.#next('svid.key'));
    if (waiting !== undefined) {
      try {
        return createPrivateKey(waiting);
      } catch {
        // An incomplete file: no call has used this key.
      }
    }
    const key = await generateP256(random);
    this.#hasNewKey = true;
    this.#do('write', () => this.#lay('svid.key', privateKeyPem(exportPkcs8(key))));
    return key;
  }

  /** After a refusal: removes the key that was made for it. One of an earlier attempt stays. */
  abandonKey(): void {
    if (!this.#hasNewKey) return;
    rmSync(this.#next('svid.key'), { force: true });
    if (this.#made !== undefined) removeMade(this.path, this.#made);
  }

  /** With the key of `nextKey`. */
  keep(joined: Joined, server: URL): void {
    const membership: Membership = {
      server: server.origin,
      trustDomain: joined.id.trustDomain.name,
      spiffeId: joined.id.toString(),
      instance: joined.instance,
      generation: joined.generation.toString(),
      reattestSeconds: joined.reattestSeconds,
    };
    this.#do('write', () => {
      this.#lay('svid.pem', joined.chain.map(({ der }) => certificatePem(der)).join(''));
      this.#lay('bundle.pem', joined.bundle.pem);
      this.#lay('join.json', joinJson(membership));
      this.#move();
    });
  }

  /**
   * Between two renewals, so that the next one finds a site whose authority has changed. Writes nothing
   * where the bundle is the same: an agent stores it before it takes the next state.
   */
  keepBundle(bundle: Bundle): void {
    const path = join(this.path, 'bundle.pem');
    if (existsSync(path) && this.read('bundle.pem') === bundle.pem) return;
    this.#do('write', () => {
      this.#lay('bundle.pem', bundle.pem);
      renameSync(this.#next('bundle.pem'), path);
    });
  }

  /** The site answers at another address now. */
  keepServer(server: URL): void {
    const { membership } = this;
    if (membership === undefined || membership.server === server.origin) return;
    // Not join.json.next, which completes a renewal.
    const next = join(this.path, 'join.json.moved');
    this.#do('write', () => {
      writeNewFile(next, joinJson({ ...membership, server: server.origin }), fileMode);
      renameSync(next, join(this.path, 'join.json'));
    });
  }

  #lay(name: FileName, content: string): void {
    this.#made ??= mkdirSync(this.path, { recursive: true, mode: 0o700 });
    writeNewFile(this.#next(name), content, fileMode);
  }

  /** Safe to do again. */
  #move(): void {
    for (const name of files) {
      const next = this.#next(name);
      if (existsSync(next)) renameSync(next, join(this.path, name));
    }
  }

  #next(name: FileName): string {
    return join(this.path, `${name}.next`);
  }

  #do<T>(what: string, work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw usageError(`Cannot ${what} ${this.path}: ${fileProblem(error)}.`);
    }
  }
}

function joinJson(membership: Membership): string {
  return `${JSON.stringify(membership, null, 2)}\n`;
}

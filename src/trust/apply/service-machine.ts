// Looks at the machine, or at the root folder of an image, and carries out the steps that install or
// remove the service of an agent.

import { execFile } from 'node:child_process';
import {
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Random } from '../../core/clock/clock.ts';
import { fileProblem } from '../../core/command/file-problem.ts';
import { writeNewFile } from '../../core/command/new-file.ts';
import { HansaError } from '../../core/errors/error.ts';
import { loadOrCreateKey } from '../../core/store/sealing/key-file.ts';
import { sealedIn } from '../agent/agent-folder.ts';
import { type Act, type FoundMachine, type Step, unitPath } from '../install/install-plan.ts';

/** Other users can reach the socket in it, but cannot list it. */
const dataDirMode = 0o711;

export class ServiceMachine {
  readonly #random: Random;
  readonly #root: string | undefined;

  /** `root` is the root folder of an image, absolute. */
  constructor(random: Random, root?: string) {
    this.#random = random;
    this.#root = root;
  }

  /** The content of the unit file; undefined if there is none. */
  get unit(): string | undefined {
    const path = this.at(unitPath);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }

  look(dataDir: string, user: string, hasJoined: (folder: string) => boolean): FoundMachine {
    const folder = this.at(dataDir);
    const found = lstatSync(folder, { throwIfNoEntry: false });
    if (found !== undefined && !found.isDirectory()) {
      throw new HansaError('HANSA_CONFLICT', `${folder} is not a folder.`);
    }
    return {
      root: this.#root,
      callerIsRoot: process.geteuid?.() === 0,
      // sd_booted(3)
      runsSystemd: existsSync('/run/systemd/system'),
      unit: this.unit,
      hasDropIns: existsSync(this.at(`${unitPath}.d`)),
      userId: this.#idOf('passwd', user),
      hasGroup: this.#idOf('group', user) !== undefined,
      dataDir: found && {
        ownerId: found.uid,
        isEmpty: holdsOnly(folder, 'secrets') && holdsOnly(join(folder, 'secrets'), 'identity'),
        hasJoined: hasJoined(folder),
      },
    };
  }

  async carryOut({ text, act }: Step): Promise<void> {
    try {
      await this.#act(act);
    } catch (error) {
      const { stderr } = error as { readonly stderr?: string };
      const why = stderr?.trim().replaceAll('\n', ' ') || fileProblem(error);
      throw new HansaError(
        'HANSA_INTERNAL',
        `This step failed: ${text}. ${why} The steps before it are done. Repeat the command to continue.`,
        { cause: error },
      );
    }
  }

  async #act(act: Act): Promise<void> {
    if (act.kind === 'run') {
      await promisify(execFile)(act.program, [...act.args]);
    } else if (act.kind === 'write') {
      const path = this.at(act.path);
      mkdirSync(dirname(path), { recursive: true });
      writeNewFile(`${path}.new`, act.content, 0o644);
      renameSync(`${path}.new`, path);
    } else if (act.kind === 'remove') {
      rmSync(this.at(act.path), { recursive: true, force: true });
    } else {
      const user = this.#idOf('passwd', act.owner);
      const group = this.#idOf('group', act.owner);
      if (user === undefined || group === undefined) {
        throw new Error(`There is no user or no group ${act.owner}.`);
      }
      const path = this.at(act.path);
      mkdirSync(dirname(path), { recursive: true });
      if (act.kind === 'folder') mkdirSync(path, { recursive: true, mode: dataDirMode });
      else if (!existsSync(path)) {
        await loadOrCreateKey(path, this.#random, sealedIn(this.at(act.dataDir)));
      }
      handOver(path, user, group);
    }
  }

  #idOf(file: 'passwd' | 'group', name: string): number | undefined {
    const path = this.at(`/etc/${file}`);
    if (!existsSync(path)) return undefined;
    const line = readFileSync(path, 'utf8')
      .split('\n')
      .find((each) => each.startsWith(`${name}:`));
    const id = line?.split(':')[2] ?? '';
    return /^\d{1,10}$/.test(id) ? Number(id) : undefined;
  }

  /** Where a path of the machine is, for the running system. */
  at(path: string): string {
    return this.#root === undefined ? path : join(this.#root, path);
  }
}

/** Only what belongs to root: a user of the machine could have put a hard link to another file there. */
function handOver(path: string, user: number, group: number): void {
  const found = lstatSync(path);
  if (found.isDirectory()) {
    for (const name of readdirSync(path)) handOver(join(path, name), user, group);
  }
  if (found.uid === 0 && (found.isDirectory() || found.nlink === 1)) {
    lchownSync(path, user, group);
  }
}

/** Also where there is no such folder. */
function holdsOnly(folder: string, name: string): boolean {
  return !existsSync(folder) || readdirSync(folder).every((each) => each === name);
}

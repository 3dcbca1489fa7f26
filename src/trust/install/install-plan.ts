// Decides which steps install or remove the service of an agent, from what is on the machine. Pure.

import { join } from 'node:path';
import { HansaError } from '../../core/errors/error.ts';
import {
  agentUnit,
  type InstalledUnit,
  readUnit,
  unitName,
  type UnitSettings,
} from './agent-unit.ts';

export const defaultDataDir = '/var/lib/hansa-agent';
export const defaultUser = 'hansa-agent';
const keyFile = '/etc/hansa-agent.key';
export const unitPath = `/etc/systemd/system/${unitName}`;
/** Changes that `systemctl edit` keeps. */
const dropInsPath = `${unitPath}.d`;

/** What is on the machine. Paths are those of the machine, without the root folder of an image. */
export interface FoundMachine {
  /** The root folder of an image; undefined for the running machine. */
  readonly root?: string | undefined;
  readonly callerIsRoot: boolean;
  readonly runsSystemd: boolean;
  /** The content of the unit file. */
  readonly unit?: string | undefined;
  readonly hasDropIns: boolean;
  /** Undefined if there is no such user. */
  readonly userId?: number | undefined;
  readonly hasGroup: boolean;
  /** Undefined if it does not exist. */
  readonly dataDir?:
    | {
        readonly ownerId: number;
        /** Except for what an interrupted join leaves. */
        readonly isEmpty: boolean;
        readonly hasJoined: boolean;
      }
    | undefined;
}

export type Act =
  | { readonly kind: 'run'; readonly program: string; readonly args: readonly string[] }
  /** Creates the folder, and gives it and the files of root in it to the user. */
  | { readonly kind: 'folder'; readonly path: string; readonly owner: string }
  /** Creates a key file of the user, unless there is one. */
  | {
      readonly kind: 'key';
      readonly path: string;
      readonly owner: string;
      readonly dataDir: string;
    }
  | { readonly kind: 'write'; readonly path: string; readonly content: string }
  /** With everything in it. */
  | { readonly kind: 'remove'; readonly path: string };

export interface Step {
  /** For people, in the imperative. */
  readonly text: string;
  readonly act: Act;
}

export type InstallWish = Omit<UnitSettings, 'createsUser' | 'keyFile'>;

/** The unit for a machine on which nothing is installed. */
export function newUnit(wish: InstallWish): string {
  return agentUnit({ ...wish, keyFile, createsUser: true });
}

/** `joins` says that the agent joins before the first step. Throws where the machine does not allow it. */
export function planInstall(
  found: FoundMachine,
  wish: InstallWish,
  joins = false,
): readonly Step[] {
  const what = 'install the agent';
  checkCaller(found, what);
  checkPath(wish.dataDir, what);
  const before = installedUnit(found, what);
  if (before !== undefined && (before.dataDir !== wish.dataDir || before.user !== wish.user)) {
    throw new HansaError(
      'HANSA_ALREADY_EXISTS',
      `Cannot ${what}: it is installed with the data folder ${before.dataDir} and the user ${before.user}. Run hansa agent uninstall first.`,
    );
  }
  checkDataDir(found, wish, what);
  const { user, dataDir } = wish;
  const createsUser = before?.createsUser ?? found.userId === undefined;
  const hasJoined = joins || found.dataDir?.hasJoined === true;
  return [
    ...(found.hasGroup || found.userId !== undefined
      ? []
      : [run(`Create the group ${user}`, 'groupadd', ...prefix(found), '--system', user)]),
    ...(found.userId === undefined ? [createUser(found, user, dataDir)] : []),
    {
      text: `Create the folder ${dataDir}, owned by ${user}`,
      act: { kind: 'folder', path: dataDir, owner: user },
    },
    {
      text: `Create the key file ${keyFile}, which seals the cached keys of workloads`,
      act: { kind: 'key', path: keyFile, owner: user, dataDir },
    },
    {
      text: `Write ${unitPath}`,
      act: {
        kind: 'write',
        path: unitPath,
        content: agentUnit({ ...wish, keyFile, createsUser }),
      },
    },
    ...reload(found),
    run(`Enable ${unitName}`, 'systemctl', ...rootFlag(found), 'enable', unitName),
    ...(found.root === undefined && hasJoined
      ? [run(`Start ${unitName}`, 'systemctl', 'restart', unitName)]
      : []),
  ];
}

/** In an order in which a repeated command continues after an interruption: the unit file goes last. */
export function planUninstall(found: FoundMachine): readonly Step[] {
  const what = 'uninstall the agent';
  checkCaller(found, what);
  const installed = installedUnit(found, what);
  if (installed === undefined) {
    throw new HansaError(
      'HANSA_NOT_FOUND',
      `Cannot ${what}: there is no ${join(found.root ?? '/', unitPath)}.`,
    );
  }
  const { user, dataDir, keyFile: sealing, createsUser } = installed;
  checkPath(dataDir, what);
  const now = found.root === undefined ? ['--now'] : [];
  return [
    run(
      `${found.root === undefined ? 'Stop and disable' : 'Disable'} ${unitName}`,
      'systemctl',
      ...rootFlag(found),
      'disable',
      ...now,
      unitName,
    ),
    ...(found.dataDir === undefined
      ? []
      : [remove(dataDir, ', with the keys, the cache and the sockets of the agent')]),
    remove(sealing),
    ...(createsUser && found.userId !== undefined
      ? [run(`Remove the user ${user}`, 'userdel', ...prefix(found), user)]
      : []),
    ...(createsUser && found.hasGroup
      ? // `userdel` removes the group too, where the machine is configured so.
        [run(`Remove the group ${user}`, 'groupdel', ...prefix(found), '--force', user)]
      : []),
    ...(found.hasDropIns ? [remove(dropInsPath)] : []),
    remove(unitPath),
    ...reload(found),
  ];
}

/** The unit that is installed now; undefined if there is none. */
export function installedUnit(found: FoundMachine, what: string): InstalledUnit | undefined {
  if (found.unit === undefined) return undefined;
  const read = readUnit(found.unit);
  if (read !== undefined) return read;
  throw new HansaError(
    'HANSA_CONFLICT',
    `Cannot ${what}: hansa agent install did not write ${unitPath}. Remove or rename that file.`,
  );
}

function checkCaller(found: FoundMachine, what: string): void {
  if (!found.callerIsRoot) {
    throw new HansaError(
      'HANSA_FORBIDDEN',
      `Cannot ${what}: only root may do this. Use sudo, or run the agent as your own user: hansa agent run --help`,
    );
  }
  if (found.root === undefined && !found.runsSystemd) {
    throw new HansaError(
      'HANSA_UNAVAILABLE',
      `Cannot ${what}: this machine does not run systemd. Start hansa agent run with the service manager of this machine, or prepare an image with --root.`,
    );
  }
}

function checkPath(path: string, what: string): void {
  // oxlint-disable-next-line no-control-regex -- a control character would end the line of the unit
  const isPlain = !/[\u0000-\u001f\u007f]/.test(path);
  // A folder directly below / belongs to the system.
  const isDeep = /^\/[^/]+\/.*[^/]/.test(path) && !path.split('/').includes('..');
  if (isPlain && isDeep) return;
  throw new HansaError(
    'HANSA_USAGE',
    `Cannot ${what} with the data folder ${JSON.stringify(path)}: use an absolute path with at least two parts, such as ${defaultDataDir}.`,
  );
}

/** `uninstall` removes this folder with everything in it, so it must be the agent's own. */
function checkDataDir({ dataDir, userId }: FoundMachine, wish: InstallWish, what: string): void {
  if (dataDir === undefined) return;
  if (dataDir.ownerId !== 0 && dataDir.ownerId !== userId) {
    throw new HansaError(
      'HANSA_CONFLICT',
      `Cannot ${what}: the folder ${wish.dataDir} belongs to another user. Move it away, or give it to ${wish.user} with chown.`,
    );
  }
  if (!dataDir.isEmpty && !dataDir.hasJoined) {
    throw new HansaError(
      'HANSA_CONFLICT',
      `Cannot ${what}: the folder ${wish.dataDir} contains files and is not the data folder of an agent. Choose another with --data-dir.`,
    );
  }
}

function createUser(found: FoundMachine, user: string, dataDir: string): Step {
  const home = ['--home-dir', dataDir, '--no-create-home'];
  const shell = ['--shell', '/usr/sbin/nologin', '--comment', 'Hansa agent'];
  const flags = ['--system', '--gid', user, ...home, ...shell];
  return run(`Create the system user ${user}`, 'useradd', ...prefix(found), ...flags, user);
}

function reload({ root }: FoundMachine): readonly Step[] {
  return root === undefined ? [run('Reload systemd', 'systemctl', 'daemon-reload')] : [];
}

function prefix({ root }: FoundMachine): readonly string[] {
  return root === undefined ? [] : ['--prefix', root];
}

function rootFlag({ root }: FoundMachine): readonly string[] {
  return root === undefined ? [] : [`--root=${root}`];
}

function run(text: string, program: string, ...args: readonly string[]): Step {
  return { text, act: { kind: 'run', program, args } };
}

function remove(path: string, detail = ''): Step {
  return { text: `Remove ${path}${detail}`, act: { kind: 'remove', path } };
}

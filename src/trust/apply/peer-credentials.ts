// Asks the kernel which process is at the other end of a Unix socket. A workload cannot forge the answer.
//
// The kernel stores uid, gid and pid of the connecting process (SO_PEERCRED). A pid can be reused, so
// this file holds the process by a descriptor (SO_PEERPIDFD, Linux 6.5), and uses data from /proc only if
// the process is still alive afterwards. On an older kernel it opens the descriptor by pid. Then only
// another process of the same user could take its place.
//
// These calls block the main thread, so they must not access a file system that may not answer, such as
// FUSE or a network mount. They use only data that the kernel already has.

import { closeSync, openSync, readlinkSync, readSync, statSync } from 'node:fs';
import { endianness } from 'node:os';
import koffi from 'koffi';
import { HansaError } from '../../core/errors/error.ts';
import { socketOption, soPeercred } from '../../core/plane/socket-option.ts';
import type { FileVersion } from './executable-hash.ts';
import { isServedByUsers } from './served-mounts.ts';
import { numberOfUnknown } from './user-namespace.ts';

/** asm-generic/socket.h */
const soPeergroups = 59;
const soPeerpidfd = 77;
/** For a process with more groups, the site uses none of them. */
const maxGroups = 1024;
/** Far above what a kernel writes of one process in all hierarchies. */
const maxControlGroupBytes = 64 * 1024;
/** asm-generic/errno.h: the kernel does not know this option. */
const enoprotoopt = 92;
const eintr = 4;
/** pidfd_open, by the number that it has on every architecture that Node runs on (Linux 5.3). */
const pidfdOpen = 434;
/** poll.h */
const pollIn = 1;

/** From the C library that Node itself is linked with. */
const libc = koffi.load(null);
const poll = libc.func('int poll(_Inout_ uint8_t *fds, unsigned long count, int timeout)') as (
  fds: Buffer,
  count: number,
  timeout: number,
) => number;

const syscall = libc.func('long syscall(long number, long first, long second)') as (
  number: number,
  first: number,
  second: number,
) => number;

/** linux/stat.h: the same layout on every architecture. A stat of Node's own costs ten times as much. */
const statx = libc.func(
  'int statx(int dir, const char *path, int flags, unsigned int mask, _Out_ uint8_t *found)',
) as (dir: number, path: string, flags: number, mask: number, found: Buffer) => number;
const statxBytes = 256;
const statxBasicStats = 0x7ff;
/** Cached attributes only, without a request to the file server. */
const atStatxDontSync = 0x4000;
const atEmptyPath = 0x1000;
const statxAt = { ino: 32, size: 40, ctime: 96, mtime: 112, dev: 136 } as const;

/** linux/openat2.h, by the number that it has on every architecture (Linux 5.6). */
const openat2 = libc.func(
  'long syscall(long number, int dir, const char *path, uint8_t *how, unsigned long bytes)',
) as (number: number, dir: number, path: string, how: Buffer, bytes: number) => number;
const openat2Number = 437;
const atCurrentFolder = -100;
/** fcntl.h: on every architecture that Node runs on but PA-RISC and SPARC. */
const oPath = 0o10000000;
const oCloexec = 0o2000000;
const resolveNoMagiclinks = 0x02;
const resolveNoSymlinks = 0x04;
/** Only what is in the cache of the kernel (Linux 5.12). */
const resolveCached = 0x20;
const eagain = 11;
/** Of a kernel that knows no `resolveCached`. */
const einval = 22;
const enosys = 38;

const littleEndian = endianness() === 'LE';

const notKnown = { uid: numberOfUnknown('uid'), gid: numberOfUnknown('gid') };
/** (gid_t)-1, which no group has. */
const noGroup = 2 ** 32 - 1;

/** struct open_how: the path that the kernel tells of a program goes through no link. */
function openHow(resolve: number): Buffer {
  const how = Buffer.alloc(24);
  const words = [oPath | oCloexec, 0, resolve | resolveNoSymlinks | resolveNoMagiclinks];
  for (const [index, word] of words.entries()) writeInt(how, word, index * 8 + lowHalf);
  return how;
}
const lowHalf = littleEndian ? 0 : 4;
const cachedOnly = openHow(resolveCached);
const anywhere = openHow(0);

export interface PeerProcess {
  readonly uid: number;
  readonly gid: number;
  readonly pid: number;
  /** Its supplementary groups when it connected (SO_PEERGROUPS). */
  readonly groups: readonly number[];
  /** Its executable by absolute path; undefined where that cannot be told for sure. */
  readonly path: string | undefined;
  /** The file that it runs, under whatever path; undefined where we may not see it. */
  readonly executable: FileVersion | undefined;
  /** What /proc/PID/cgroup said; undefined where that cannot be told. */
  readonly controlGroups: string | undefined;
  /**
   * Whether the process that connected still runs the same program. After an exec, it must connect
   * again. Costs two system calls.
   */
  isSame(): boolean;
  /** Lets go of the process. Idempotent. */
  close(): void;
}

/** How the process is held: by the socket where the kernel can, by its pid where it is too old. */
export type HeldBy = 'socket' | 'pid';

/** Who connected. The kernel answers this without a look at the process, so it costs a microsecond. */
export interface PeerUser {
  readonly uid: number;
  readonly gid: number;
  readonly pid: number;
}

/** The user that connected the socket with this descriptor. Throws as `peerProcess` does. */
export function peerUser(socketFd: number, unknownUser = notKnown.uid): PeerUser {
  const credentials = option(socketFd, soPeercred, 12);
  if (credentials === undefined) throw unknown('the kernel does not report the process');
  const pid = readInt(credentials, 0);
  const uid = readInt(credentials, 4) >>> 0;
  if (uid === unknownUser) {
    throw unknown('its user does not exist in the user namespace of the site');
  }
  const given = readInt(credentials, 8) >>> 0;
  return { uid, gid: given === notKnown.gid ? noGroup : given, pid };
}

/**
 * The process that connected the socket with this descriptor. Throws HANSA_UNAUTHENTICATED where
 * the kernel does not say, or where the process is gone already. Costs a few microseconds, and a
 * descriptor until it is closed.
 */
export function peerProcess(
  socketFd: number,
  heldBy: HeldBy = 'socket',
  unknownUser = notKnown.uid,
): PeerProcess {
  const { uid, gid, pid } = peerUser(socketFd, unknownUser);
  const groups = groupsOf(socketFd).filter((group) => group !== notKnown.gid);
  // 0 is a process outside of our pid namespace: it has no entry in our /proc.
  if (pid <= 0) {
    const unknowable = { path: undefined, executable: undefined, controlGroups: undefined };
    return { uid, gid, pid, groups, ...unknowable, isSame: () => true, close: () => undefined };
  }
  const held = hold(socketFd, pid, heldBy);
  let open = true;
  const close = (): void => {
    if (!open) return;
    open = false;
    closeSync(held.pidfd);
  };
  // In /proc, root owns a process that its user cannot trace, such as a setuid program.
  const isOwned = ownerOf(pid) === uid;
  // First, so that `isSame` later compares with the program from which the data below was read.
  const link = linkOf(pid);
  const program = isOwned ? programBehind(link) : undefined;
  const executable = program && versionIn(program);
  const path = program && pathOf(pid, program);
  // If only the pid is known, it may now belong to a process of another user.
  const controlGroups = isOwned || held.by === 'socket' ? controlGroupsOf(pid) : undefined;
  const isSame = (): boolean =>
    open &&
    (program === undefined || (look(-1, link, 0) && wasFound(program))) &&
    // Last: the data above belongs to this process only if it still runs.
    runs(held.pidfd);
  if (!isSame()) {
    close();
    throw unknown(`process ${pid} ended or changed its program during attestation`);
  }
  return { uid, gid, pid, groups, path, executable, controlGroups, isSame, close };
}

function hold(
  socketFd: number,
  pid: number,
  heldBy: HeldBy,
): { readonly pidfd: number; readonly by: HeldBy } {
  if (heldBy === 'socket') {
    const answer = option(socketFd, soPeerpidfd, 4);
    if (answer !== undefined) return { pidfd: readInt(answer, 0), by: heldBy };
    if (koffi.errno() === enoprotoopt) return hold(socketFd, pid, 'pid');
  } else {
    const pidfd = syscall(pidfdOpen, pid, 0);
    if (pidfd >= 0) return { pidfd, by: heldBy };
  }
  throw unknown(`process ${pid} has ended`);
}

/**
 * The link names a path as the workload's own mount namespace has it. Anybody may mount a file of
 * theirs over /usr/bin/web in a namespace of theirs, so it counts only if here the same file lies
 * at that path. That also leaves out what was deleted or replaced since it was started.
 */
function pathOf(pid: number, program: Buffer): string | undefined {
  try {
    const path = readlinkSync(linkOf(pid));
    return path.startsWith('/') && liesAt(path, program) ? path : undefined;
  } catch {
    // Not ours to read (another user's, without the right to trace), or not there: no selector of a path.
    return undefined;
  }
}

function ownerOf(pid: number): number | undefined {
  try {
    return statSync(`/proc/${pid}`).uid;
  } catch {
    return undefined;
  }
}

function controlGroupsOf(pid: number): string | undefined {
  try {
    const fd = openSync(`/proc/${pid}/cgroup`, 'r');
    try {
      // The kernel writes it in one piece where there is room for it.
      const text = Buffer.alloc(maxControlGroupBytes);
      const length = readSync(fd, text);
      return length === text.length ? undefined : text.toString('utf8', 0, length);
    } finally {
      closeSync(fd);
    }
  } catch {
    return undefined;
  }
}

function groupsOf(socketFd: number): readonly number[] {
  // Fails where there are more, or where the kernel is older than 4.13.
  const value = socketOption(socketFd, soPeergroups, maxGroups * 4);
  if (value === undefined) return [];
  return Array.from({ length: value.length / 4 }, (_, at) => readInt(value, at * 4) >>> 0);
}

function linkOf(pid: number): string {
  return `/proc/${pid}/exe`;
}

const found = Buffer.alloc(statxBytes);

/** What the kernel knows of the file behind a link; undefined where there is none, or none that we may see. */
function programBehind(link: string): Buffer | undefined {
  return look(-1, link, 0) ? Buffer.from(found) : undefined;
}

/** Into `found`. */
function look(dir: number, path: string, flags: number): boolean {
  return statx(dir, path, flags | atStatxDontSync, statxBasicStats, found) === 0;
}

/** Whether what was just found is that file. */
function wasFound(program: Buffer): boolean {
  const same = (at: number): boolean => found.compare(program, at, at + 8, at, at + 8) === 0;
  return same(statxAt.ino) && same(statxAt.dev);
}

/** As node:fs has it. */
function versionIn(stats: Buffer): FileVersion {
  const int64 = (at: number): bigint =>
    littleEndian ? stats.readBigInt64LE(at) : stats.readBigInt64BE(at);
  const int32 = (at: number): bigint => BigInt(readInt(stats, at) >>> 0);
  const nanoseconds = (at: number): bigint => int64(at) * 1_000_000_000n + int32(at + 8);
  return {
    dev: deviceNumber(int32(statxAt.dev), int32(statxAt.dev + 4)),
    ino: BigInt.asUintN(64, int64(statxAt.ino)),
    size: int64(statxAt.size),
    mtimeNs: nanoseconds(statxAt.mtime),
    ctimeNs: nanoseconds(statxAt.ctime),
  };
}

/** makedev(3). */
function deviceNumber(major: bigint, minor: bigint): bigint {
  return (
    ((major & 0xfffff000n) << 32n) |
    ((major & 0xfffn) << 8n) |
    ((minor & 0xffffff00n) << 12n) |
    (minor & 0xffn)
  );
}

/**
 * Whether the file lies at a path. The path is what a workload has us look at: in a mount namespace of
 * its own it may run a program from wherever it likes. Where a program runs, all of its path is in the
 * cache of the kernel, as a rule; where it is not, it is looked up unless a user could keep us waiting.
 */
function liesAt(path: string, program: Buffer): boolean {
  let fd = openPath(path, cachedOnly);
  if (fd < 0) {
    const errno = koffi.errno();
    if (![eagain, einval, enosys].includes(errno) || isServedByUsers(path)) return false;
    // Before Linux 5.6.
    if (errno === enosys) return look(atCurrentFolder, path, 0) && wasFound(program);
    fd = openPath(path, anywhere);
    if (fd < 0) return false;
  }
  try {
    return look(fd, '', atEmptyPath) && wasFound(program);
  } finally {
    closeSync(fd);
  }
}

function openPath(path: string, how: Buffer): number {
  return openat2(openat2Number, atCurrentFolder, path, how, how.length);
}

/** A pidfd becomes readable when its process ends. */
function runs(pidfd: number): boolean {
  const entry = Buffer.alloc(8);
  writeInt(entry, pidfd, 0);
  if (littleEndian) entry.writeInt16LE(pollIn, 4);
  else entry.writeInt16BE(pollIn, 4);
  for (;;) {
    const ready = poll(entry, 1, 0);
    if (ready === 0) return true;
    // A signal that came meanwhile (a profiler's, say) says nothing about the process.
    if (ready > 0 || koffi.errno() !== eintr) return false;
  }
}

function option(fd: number, name: number, bytes: number): Buffer | undefined {
  const value = socketOption(fd, name, bytes);
  return value?.length === bytes ? value : undefined;
}

function readInt(from: Buffer, at: number): number {
  return littleEndian ? from.readInt32LE(at) : from.readInt32BE(at);
}

function writeInt(to: Buffer, value: number, at: number): void {
  if (littleEndian) to.writeInt32LE(value, at);
  else to.writeInt32BE(value, at);
}

function unknown(why: string): HansaError {
  return new HansaError('HANSA_UNAUTHENTICATED', `Cannot attest the workload: ${why}.`);
}

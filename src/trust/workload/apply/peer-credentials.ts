// Who is at the other end of a Unix socket, as the kernel says it; the workload cannot lie about it.
// This folder holds what the Workload API asks of the operating system, and nothing that decides.
//
// The kernel remembers uid, gid and pid of whoever connected (SO_PEERCRED). The pid alone is worth
// little, as it may be another process by the time it is looked up: so the process is held by a
// descriptor (SO_PEERPIDFD, Linux 6.5), and whatever was read from /proc counts only if that very
// process was still alive afterwards. An older kernel is asked for a descriptor by pid: then a
// process of the same user, and of no other, could stand in its place.

import { closeSync, openSync, readlinkSync, readSync, statSync } from 'node:fs';
import { endianness } from 'node:os';
import koffi from 'koffi';
import { HansaError } from '../../../core/errors/error.ts';
import type { FileVersion } from './executable-hash.ts';

/** asm-generic/socket.h, which every architecture that Node runs on shares but for MIPS, SPARC and PA-RISC. */
const solSocket = 1;
const soPeercred = 17;
const soPeergroups = 59;
const soPeerpidfd = 77;
/** Somebody who is in more groups than this is told to be in none. */
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
const getsockopt = libc.func(
  'int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ uint32_t *length)',
) as (fd: number, level: number, name: number, value: Buffer, length: Uint32Array) => number;
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
const statxIno = 0x100;
const statxInoAt = 32;
const statxDevAt = 136;

const littleEndian = endianness() === 'LE';

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
   * Whether the process that connected still runs, and still the same program: one that became
   * another by exec must come anew. Costs two system calls.
   */
  isSame(): boolean;
  /** Lets go of the process. Idempotent. */
  close(): void;
}

/** How the process is held: by the socket where the kernel can, by its pid where it is too old. */
export type HeldBy = 'socket' | 'pid';

/**
 * The process that connected the socket with this descriptor. Throws HANSA_UNAUTHENTICATED where
 * the kernel does not say, or where the process is gone already. Costs a few microseconds, and a
 * descriptor until it is closed.
 */
export function peerProcess(socketFd: number, heldBy: HeldBy = 'socket'): PeerProcess {
  const credentials = option(socketFd, soPeercred, 12);
  if (credentials === undefined) throw unknown('the kernel does not tell who connected');
  const pid = readInt(credentials, 0);
  const uid = readInt(credentials, 4) >>> 0;
  const gid = readInt(credentials, 8) >>> 0;
  const groups = groupsOf(socketFd);
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
  // Whoever cannot be traced by its user (setuid, say) belongs to root there.
  const isOwned = ownerOf(pid) === uid;
  // Before anything is read of the program, so that what is read is of the one that is looked for later.
  const link = linkOf(pid);
  const program = isOwned ? programBehind(link) : undefined;
  const executable = program === undefined ? undefined : fileBehind(link);
  const path = executable && pathOf(pid, executable);
  // By pid alone it could be a process of another user by now.
  const controlGroups = isOwned || held.by === 'socket' ? controlGroupsOf(pid) : undefined;
  const isSame = (): boolean =>
    open &&
    (program === undefined || isProgram(link, program)) &&
    // Last: what was read above was of this process only if it runs still.
    runs(held.pidfd);
  if (!isSame()) {
    close();
    throw unknown(`process ${pid} ended or became another while it was looked at`);
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
  throw unknown(`process ${pid} is gone`);
}

/**
 * The link names a path as the workload's own mount namespace has it. Anybody may mount a file of
 * theirs over /usr/bin/web in a namespace of theirs, so it counts only if here the same file lies
 * at that path. That also leaves out what was deleted or replaced since it was started.
 */
function pathOf(pid: number, file: FileNumber): string | undefined {
  try {
    const path = readlinkSync(linkOf(pid));
    return path.startsWith('/') && isFile(file, fileBehind(path)) ? path : undefined;
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
  const value = Buffer.alloc(maxGroups * 4);
  const length = new Uint32Array([value.length]);
  // Fails where there are more, or where the kernel is older than 4.13.
  if (getsockopt(socketFd, solSocket, soPeergroups, value, length) !== 0) return [];
  return Array.from({ length: (length[0] ?? 0) / 4 }, (_, at) => readInt(value, at * 4) >>> 0);
}

interface FileNumber {
  readonly dev: bigint;
  readonly ino: bigint;
}

function linkOf(pid: number): string {
  return `/proc/${pid}/exe`;
}

const found = Buffer.alloc(statxBytes);

/** What the kernel says of the file behind a link; undefined where there is none, or none that we may see. */
function programBehind(link: string): Buffer | undefined {
  return statx(-1, link, 0, statxIno, found) === 0 ? Buffer.from(found) : undefined;
}

function isProgram(link: string, program: Buffer): boolean {
  const same = (at: number): boolean => found.compare(program, at, at + 8, at, at + 8) === 0;
  return statx(-1, link, 0, statxIno, found) === 0 && same(statxInoAt) && same(statxDevAt);
}

/** Undefined where there is none, or none that we may see. */
function fileBehind(path: string): FileVersion | undefined {
  try {
    return statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

function isFile(one: FileNumber | undefined, other: FileNumber | undefined): one is FileNumber {
  return one !== undefined && one.dev === other?.dev && one.ino === other.ino;
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
  const value = Buffer.alloc(bytes);
  const length = new Uint32Array([bytes]);
  return getsockopt(fd, solSocket, name, value, length) === 0 && length[0] === bytes
    ? value
    : undefined;
}

function readInt(from: Buffer, at: number): number {
  return littleEndian ? from.readInt32LE(at) : from.readInt32BE(at);
}

function writeInt(to: Buffer, value: number, at: number): void {
  if (littleEndian) to.writeInt32LE(value, at);
  else to.writeInt32BE(value, at);
}

function unknown(why: string): HansaError {
  return new HansaError('HANSA_UNAUTHENTICATED', `Cannot tell which workload connected: ${why}.`);
}

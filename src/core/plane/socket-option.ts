// Asks the kernel about a socket, which Node does not.

import type { Socket } from 'node:net';
import { endianness } from 'node:os';
import koffi from 'koffi';

/** asm-generic/socket.h, which every architecture that Node runs on shares but for MIPS, SPARC and PA-RISC. */
const solSocket = 1;
export const soPeercred = 17;

/** From the C library that Node itself is linked with. */
const getsockopt = koffi
  .load(null)
  .func(
    'int getsockopt(int fd, int level, int name, _Out_ uint8_t *value, _Inout_ uint32_t *length)',
  ) as (fd: number, level: number, name: number, value: Buffer, length: Uint32Array) => number;

/** Undefined where the kernel refuses; `koffi.errno()` says why. */
export function socketOption(fd: number, name: number, maxBytes: number): Buffer | undefined {
  const value = Buffer.alloc(maxBytes);
  const length = new Uint32Array([maxBytes]);
  if (getsockopt(fd, solSocket, name, value, length) !== 0) return undefined;
  return value.subarray(0, length[0] ?? 0);
}

/** Node keeps it to itself. Undefined for a socket that is closed. */
export function descriptorOf(socket: Socket): number | undefined {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } };
  return handle?.fd === undefined || handle.fd < 0 ? undefined : handle.fd;
}

/** The user who listens on the Unix socket that this one is connected to. Nobody can forge it. */
export function listenerUser(socket: Socket): number | undefined {
  const fd = descriptorOf(socket);
  // struct ucred: pid, uid, gid.
  const found = fd === undefined ? undefined : socketOption(fd, soPeercred, 12);
  if (found?.length !== 12) return undefined;
  return endianness() === 'LE' ? found.readUInt32LE(4) : found.readUInt32BE(4);
}

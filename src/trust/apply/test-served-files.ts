// For tests only: a FUSE file system as a separate program. It serves one executable until the test turns
// it hostile. Then it records every request of one process, and exits instead of answering; with 0 for the
// process, it answers no read any more. The protocol is linux/fuse.h, version 7.31.
//
//   node test-served-files.ts MOUNT-POINT PROGRAM TURNED-FILE PID

import { closeSync, existsSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import koffi from 'koffi';

const [mountPoint = '', program = '', turnedFile = '', pid = ''] = process.argv.slice(2);
const opcode = {
  lookup: 1,
  forget: 2,
  getattr: 3,
  open: 14,
  read: 15,
  init: 26,
  batch: 42,
} as const;
const enosys = -38;
const enoent = -2;

const libc = koffi.load(null);
const mount = libc.func(
  'int mount(const char *source, const char *target, const char *type, unsigned long flags, const char *data)',
) as (...args: readonly (string | number)[]) => number;

const file = openSync(program, 'r');
const { size } = fstatSync(file, { bigint: true });
const fuse = openSync('/dev/fuse', 'r+');
const data = `fd=${fuse},rootmode=40000,user_id=0,group_id=0,allow_other`;
const mounted = mount('served', mountPoint, 'fuse.served', 0, data) === 0;
writeSync(1, mounted ? 'mounted\n' : 'cannot\n');
if (!mounted) process.exit(0);

const request = Buffer.alloc(256 * 1024);
for (;;) {
  let length: number;
  try {
    length = readSync(fuse, request);
  } catch {
    // It was unmounted.
    break;
  }
  answer(request.subarray(0, length));
}
closeSync(fuse);

function answer(question: Buffer): void {
  const asked = question.readUInt32LE(4);
  const node = question.readBigUInt64LE(16);
  const isTheirs = question.readUInt32LE(32) === Number(pid) && existsSync(turnedFile);
  if (isTheirs && (asked === opcode.getattr || asked === opcode.lookup)) {
    writeSync(1, 'asked\n');
    process.exit(0);
  }
  if (pid === '0' && asked === opcode.read && existsSync(turnedFile)) {
    writeSync(1, 'held\n');
    return;
  }
  const reply = (body: Buffer, error = 0): void => {
    const head = Buffer.alloc(16);
    head.writeUInt32LE(16 + body.length, 0);
    head.writeInt32LE(error, 4);
    question.copy(head, 8, 8, 16);
    writeSync(fuse, Buffer.concat([head, body]));
  };
  const nothing = Buffer.alloc(0);
  switch (asked) {
    case opcode.init: {
      const body = Buffer.alloc(64);
      for (const [at, value] of [7, 31, 128 * 1024].entries()) body.writeUInt32LE(value, at * 4);
      body.writeUInt32LE(128 * 1024, 20);
      reply(body);
      return;
    }
    case opcode.lookup:
      if (question.toString('latin1', 40).startsWith('program\0')) {
        // Node 2, and nothing of it may be kept without asking again.
        const head = Buffer.alloc(40);
        head.writeBigUInt64LE(2n, 0);
        reply(Buffer.concat([head, attributesOf(2n)]));
      } else reply(nothing, enoent);
      return;
    case opcode.getattr:
      reply(Buffer.concat([Buffer.alloc(16), attributesOf(node)]));
      return;
    case opcode.open:
      reply(Buffer.alloc(16));
      return;
    case opcode.read: {
      const piece = Buffer.alloc(question.readUInt32LE(56));
      const count = readSync(file, piece, 0, piece.length, Number(question.readBigUInt64LE(48)));
      reply(piece.subarray(0, count));
      return;
    }
    case opcode.forget:
    case opcode.batch:
      return;
    default:
      reply(nothing, enosys);
  }
}

function attributesOf(node: bigint): Buffer {
  const attributes = Buffer.alloc(88);
  attributes.writeBigUInt64LE(node, 0);
  attributes.writeBigUInt64LE(node === 1n ? 0n : size, 8);
  attributes.writeUInt32LE(node === 1n ? 0o40755 : 0o100755, 60);
  attributes.writeUInt32LE(1, 64);
  attributes.writeUInt32LE(4096, 80);
  return attributes;
}

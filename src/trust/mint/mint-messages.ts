// A hand-written codec for the messages of proto/mint.proto. A site may sign thousands per second, and
// the generic codec takes a third of the time of a signature. Tests compare it with the generated code.

import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { HansaError } from '../../core/errors/error.ts';
import { frameHeadBytes, writeFrameHead } from '../../core/rpc/frames.ts';

export interface MintRequest {
  /** Of a stream; 0 in a call of its own. */
  readonly id: number;
  readonly csr: Uint8Array;
  /** 0 where it was not given. */
  readonly ttlSeconds: number;
}

export interface Minted {
  /** DER, the leaf first. */
  readonly chain: readonly Uint8Array[];
  readonly spiffeId: string;
  readonly expiresAtSeconds: number;
}

export interface Refusal {
  readonly code: number;
  readonly message: string;
}

/** MintX509SVIDRequest: csr = 1, ttl_seconds = 2. Throws HANSA_BAD_REQUEST. */
export function readMintRequest(message: Uint8Array): MintRequest {
  return read(message, 0);
}

/** MintX509SVIDsRequest: the same after an id. Throws HANSA_BAD_REQUEST. */
export function readStreamedRequest(message: Uint8Array): MintRequest {
  return read(message, 1);
}

const noBytes = new Uint8Array();

function read(message: Uint8Array, before: 0 | 1): MintRequest {
  const csrTag = ((1 + before) << 3) | WireType.LengthDelimited;
  const ttlTag = ((2 + before) << 3) | WireType.Varint;
  const idTag = before === 0 ? -1 : (1 << 3) | WireType.Varint;
  let id = 0;
  let csr = noBytes;
  let ttlSeconds = 0;
  try {
    const reader = new BinaryReader(message);
    while (reader.pos < reader.len) {
      const [field, type] = reader.tag();
      const tag = (field << 3) | type;
      if (tag === csrTag) csr = reader.bytes() as typeof noBytes;
      else if (tag === ttlTag) ttlSeconds = reader.uint32();
      else if (tag === idTag) id = reader.uint32();
      else reader.skip(type, field);
    }
    if (reader.pos > reader.len) throw new RangeError('premature end');
  } catch (cause) {
    throw new HansaError(
      'HANSA_BAD_REQUEST',
      'The message is not a hansa.mint.v1 message: its fields cannot be read.',
      { cause },
    );
  }
  return { id, csr, ttlSeconds };
}

/** MintX509SVIDResponse: svid = 1. As it stands on an HTTP/2 stream, in a frame of gRPC. */
export function frameMinted(minted: Minted): Buffer {
  const size = sizeOfMinted(minted);
  const out = openFrame(sizeOfField(size));
  writeMinted(out, frameHeadBytes, 1, size, minted);
  return out;
}

/** MintX509SVIDsResponse: id = 1, svid = 2. */
export function frameStreamed(id: number, minted: Minted): Buffer {
  const size = sizeOfMinted(minted);
  const out = openFrame(sizeOfId(id) + sizeOfField(size));
  writeMinted(out, writeId(out, id), 2, size, minted);
  return out;
}

/** MintX509SVIDsResponse: id = 1, refusal = 3 (code = 1, message = 2). */
export function frameRefusal(id: number, { code, message }: Refusal): Buffer {
  const text = Buffer.from(message);
  const size = 1 + sizeOfVarint(code) + sizeOfField(text.length);
  const out = openFrame(sizeOfId(id) + sizeOfField(size));
  let at = writeId(out, id);
  at = writeHead(out, at, 3, size);
  out[at++] = (1 << 3) | WireType.Varint;
  at = writeVarint(out, at, code);
  at = writeHead(out, at, 2, text.length);
  text.copy(out, at);
  return out;
}

function openFrame(size: number): Buffer {
  const out = Buffer.allocUnsafe(frameHeadBytes + size);
  writeFrameHead(out, size);
  return out;
}

function sizeOfMinted({ chain, spiffeId, expiresAtSeconds }: Minted): number {
  // A SPIFFE ID is ASCII.
  let size = sizeOfField(spiffeId.length) + 1 + sizeOfVarint(expiresAtSeconds);
  for (const der of chain) size += sizeOfField(der.length);
  return size;
}

function writeMinted(
  out: Buffer,
  from: number,
  field: number,
  size: number,
  { chain, spiffeId, expiresAtSeconds }: Minted,
): void {
  let at = writeHead(out, from, field, size);
  for (const der of chain) {
    at = writeHead(out, at, 1, der.length);
    out.set(der, at);
    at += der.length;
  }
  at = writeHead(out, at, 2, spiffeId.length);
  at += out.write(spiffeId, at, 'latin1');
  out[at++] = (3 << 3) | WireType.Varint;
  writeVarint(out, at, expiresAtSeconds);
}

/** A number that is 0 is left out, as proto3 has it. */
function sizeOfId(id: number): number {
  return id === 0 ? 0 : 1 + sizeOfVarint(id);
}

function writeId(out: Buffer, id: number): number {
  if (id === 0) return frameHeadBytes;
  out[frameHeadBytes] = (1 << 3) | WireType.Varint;
  return writeVarint(out, frameHeadBytes + 1, id);
}

/** All field numbers here are below 16: their tag is one byte. */
function sizeOfField(length: number): number {
  return 1 + sizeOfVarint(length) + length;
}

function writeHead(out: Buffer, at: number, field: number, length: number): number {
  out[at] = (field << 3) | WireType.LengthDelimited;
  return writeVarint(out, at + 1, length);
}

/** Of a number that is safe and not negative; beyond 32 bits too. */
function sizeOfVarint(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size++;
  return size;
}

function writeVarint(out: Buffer, from: number, value: number): number {
  let at = from;
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) out[at++] = (rest % 0x80) | 0x80;
  out[at++] = rest;
  return at;
}

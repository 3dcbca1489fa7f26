// DER (X.690 §10), written and read. Hand-made because general
// ASN.1 libraries issue certificates at a hundredth of the speed at which keys can sign them, and
// because a reader of hostile bytes is safest when it knows no more than it needs.

import { refuse } from './rules.ts';

export const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** Context-specific tags: `[n]` around other elements, or in the place of a primitive's own tag. */
export const contextConstructed = (n: number): number => 0xa0 | n;
export const contextPrimitive = (n: number): number => 0x80 | n;

/** Certificates nest 7 deep at most where everything is known; more is an attack or a mistake. */
export const maxDepth = 16;

/**
 * Appends elements to a growing buffer. `open` and `close` frame what is written between them; the
 * length is filled in on closing, and the content moved by the two bytes that a long one needs.
 */
export class DerWriter {
  #bytes: Buffer;
  #at = 0;

  constructor(capacity = 1024) {
    this.#bytes = Buffer.allocUnsafe(capacity);
  }

  #reserve(count: number): void {
    const needed = this.#at + count;
    if (needed <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#at);
    this.#bytes = grown;
  }

  /** Returns the mark to be given to `close`. */
  open(tag: number): number {
    this.#reserve(2);
    this.#bytes[this.#at++] = tag;
    return this.#at++;
  }

  close(mark: number): void {
    const start = mark + 1;
    const length = this.#at - start;
    if (length < 0x80) {
      this.#bytes[mark] = length;
      return;
    }
    const extra = lengthOfLength(length);
    this.#reserve(extra);
    this.#bytes.copyWithin(start + extra, start, this.#at);
    this.#bytes[mark] = 0x80 | extra;
    this.#bytes.writeUIntBE(length, start, extra);
    this.#at += extra;
  }

  /** An element whose content is ready made. */
  element(tag: number, content: Uint8Array): void {
    const extra = content.length < 0x80 ? 0 : lengthOfLength(content.length);
    this.#reserve(2 + extra + content.length);
    this.#bytes[this.#at++] = tag;
    if (extra === 0) {
      this.#bytes[this.#at++] = content.length;
    } else {
      this.#bytes[this.#at++] = 0x80 | extra;
      this.#bytes.writeUIntBE(content.length, this.#at, extra);
      this.#at += extra;
    }
    this.raw(content);
  }

  /** Bytes that are whole elements already. */
  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** Text in a tag whose characters are ASCII; the caller has checked that they are. */
  ascii(tag: number, text: string): void {
    const mark = this.open(tag);
    this.#reserve(text.length);
    this.#at += this.#bytes.write(text, this.#at, 'latin1');
    this.close(mark);
  }

  /** A non-negative integer of any size, given as big-endian bytes. */
  unsigned(magnitude: Uint8Array): void {
    let from = 0;
    while (from < magnitude.length - 1 && magnitude[from] === 0) from++;
    const mark = this.open(tags.integer);
    this.#reserve(1 + magnitude.length);
    // A leading one bit would mean a negative number.
    if (magnitude.length === 0 || (magnitude[from] ?? 0) >= 0x80) this.#bytes[this.#at++] = 0;
    this.raw(magnitude.subarray(from));
    this.close(mark);
  }

  bitString(content: Uint8Array, unusedBits = 0): void {
    const mark = this.open(tags.bitString);
    this.#reserve(1);
    this.#bytes[this.#at++] = unusedBits;
    this.raw(content);
    this.close(mark);
  }

  /** UTCTime through 2049 and GeneralizedTime from then on, as RFC 5280 §4.1.2.5 demands. */
  time(ms: number): void {
    const iso = new Date(ms).toISOString();
    const digits =
      iso.slice(0, 4) +
      iso.slice(5, 7) +
      iso.slice(8, 10) +
      iso.slice(11, 13) +
      iso.slice(14, 16) +
      iso.slice(17, 19);
    if (iso < '2050') this.ascii(tags.utcTime, `${digits.slice(2)}Z`);
    else this.ascii(tags.generalizedTime, `${digits}Z`);
  }

  /** What was written, in a buffer of its own. */
  take(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#at));
  }

  /** Starts from empty with the same memory. */
  reset(): void {
    this.#at = 0;
  }
}

function lengthOfLength(length: number): number {
  if (length < 0x100) return 1;
  if (length < 0x1_0000) return 2;
  return length < 0x100_0000 ? 3 : 4;
}

/**
 * A cursor over hostile bytes. Every length is checked against what surrounds it before anything
 * is read; every violation of DER throws HANSA_CERTIFICATE_INVALID (malformed-der). What it returns
 * are views of the input, which must therefore not be written to.
 */
export class DerReader {
  readonly #bytes: Buffer;
  #at = 0;
  #end: number;
  #depth = 0;
  #contentEnd = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#end = bytes.byteLength;
  }

  /** The tag of the next element, or -1 at the end of what was entered. */
  peek(): number {
    return this.#at < this.#end ? (this.#bytes[this.#at] as number) : -1;
  }

  get position(): number {
    return this.#at;
  }

  malformed(what: string): Error {
    return refuse('malformed-der', `${what} at byte ${this.#at}`);
  }

  /** Steps over the header, and notes where the content ends. */
  #header(): number {
    if (this.#at + 2 > this.#end) throw this.malformed('it ends in the middle of an element');
    const tag = this.#bytes[this.#at] as number;
    if ((tag & 0x1f) === 0x1f) throw this.malformed('it has a tag number above 30');
    if (tag === 0) throw this.malformed('it has an end-of-contents marker');
    let length = this.#bytes[this.#at + 1] as number;
    let start = this.#at + 2;
    if (length >= 0x80) {
      const count = length & 0x7f;
      if (count === 0) throw this.malformed('it has an indefinite length');
      if (count > 4) throw this.malformed('it has a length of more than 4 bytes');
      if (start + count > this.#end) throw this.malformed('it ends in the middle of a length');
      length = this.#bytes.readUIntBE(start, count);
      if (length < 0x80 || lengthOfLength(length) !== count) {
        throw this.malformed('it has a length that is not in its shortest form');
      }
      start += count;
    }
    if (length > this.#end - start) throw this.malformed('it has a length beyond its end');
    this.#at = start;
    this.#contentEnd = start + length;
    return tag;
  }

  /** The next element must have this tag; what follows reads its content. Pass the result to `leave`. */
  enter(tag: number): number {
    if (this.peek() !== tag) throw this.#unexpected(tag);
    if (++this.#depth > maxDepth) throw this.malformed('it nests too deep');
    this.#header();
    const outer = this.#end;
    this.#end = this.#contentEnd;
    return outer;
  }

  /** The content must have been read to its end. */
  leave(outer: number): void {
    if (this.#at !== this.#end) throw this.malformed('it has more than belongs there');
    this.#end = outer;
    this.#depth--;
  }

  /** The content of the next element, which must have this tag. */
  content(tag: number): Buffer {
    if (this.peek() !== tag) throw this.#unexpected(tag);
    this.#header();
    const content = this.#bytes.subarray(this.#at, this.#contentEnd);
    this.#at = this.#contentEnd;
    return content;
  }

  /** The next element whole, header included; what is inside is not looked at. */
  raw(tag: number): Buffer {
    if (this.peek() !== tag) throw this.#unexpected(tag);
    const start = this.#at;
    this.#header();
    this.#at = this.#contentEnd;
    return this.#bytes.subarray(start, this.#at);
  }

  #unexpected(tag: number): Error {
    const found = this.peek();
    const shown = found === -1 ? 'the end' : `tag 0x${found.toString(16)}`;
    return this.malformed(`it has ${shown} where tag 0x${tag.toString(16)} belongs`);
  }

  boolean(): boolean {
    const content = this.content(tags.boolean);
    if (content.length !== 1 || (content[0] !== 0 && content[0] !== 0xff)) {
      throw this.malformed('it has a boolean that is neither 00 nor ff');
    }
    return content[0] === 0xff;
  }

  /** The two's complement bytes of an integer in its shortest form. */
  integer(): Buffer {
    const content = this.content(tags.integer);
    const [first, second] = content;
    if (first === undefined) throw this.malformed('it has an empty integer');
    if (
      second !== undefined &&
      ((first === 0 && second < 0x80) || (first === 0xff && second >= 0x80))
    ) {
      throw this.malformed('it has an integer that is not in its shortest form');
    }
    return content;
  }

  /** A non-negative integer that fits 31 bits: versions and path lengths. */
  smallInteger(): number {
    const content = this.integer();
    if (content.length > 4 || (content[0] as number) >= 0x80) {
      throw this.malformed('it has an integer out of range');
    }
    return content.readUIntBE(0, content.length);
  }

  /** An object identifier: each arc in its shortest form, the last one complete, 64 bytes at most. */
  oid(): Buffer {
    const content = this.content(tags.oid);
    let arcStarts = true;
    for (const byte of content) {
      if (arcStarts && byte === 0x80)
        throw this.malformed('it has an object identifier that is padded');
      arcStarts = byte < 0x80;
    }
    if (content.length === 0 || content.length > 64 || !arcStarts) {
      throw this.malformed('it has a malformed object identifier');
    }
    return content;
  }

  /** A bit string of whole bytes, as keys and signatures are. */
  octetAlignedBitString(): Buffer {
    const content = this.content(tags.bitString);
    if (content[0] !== 0) throw this.malformed('it has a bit string that does not fill its bytes');
    return content.subarray(1);
  }

  /** The first bits of a bit string of named bits as a number, bit 0 lowest. Trailing zeros are not DER. */
  namedBits(): number {
    const content = this.content(tags.bitString);
    const unused = content[0];
    if (unused === undefined || unused > 7 || content.length > 3) {
      throw this.malformed('it has a malformed bit string');
    }
    if (content.length === 1) {
      if (unused !== 0) throw this.malformed('it has a malformed bit string');
      return 0;
    }
    const last = content[content.length - 1] as number;
    if ((last & ((1 << (unused + 1)) - 1)) !== 1 << unused) {
      throw this.malformed('it has a bit string with trailing zeros');
    }
    let bits = 0;
    for (let i = 0; i < (content.length - 1) * 8; i++) {
      if (((content[1 + (i >> 3)] as number) & (0x80 >> (i & 7))) !== 0) bits |= 1 << i;
    }
    return bits;
  }

  /** UTCTime or GeneralizedTime in the one form that RFC 5280 §4.1.2.5 allows for each. */
  time(): number {
    const tag = this.peek();
    const general = tag === tags.generalizedTime;
    const text = this.content(general ? tags.generalizedTime : tags.utcTime).toString('latin1');
    if (!/^\d+Z$/.test(text) || text.length !== (general ? 15 : 13)) {
      throw this.malformed('it has a time that is not in UTC with seconds');
    }
    const shift = general ? 4 : 2;
    const digits = (from: number): number => Number(text.slice(from, from + 2));
    // Two-digit years from 50 on are of the twentieth century.
    const short = digits(0);
    const year = general ? Number(text.slice(0, 4)) : short < 50 ? 2000 + short : 1900 + short;
    const month = digits(shift);
    const day = digits(shift + 2);
    const hour = digits(shift + 4);
    const minute = digits(shift + 6);
    const second = digits(shift + 8);
    const date = new Date(0);
    date.setUTCFullYear(year, month - 1, day);
    date.setUTCHours(hour, minute, second);
    // A field out of range carries over into the next, and so comes back changed.
    if (
      date.getUTCFullYear() !== year ||
      date.getUTCMonth() !== month - 1 ||
      date.getUTCDate() !== day ||
      date.getUTCHours() !== hour ||
      date.getUTCMinutes() !== minute ||
      date.getUTCSeconds() !== second
    ) {
      throw this.malformed('it has a time that does not exist');
    }
    if (general && year < 2050) throw this.malformed('it has a GeneralizedTime before 2050');
    return date.getTime();
  }

  /** Nothing may follow the outermost element. */
  finish(): void {
    if (this.#at !== this.#end) throw this.malformed('it has trailing bytes');
  }
}

/** Checks lengths and nesting of everything inside, also of what no one reads. Linear in the input. */
export function assertDer(bytes: Uint8Array): void {
  const reader = new DerReader(bytes);
  const walk = (): void => {
    for (let tag = reader.peek(); tag !== -1; tag = reader.peek()) {
      if ((tag & 0x20) === 0) {
        reader.raw(tag);
        continue;
      }
      const outer = reader.enter(tag);
      walk();
      reader.leave(outer);
    }
  };
  walk();
  reader.finish();
}

/** The dotted form of an object identifier's content, for messages. */
export function dottedOid(content: Uint8Array): string {
  const arcs: bigint[] = [];
  let arc = 0n;
  for (const byte of content) {
    arc = (arc << 7n) | BigInt(byte & 0x7f);
    if (byte >= 0x80) continue;
    if (arcs.length === 0) {
      const first = arc < 80n ? arc / 40n : 2n;
      arcs.push(first, arc - first * 40n);
    } else {
      arcs.push(arc);
    }
    arc = 0n;
  }
  return arcs.join('.');
}

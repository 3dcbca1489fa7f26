// A strict reader of DER (X.690 §10) for untrusted bytes, so that no input has two meanings.

import { lengthOfLength, maxDepth, tags } from './der.ts';
import { refuse } from './rules.ts';

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
    this.#bytes = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
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
    if (++this.#depth > maxDepth) throw this.malformed('it is nested too deeply');
    this.#header();
    const outer = this.#end;
    this.#end = this.#contentEnd;
    return outer;
  }

  /** The content must have been read to its end. */
  leave(outer: number): void {
    if (this.#at !== this.#end) throw this.malformed('it has unexpected trailing content');
    this.#end = outer;
    this.#depth--;
  }

  /**
   * Steps over the next element, which must have this tag, and returns where its content begins;
   * where it ends is then `#contentEnd`. Creating views is expensive, so callers read in place where they can.
   */
  #primitive(tag: number): number {
    if (this.peek() !== tag) throw this.#unexpected(tag);
    this.#header();
    const start = this.#at;
    this.#at = this.#contentEnd;
    return start;
  }

  /** The content of the next element, which must have this tag. */
  content(tag: number): Buffer {
    const start = this.#primitive(tag);
    return this.#bytes.subarray(start, this.#contentEnd);
  }

  /** The content as text, one character a byte. */
  latin1(tag: number): string {
    const start = this.#primitive(tag);
    return this.#bytes.toString('latin1', start, this.#contentEnd);
  }

  /** The next element whole, header included; without reading its content. */
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
    return this.malformed(`it has ${shown} where tag 0x${tag.toString(16)} is expected`);
  }

  boolean(): boolean {
    const start = this.#primitive(tags.boolean);
    const value = this.#bytes[start];
    if (this.#contentEnd !== start + 1 || (value !== 0 && value !== 0xff)) {
      throw this.malformed('it has a boolean that is neither 00 nor ff');
    }
    return value === 0xff;
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

  /** An object identifier, dotted: each arc in its shortest form, the last one complete. */
  oid(): string {
    const start = this.#primitive(tags.oid);
    const end = this.#contentEnd;
    if (end === start || end - start > 64)
      throw this.malformed('it has a malformed object identifier');
    let arcStarts = true;
    for (let i = start; i < end; i++) {
      const byte = this.#bytes[i] as number;
      if (arcStarts && byte === 0x80)
        throw this.malformed('it has an object identifier that is padded');
      arcStarts = byte < 0x80;
    }
    if (!arcStarts) throw this.malformed('it has an object identifier that is cut off');
    const content = this.#bytes.toString('latin1', start, end);
    return knownOids.get(content) ?? dottedOid(this.#bytes.subarray(start, end));
  }

  /** Steps over an object identifier 2.5.29.n (RFC 5280 §4.2.1) and returns n; or stays and returns -1. */
  extensionNumber(): number {
    const bytes = this.#bytes;
    const at = this.#at;
    if (
      at + 5 > this.#end ||
      bytes[at] !== tags.oid ||
      bytes[at + 1] !== 3 ||
      bytes[at + 2] !== 0x55 ||
      bytes[at + 3] !== 0x1d ||
      (bytes[at + 4] as number) >= 0x80
    ) {
      return -1;
    }
    this.#at = at + 5;
    return bytes[at + 4] as number;
  }

  /** A bit string of whole bytes, as keys and signatures are. */
  octetAlignedBitString(): Buffer {
    const content = this.content(tags.bitString);
    if (content[0] !== 0) throw this.malformed('it has a bit string that does not fill its bytes');
    return content.subarray(1);
  }

  /** The first bits of a bit string of named bits as a number, bit 0 lowest. Trailing zeros are not DER. */
  namedBits(): number {
    const start = this.#primitive(tags.bitString);
    const length = this.#contentEnd - start - 1;
    const unused = this.#bytes[start] as number;
    if (length < 0 || unused > 7 || length > 2 || (length === 0 && unused !== 0)) {
      throw this.malformed('it has a malformed bit string');
    }
    if (length === 0) return 0;
    const last = this.#bytes[start + length] as number;
    if ((last & ((1 << (unused + 1)) - 1)) !== 1 << unused) {
      throw this.malformed('it has a bit string with trailing zeros');
    }
    let bits = 0;
    for (let i = 0; i < length * 8; i++) {
      if (((this.#bytes[start + 1 + (i >> 3)] as number) & (0x80 >> (i & 7))) !== 0) bits |= 1 << i;
    }
    return bits;
  }

  /** UTCTime or GeneralizedTime in the one form that RFC 5280 §4.1.2.5 allows for each. */
  time(): number {
    const general = this.peek() === tags.generalizedTime;
    const start = this.#primitive(general ? tags.generalizedTime : tags.utcTime);
    const zone = start + (general ? 14 : 12);
    if (this.#contentEnd !== zone + 1 || this.#bytes[zone] !== 0x5a) {
      throw this.malformed('it has a time that is not in UTC with seconds');
    }
    const month = this.#twoDigits(zone - 10);
    const day = this.#twoDigits(zone - 8);
    const hour = this.#twoDigits(zone - 6);
    const minute = this.#twoDigits(zone - 4);
    const second = this.#twoDigits(zone - 2);
    const short = this.#twoDigits(zone - 12);
    // Two-digit years from 50 on are of the twentieth century.
    const century = general ? this.#twoDigits(start) : short < 50 ? 20 : 19;
    const year = century * 100 + short;
    if (
      month < 1 ||
      month > 12 ||
      day < 1 ||
      day > daysIn(year, month) ||
      hour > 23 ||
      minute > 59 ||
      second > 59
    ) {
      throw this.malformed('it has a time that does not exist');
    }
    // This also keeps clear of the years below 100, which Date.UTC takes for those of 1900.
    if (general && year < 2050) throw this.malformed('it has a GeneralizedTime before 2050');
    return Date.UTC(year, month - 1, day, hour, minute, second);
  }

  #twoDigits(at: number): number {
    const tens = (this.#bytes[at] as number) - 0x30;
    const ones = (this.#bytes[at + 1] as number) - 0x30;
    if (tens < 0 || tens > 9 || ones < 0 || ones > 9) {
      throw this.malformed('it has a time that is not of digits');
    }
    return tens * 10 + ones;
  }

  /** Nothing may follow the outermost element. */
  finish(): void {
    if (this.#at !== this.#end) throw this.malformed('it has trailing bytes');
  }
}

/** Checks lengths and nesting of everything inside, also in parts that no code reads. Linear in the input. */
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

/** Content, one character a byte, to dotted form: the two that every leaf has, and the one of signing requests. */
const knownOids = new Map([
  ['\x2b\x06\x01\x05\x05\x07\x03\x01', '1.3.6.1.5.5.7.3.1'],
  ['\x2b\x06\x01\x05\x05\x07\x03\x02', '1.3.6.1.5.5.7.3.2'],
  ['\x2a\x86\x48\x86\xf7\x0d\x01\x09\x0e', '1.2.840.113549.1.9.14'],
]);

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

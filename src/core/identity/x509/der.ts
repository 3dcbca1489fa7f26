// Writes DER (X.690 §10). Hand-written, like the reader: with general ASN.1 libraries, encoding a
// certificate takes a hundred times as long as signing it, and a minimal reader is the safest one
// for untrusted bytes.

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

/** Certificates nest 7 deep at most where everything is known; deeper nesting is an attack or a mistake. */
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

  /** Returns the mark to pass to `close`. */
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

  /** Starts an element whose content, of known length, is written next. */
  header(tag: number, length: number): void {
    const extra = length < 0x80 ? 0 : lengthOfLength(length);
    this.#reserve(2 + extra);
    this.#bytes[this.#at++] = tag;
    if (extra === 0) {
      this.#bytes[this.#at++] = length;
    } else {
      this.#bytes[this.#at++] = 0x80 | extra;
      this.#bytes.writeUIntBE(length, this.#at, extra);
      this.#at += extra;
    }
  }

  /** An element whose content is ready made. */
  element(tag: number, content: Uint8Array): void {
    this.header(tag, content.length);
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
    this.raw(timeElement(ms));
  }

  /** A copy of the written bytes. */
  take(): Buffer {
    const taken = Buffer.allocUnsafe(this.#at);
    this.#bytes.copy(taken, 0, 0, this.#at);
    return taken;
  }

  /** The written bytes without a copy. They must fill the writer, which cannot be used afterwards. */
  whole(): Buffer {
    if (this.#at !== this.#bytes.length) throw new RangeError('The writer is not full.');
    return this.#bytes;
  }

  /** Starts from empty with the same memory. */
  reset(): void {
    this.#at = 0;
  }
}

/** The size of an element with content of this length. */
export function elementLength(content: number): number {
  return 2 + (content < 0x80 ? 0 : lengthOfLength(content)) + content;
}

/** The size of an encoded length of 128 or more. */
export function lengthOfLength(length: number): number {
  if (length < 0x100) return 1;
  if (length < 0x1_0000) return 2;
  return length < 0x100_0000 ? 3 : 4;
}

/** Certificates of the same second share their times: formatting one costs as much as a digest. */
const timeElements = new Map<number, Buffer>();
const maxTimeElements = 256;

export function timeElement(ms: number): Buffer {
  const known = timeElements.get(ms);
  if (known !== undefined) return known;
  const iso = new Date(ms).toISOString();
  const digits = iso.slice(0, 19).replaceAll(/[-T:]/g, '');
  const utc = ms < Date.UTC(2050, 0);
  const text = `${utc ? digits.slice(2) : digits}Z`;
  const element = Buffer.from([
    utc ? tags.utcTime : tags.generalizedTime,
    text.length,
    ...Buffer.from(text, 'latin1'),
  ]);
  if (timeElements.size === maxTimeElements) timeElements.clear();
  timeElements.set(ms, element);
  return element;
}

// Writes messages in the protobuf encoding of Kubernetes. The length of a message stands before it, so the
// writer starts at the end: fields in descending order, and lists from the last item to the first.

import { magic } from './protobuf.ts';

const initialBytes = 4096;

export class ProtobufWriter {
  #bytes: Buffer = Buffer.allocUnsafe(initialBytes);
  #at = initialBytes;

  /** Fields up to 15, whose keys have one byte. */
  text(field: number, text: string): void {
    const length = Buffer.byteLength(text);
    this.#reserve(length);
    this.#at -= length;
    this.#bytes.write(text, this.#at);
    this.#key(field, length);
  }

  texts(field: number, texts: readonly string[]): void {
    for (let index = texts.length - 1; index >= 0; index -= 1)
      this.text(field, texts[index] as string);
  }

  bytes(field: number, bytes: Buffer): void {
    this.raw(bytes);
    this.#key(field, bytes.length);
  }

  /** Without a key. */
  raw(bytes: Buffer): void {
    this.#reserve(bytes.length);
    this.#at -= bytes.length;
    bytes.copy(this.#bytes, this.#at);
  }

  message(field: number, write: () => void): void {
    const rest = this.#bytes.length - this.#at;
    write();
    this.#key(field, this.#bytes.length - this.#at - rest);
  }

  /** A map<string, string>. */
  map(field: number, map: Readonly<Record<string, string>>): void {
    for (const [key, value] of Object.entries(map).toReversed()) {
      this.message(field, () => {
        this.text(2, value);
        this.text(1, key);
      });
    }
  }

  /** The envelope around the message that `write` writes, in bytes of its own. The writer is empty again. */
  envelope(apiVersion: string, kind: string, write: () => void): Buffer {
    this.clear();
    // contentType and contentEncoding are empty, and Go writes them all the same.
    this.text(4, '');
    this.text(3, '');
    this.message(2, write);
    this.message(1, () => {
      this.text(2, kind);
      this.text(1, apiVersion);
    });
    this.raw(magic);
    const written = Buffer.from(this.#bytes.subarray(this.#at));
    this.clear();
    return written;
  }

  /** Does not keep the memory of an unusually large message. */
  clear(): void {
    if (this.#bytes.length > 16 * initialBytes) this.#bytes = Buffer.allocUnsafe(initialBytes);
    this.#at = this.#bytes.length;
  }

  #key(field: number, length: number): void {
    this.#reserve(6);
    let count = 1;
    for (let rest = length; rest >= 0x80; rest = Math.floor(rest / 128)) count += 1;
    this.#at -= count;
    let rest = length;
    for (let index = 0; index < count; index += 1) {
      this.#bytes[this.#at + index] = (rest % 128) | (index < count - 1 ? 0x80 : 0);
      rest = Math.floor(rest / 128);
    }
    this.#at -= 1;
    this.#bytes[this.#at] = field * 8 + 2;
  }

  /** Room for so many bytes, and for a key. */
  #reserve(length: number): void {
    if (this.#at >= length + 6) return;
    const used = this.#bytes.subarray(this.#at);
    const larger = Buffer.allocUnsafe(2 * (this.#bytes.length + length));
    used.copy(larger, larger.length - used.length);
    this.#at = larger.length - used.length;
    this.#bytes = larger;
  }
}

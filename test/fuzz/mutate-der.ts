// Mutates DER so that it stays DER: changes one element and corrects every enclosing length, so that the
// parser of that element sees the change instead of the length check.

import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';

interface Element {
  tag: number;
  /** What is inside; empty where `content` is. */
  inside: Element[];
  content: Buffer;
  /** Bit strings that hold DER begin with a byte of their own. */
  prefix: Buffer;
}

const maxDepth = 24;

/** Undefined where the input is no DER. */
export function mutateDer(input: Buffer, other: Buffer, random: SeededRandom): Buffer | undefined {
  const tree = readAll(input, maxDepth);
  if (tree === undefined || tree.length === 0) return undefined;
  const places = placesOf(tree);
  const { list, at } = random.pick(places);
  const element = list[at] as Element;
  const foreign = readAll(other, maxDepth);
  const change = random.integer(0, 8);
  if (change === 0) list.splice(at, 1);
  else if (change === 1) list.splice(at, 0, element);
  else if (change === 2) element.tag = random.integer(0, 255);
  else if (change === 3 && foreign !== undefined && foreign.length > 0) {
    const from = random.pick(placesOf(foreign));
    list[at] = from.list[from.at] as Element;
  } else if (change === 4) {
    const from = random.pick(places);
    list[at] = from.list[from.at] as Element;
  } else if (change === 5) {
    element.inside = [];
    element.content = random.take(random.pick([0, 1, 2, 20, 21, 64, 300]));
  } else if (change === 6) {
    for (let depth = random.pick([1, 4, 32, 200]); depth > 0; depth--) {
      list[at] = { tag: 0x30, inside: [list[at] as Element], content: empty, prefix: empty };
    }
  } else if (change === 7 && element.content.length > 0) {
    const content = Buffer.from(element.content);
    const byte = random.integer(0, content.length - 1);
    content[byte] = (content[byte] as number) ^ (1 << random.integer(0, 7));
    element.content = content;
  } else {
    list.push(...Array<Element>(random.pick([1, 8, 64])).fill(element));
  }
  return write(tree, 0);
}

const empty = Buffer.alloc(0);

interface Place {
  readonly list: Element[];
  readonly at: number;
}

function placesOf(list: Element[]): Place[] {
  return list.flatMap((element, at) => [{ list, at }, ...placesOf(element.inside)]);
}

function readAll(bytes: Buffer, depth: number): Element[] | undefined {
  const elements: Element[] = [];
  let at = 0;
  while (at < bytes.length) {
    const tag = bytes[at] as number;
    const first = bytes[at + 1];
    if (first === undefined) return undefined;
    let length = first;
    at += 2;
    if (first >= 0x80) {
      const width = first & 0x7f;
      if (width === 0 || width > 4 || at + width > bytes.length) return undefined;
      length = bytes.readUIntBE(at, width);
      at += width;
    }
    if (at + length > bytes.length) return undefined;
    elements.push(readElement(tag, bytes.subarray(at, at + length), depth));
    at += length;
  }
  return elements;
}

/** Octet and bit strings often hold DER themselves: extensions, keys, signatures. */
function readElement(tag: number, content: Buffer, depth: number): Element {
  const prefix = tag === 0x03 && content[0] === 0 ? content.subarray(0, 1) : empty;
  const mayHold = (tag & 0x20) !== 0 || tag === 0x04 || prefix.length > 0;
  if (mayHold && depth > 0 && content.length > prefix.length) {
    const inside = readAll(content.subarray(prefix.length), depth - 1);
    if (inside !== undefined) return { tag, inside, content: empty, prefix };
  }
  return { tag, inside: [], content, prefix: empty };
}

/** More than any parser takes. An element may stand at several places by now, also within itself. */
const maxElements = 20_000;

function write(elements: readonly Element[], depth: number, written = { count: 0 }): Buffer {
  if (depth > 400) return empty;
  const parts: Buffer[] = [];
  for (const { tag, inside, content, prefix } of elements) {
    if (++written.count > maxElements) break;
    const body =
      inside.length > 0 ? Buffer.concat([prefix, write(inside, depth + 1, written)]) : content;
    parts.push(Buffer.of(tag), lengthOf(body.length), body);
  }
  return Buffer.concat(parts);
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Buffer.of(0x80 | bytes.length, ...bytes);
}

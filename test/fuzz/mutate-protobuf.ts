// Mutates protobuf messages so that they stay readable: changes, repeats, moves or renumbers a field, and
// corrects the enclosing lengths.

import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';

interface Field {
  number: number;
  wire: number;
  /** Varints and fixed numbers as they stand; what a length goes before without it. */
  value: Buffer;
}

/** Undefined where the input is no message. */
export function mutateProtobuf(
  input: Buffer,
  other: Buffer,
  random: SeededRandom,
): Buffer | undefined {
  const fields = read(input);
  if (fields === undefined || fields.length === 0) return undefined;
  const at = random.integer(0, fields.length - 1);
  const field = fields[at] as Field;
  const change = random.integer(0, 7);
  if (change === 0) fields.splice(at, 1);
  else if (change === 1) fields.push(...Array<Field>(random.pick([1, 8, 300])).fill(field));
  else if (change === 2) field.number = random.pick([1, 2, 3, 4, 5, 6, 15, 16, 2047]);
  else if (change === 3) {
    const foreign = read(other) ?? [];
    if (foreign.length > 0) fields.splice(at, 0, random.pick(foreign));
  } else if (change === 4 && field.wire === 2) {
    field.value = random.take(random.pick([0, 1, 16, 32, 33, 300, 5000]));
  } else if (change === 5 && field.wire === 0) {
    field.value = random.pick([
      Buffer.of(0),
      Buffer.of(1),
      Buffer.from('ffffffff0f', 'hex'),
      Buffer.from('ffffffffffffffffff01', 'hex'),
    ]);
  } else {
    const inner = mutateProtobuf(field.value, other, random);
    if (field.wire !== 2 || inner === undefined) return undefined;
    field.value = inner;
  }
  return Buffer.concat(fields.map(write));
}

function read(bytes: Buffer): Field[] | undefined {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): number | undefined => {
    let value = 0;
    for (let shift = 1; shift <= 2 ** 42; shift *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) return undefined;
      value += (byte & 0x7f) * shift;
      if (byte < 0x80) return value;
    }
    return undefined;
  };
  while (at < bytes.length) {
    const key = varint();
    if (key === undefined || key < 8) return undefined;
    const number = Math.floor(key / 8);
    const wire = key % 8;
    const start = at;
    let length = wire === 1 ? 8 : wire === 5 ? 4 : undefined;
    if (wire === 2) length = varint();
    if (wire === 0) {
      if (varint() === undefined) return undefined;
      fields.push({ number, wire, value: bytes.subarray(start, at) });
      continue;
    }
    if (length === undefined || at + length > bytes.length) return undefined;
    fields.push({ number, wire, value: bytes.subarray(at, at + length) });
    at += length;
  }
  return fields;
}

function write({ number, wire, value }: Field): Buffer {
  const length = wire === 2 ? varintOf(value.length) : Buffer.alloc(0);
  return Buffer.concat([varintOf(number * 8 + wire), length, value]);
}

function varintOf(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return Buffer.of(...bytes, rest);
}

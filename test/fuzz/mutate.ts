// Makes a new input from existing ones, reproducibly from a seed.

import type { SeededRandom } from '../../src/core/clock/seeded-random.ts';
import { mutateDer } from './mutate-der.ts';
import { mutateJson } from './mutate-json.ts';
import { mutateProtobuf } from './mutate-protobuf.ts';
import type { Target } from './target.ts';

const interesting = [0, 1, 0x0a, 0x20, 0x22, 0x2e, 0x30, 0x7f, 0x80, 0x81, 0x82, 0xa0, 0xfe, 0xff];

/** `pool` holds inputs that are already known, this one among them. */
export function mutate(
  target: Target,
  input: Buffer,
  pool: readonly Buffer[],
  random: SeededRandom,
): Buffer {
  let made = input;
  const rounds = random.pick([1, 1, 1, 2, 2, 4, 8]);
  for (let round = 0; round < rounds; round++) made = once(target, made, pool, random);
  return made.subarray(0, target.maxBytes);
}

function once(
  target: Target,
  input: Buffer,
  pool: readonly Buffer[],
  random: SeededRandom,
): Buffer {
  // Mostly a change that the parser cannot tell at once: beyond its first test is where bugs are.
  if (random.chance(0.6)) {
    const kept = structured(target, input, pool, random);
    if (kept !== undefined) return kept;
  }
  return random.pick(plain)(input, target, pool, random);
}

/** Undefined where the input is not of the grammar any more. */
function structured(
  target: Target,
  input: Buffer,
  pool: readonly Buffer[],
  random: SeededRandom,
): Buffer | undefined {
  const { grammar } = target;
  if (grammar === 'der') return mutateDer(input, random.pick(pool), random);
  if (grammar === 'json') return mutateJson(input, target, random);
  if (grammar === 'protobuf') return mutateProtobuf(input, random.pick(pool), random);
  if (grammar === 'jws') return mutateJws(input, target, random);
  return undefined;
}

/** Base64url segments between dots, of which the first ones are JSON. */
function mutateJws(input: Buffer, target: Target, random: SeededRandom): Buffer | undefined {
  const segments = input.toString('latin1').split('.');
  const at = random.integer(0, Math.min(segments.length - 1, 1));
  const json = mutateJson(Buffer.from(segments[at] ?? '', 'base64url'), target, random);
  if (json === undefined) return undefined;
  segments[at] = json.toString('base64url');
  return Buffer.from(segments.join('.'));
}

type Plain = (
  input: Buffer,
  target: Target,
  pool: readonly Buffer[],
  random: SeededRandom,
) => Buffer;

/** From and to, somewhere in the input; short ones more often than long ones. */
function range(input: Buffer, random: SeededRandom): readonly [from: number, to: number] {
  const from = random.integer(0, input.length);
  const most = random.pick([1, 2, 4, 16, 64, input.length]);
  return [from, Math.min(input.length, from + random.integer(0, most))];
}

function replaced(input: Buffer, from: number, to: number, by: Uint8Array): Buffer {
  return Buffer.concat([input.subarray(0, from), by, input.subarray(to)]);
}

const plain: readonly Plain[] = [
  function flipBit(input, _target, _pool, random) {
    if (input.length === 0) return Buffer.of(random.integer(0, 255));
    const changed = Buffer.from(input);
    const at = random.integer(0, input.length - 1);
    changed[at] = (changed[at] as number) ^ (1 << random.integer(0, 7));
    return changed;
  },
  function setByte(input, _target, _pool, random) {
    if (input.length === 0) return input;
    const changed = Buffer.from(input);
    changed[random.integer(0, input.length - 1)] = random.pick(interesting);
    return changed;
  },
  function setNumber(input, _target, _pool, random) {
    const width = random.pick([2, 4]);
    if (input.length < width) return input;
    const changed = Buffer.from(input);
    const value = random.pick([
      0,
      1,
      0x7f,
      0x80,
      0xff,
      0x7fff,
      0x8000,
      0xffff,
      2 ** 31,
      2 ** 32 - 1,
    ]);
    changed.writeUIntBE(value % 256 ** width, random.integer(0, input.length - width), width);
    return changed;
  },
  function remove(input, _target, _pool, random) {
    const [from, to] = range(input, random);
    return replaced(input, from, to, Buffer.alloc(0));
  },
  function repeat(input, { maxBytes }, _pool, random) {
    const [from, to] = range(input, random);
    if (from === to) return input;
    const most = Math.max(1, Math.floor(maxBytes / (to - from)));
    const times = Math.min(most, random.pick([1, 1, 2, 16, 256, 4096]));
    const part = input.subarray(from, to);
    return replaced(input, from, from, Buffer.concat(Array<Buffer>(times).fill(part)));
  },
  function insertChance(input, _target, _pool, random) {
    const [from, to] = range(input, random);
    return replaced(input, from, random.pick([from, to]), random.take(random.pick([1, 2, 8, 32])));
  },
  function insertWord(input, { dictionary }, _pool, random) {
    if (dictionary.length === 0) return input;
    const [from, to] = range(input, random);
    return replaced(input, from, random.pick([from, to]), Buffer.from(random.pick(dictionary)));
  },
  function splice(input, _target, pool, random) {
    const other = random.pick(pool);
    const [from, to] = range(input, random);
    const [otherFrom, otherTo] = range(other, random);
    return replaced(input, from, to, other.subarray(otherFrom, otherTo));
  },
  function crossOver(input, _target, pool, random) {
    const other = random.pick(pool);
    const cut = random.integer(0, Math.min(input.length, other.length));
    return Buffer.concat([input.subarray(0, cut), other.subarray(cut)]);
  },
  function cutOff(input, _target, _pool, random) {
    return input.subarray(0, random.integer(0, input.length));
  },
];

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { RequestMemory } from './request-memory.ts';

function message(length: number): Buffer {
  const framed = Buffer.alloc(5 + length, 1);
  framed.writeUInt32BE(length, 1);
  return framed;
}

function cut(bytes: Buffer, pieceLength: number): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieceLength) {
    pieces.push(bytes.subarray(at, at + pieceLength));
  }
  return pieces;
}

function brought(pieces: readonly Buffer[]): RequestMemory {
  const request = new RequestMemory();
  for (const piece of pieces) request.add(piece);
  return request;
}

suite('pieces of a request', () => {
  test('cost more than their bytes', () => {
    const inOne = brought([message(1_000)]).held;
    assert.ok(inOne >= 1_000);
    assert.ok(brought(cut(message(1_000), 20)).held > 10 * inOne);
  });

  test('of one byte are too many soon, those of usual frames never', () => {
    assert.equal(brought(cut(message(200_000), 1).slice(0, 100)).areTooMany, true);
    for (const usual of [5, 4_096, 16_384]) {
      assert.equal(
        brought([...cut(message(20), 5), ...cut(message(262_144), 16_384)]).areTooMany,
        false,
      );
      assert.equal(brought(cut(message(usual), usual)).areTooMany, false);
    }
  });

  test('of messages that were read cost nothing, however many came', () => {
    const request = new RequestMemory();
    for (let index = 0; index < 10_000; index++) {
      for (const piece of cut(message(100), 60)) request.add(piece);
      assert.equal(request.areTooMany, false);
    }
    assert.ok(request.held < 2_000);
  });

  test('that bring many messages at once cost as many', () => {
    const request = brought([Buffer.concat(Array.from({ length: 3_000 }, () => message(0)))]);
    assert.ok(request.held >= 3_000 * 256);
    request.add(message(0));
    assert.ok(request.held < 1_000);
  });

  test('cost at least the bytes of a message that is not whole, wherever it is cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(300), { maxLength: 5 }),
        fc.integer({ min: 1, max: 5_000 }),
        fc.integer({ min: 1, max: 400 }),
        (before, last, pieceLength) => {
          const bytes = Buffer.concat([...before.map(message), message(last).subarray(0, -1)]);
          const { held } = brought(cut(bytes, pieceLength));
          assert.ok(held >= last - 1);
          assert.ok(
            held <=
              bytes.length + 256 * (Math.ceil(bytes.length / pieceLength) + before.length + 2),
          );
        },
      ),
    );
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { FrameSlices } from './frame-slices.ts';
import { preface, frame } from '../../../core/rpc/test-frames.ts';

test('slices end where frames end, and join to what came, wherever that was cut', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(300), { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 1, max: 1_000 }),
      fc.integer({ min: 1, max: 5 }),
      (lengths, pieceLength, maxFrames) => {
        const frames = lengths.map((length) => frame(0, 0, 1, Buffer.alloc(length, 255)));
        const bytes = Buffer.concat([preface, ...frames]);
        const ends = new Set([0, bytes.length]);
        for (let at = preface.length, index = 0; index < frames.length; index++) {
          at += frames[index]?.length ?? 0;
          ends.add(at);
        }
        ends.add(preface.length);
        const slices = new FrameSlices();
        let taken = 0;
        for (let at = 0; at < bytes.length; at += pieceLength) {
          let piece = bytes.subarray(at, at + pieceLength);
          while (piece.length > 0) {
            const length = slices.next(piece, maxFrames);
            assert.ok(length > 0);
            taken += length;
            if (length < piece.length) assert.ok(ends.has(taken), `${taken}`);
            piece = piece.subarray(length);
          }
        }
        assert.equal(taken, bytes.length);
      },
    ),
  );
});

test('a slice has no more frames than asked for', () => {
  const empty = frame(3, 0, 1);
  const slices = new FrameSlices();
  const bytes = Buffer.concat([preface, ...Array.from({ length: 100 }, () => empty)]);
  assert.equal(slices.next(bytes, 16), preface.length + 16 * empty.length);
});

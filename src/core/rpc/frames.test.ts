import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { encodeFrame, FrameReader, frameHeadBytes } from './frames.ts';

const maxMessageBytes = 40;

const someMessages = fc.array(fc.uint8Array({ maxLength: maxMessageBytes }), { maxLength: 6 });

function framed(messages: readonly Uint8Array[]): Buffer {
  return Buffer.concat(messages.map((message) => encodeFrame(message)));
}

/** All messages of the chunks, taken after each push. They are compared later, when the reader has read more. */
function readAll(reader: FrameReader, chunks: readonly Uint8Array[]): Uint8Array[] {
  const messages: Uint8Array[] = [];
  for (const chunk of chunks) {
    reader.push(chunk);
    for (let next = reader.take(); next !== undefined; next = reader.take()) messages.push(next);
  }
  return messages;
}

function hexOf(messages: readonly Uint8Array[]): string[] {
  return messages.map((message) => Buffer.from(message).toString('hex'));
}

function readerWith(hex: string): FrameReader {
  const reader = new FrameReader(maxMessageBytes);
  reader.push(Buffer.from(hex, 'hex'));
  return reader;
}

suite('a frame reader', () => {
  test('finds every message, in chunks of any sizes', () => {
    fc.assert(
      fc.property(someMessages, fc.array(fc.nat({ max: 60 })), (sent, cuts) => {
        const chunks: Buffer[] = [];
        let rest = framed(sent);
        while (rest.length > 0) {
          const size = cuts.shift() ?? 9;
          chunks.push(rest.subarray(0, size));
          rest = rest.subarray(size);
          if (size === 0 && cuts.length === 0) cuts.push(1);
        }
        const reader = new FrameReader(maxMessageBytes);
        assert.deepEqual(hexOf(readAll(reader, chunks)), hexOf(sent));
        reader.finish();
      }),
    );
  });

  test('finds every message when the stream is split in two at any byte', () => {
    fc.assert(
      fc.property(someMessages, (sent) => {
        const bytes = framed(sent);
        for (let at = 0; at <= bytes.length; at++) {
          const reader = new FrameReader(maxMessageBytes);
          const chunks = [bytes.subarray(0, at), bytes.subarray(at)];
          assert.deepEqual(hexOf(readAll(reader, chunks)), hexOf(sent), `split at ${at}`);
          reader.finish();
        }
      }),
      { numRuns: 30 },
    );
  });

  test('finds every message in single bytes', () => {
    fc.assert(
      fc.property(someMessages, (sent) => {
        const reader = new FrameReader(maxMessageBytes);
        const bytes = [...framed(sent)].map((byte) => Uint8Array.of(byte));
        assert.deepEqual(hexOf(readAll(reader, bytes)), hexOf(sent));
      }),
    );
  });

  test('reads chunks that are views of a larger buffer, and Uint8Arrays', () => {
    const frame = encodeFrame(Buffer.from('hello'));
    const larger = new Uint8Array(frame.length + 6).fill(0xff);
    larger.set(frame, 3);
    const view = larger.subarray(3, 3 + frame.length);
    assert.deepEqual(hexOf(readAll(new FrameReader(5), [view])), ['68656c6c6f']);
  });

  test('does not copy a message that arrives in one chunk', () => {
    const chunk = framed([Buffer.from('one'), Buffer.from('two')]);
    for (const message of readAll(new FrameReader(3), [chunk])) {
      assert.equal(message.buffer, chunk.buffer);
    }
  });

  test('does not write to a chunk that it was given', () => {
    const [first, second] = [encodeFrame(Buffer.from('first')), encodeFrame(Buffer.from('second'))];
    const slab = Buffer.concat([first.subarray(0, 7), Buffer.alloc(32, 0xee)]);
    const reader = new FrameReader(maxMessageBytes);
    readAll(reader, [slab.subarray(0, 7), first.subarray(7), second]);
    assert.deepEqual(slab.subarray(7), Buffer.alloc(32, 0xee));
  });

  test('accepts an empty message and a message of exactly the limit', () => {
    const sent = [new Uint8Array(), new Uint8Array(maxMessageBytes).fill(7)];
    assert.deepEqual(hexOf(readAll(new FrameReader(maxMessageBytes), [framed(sent)])), hexOf(sent));
  });

  const rejections: readonly (readonly [string, string, string])[] = [
    ['a message that is one byte too large, by its head', '0000000029', 'HANSA_TOO_LARGE'],
    ['a message of four gigabytes', '00ffffffff', 'HANSA_TOO_LARGE'],
    ['a compressed message, by its first byte', '01', 'HANSA_BAD_REQUEST'],
    ['a compressed message that is also too large', '01ffffffff', 'HANSA_BAD_REQUEST'],
    ['an unknown flag', '02', 'HANSA_BAD_REQUEST'],
    ['text', Buffer.from('GET / HTTP/1.1').toString('hex'), 'HANSA_BAD_REQUEST'],
  ];
  for (const [what, hex, code] of rejections) {
    test(`rejects ${what}`, () => {
      assert.throws(() => readerWith(hex).take(), { code });
    });

    test(`rejects ${what}, after a message and in single bytes`, () => {
      const reader = new FrameReader(maxMessageBytes);
      const bytes = Buffer.concat([encodeFrame(Buffer.from('good')), Buffer.from(hex, 'hex')]);
      assert.throws(
        () =>
          readAll(
            reader,
            [...bytes].map((byte) => Uint8Array.of(byte)),
          ),
        { code },
      );
    });
  }

  test('repeats its error, and keeps no bytes that come after it', () => {
    const reader = readerWith('01');
    assert.throws(() => reader.take(), { code: 'HANSA_BAD_REQUEST' });
    reader.push(encodeFrame(Buffer.from('good')));
    assert.throws(() => reader.take(), { code: 'HANSA_BAD_REQUEST' });
    assert.throws(() => reader.finish(), { code: 'HANSA_BAD_REQUEST' });
  });

  test('rejects the end of a stream at every byte within a message, and nowhere else', () => {
    const bytes = framed([Buffer.from('ab'), new Uint8Array(), Buffer.from('c')]);
    const ends = new Set([0, frameHeadBytes + 2, 2 * frameHeadBytes + 2, bytes.length]);
    for (let end = 0; end <= bytes.length; end++) {
      const reader = new FrameReader(maxMessageBytes);
      readAll(reader, [bytes.subarray(0, end)]);
      if (ends.has(end)) reader.finish();
      else {
        assert.throws(() => reader.finish(), { code: 'HANSA_BAD_REQUEST' }, `ended at ${end}`);
      }
    }
  });
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { ProtobufError, readEnvelope, readMessage, type Shape } from './protobuf.ts';
import { ProtobufWriter } from './protobuf-writer.ts';
import { envelope, field } from './test-protobuf.ts';

const shape: Shape = {
  1: ['text', 'text'],
  2: ['texts', 'texts'],
  3: ['inner', { 1: ['text', 'text'] }],
  4: ['map', 'map'],
  5: ['lists', 'lists'],
  6: ['flag', 'flag'],
};

function problem(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof ProtobufError);
    return error.message;
  }
  assert.fail('it was read');
}

suite('a message', () => {
  test('is read by its shape, without unknown fields', () => {
    const entry = Buffer.concat([field(1, 'k'), field(2, 'v')]);
    const bytes = Buffer.concat([
      field(1, 'a'),
      field(2, 'b'),
      field(9, 'unknown'),
      Buffer.of(8 * 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
      field(2, 'c'),
      field(3, field(1, 'd')),
      field(4, entry),
    ]);
    assert.deepEqual(
      { ...readMessage(bytes, shape) },
      {
        text: 'a',
        texts: ['b', 'c'],
        inner: { text: 'd' },
        map: Object.assign(Object.create(null), { k: 'v' }),
      },
    );
  });

  test('has flags and maps of lists', () => {
    const list = Buffer.concat([
      field(1, 'k'),
      field(2, Buffer.concat([field(1, 'a'), field(1, 'b')])),
    ]);
    const bytes = Buffer.concat([field(5, list), field(5, field(1, 'empty')), Buffer.of(6 * 8, 1)]);
    const { flag, lists } = readMessage(bytes, shape);
    assert.equal(flag, true);
    assert.deepEqual({ ...(lists as Record<string, unknown>) }, { k: ['a', 'b'], empty: [] });
    assert.equal(readMessage(Buffer.of(6 * 8, 0), shape)['flag'], false);
    assert.equal(readMessage(field(6, 'true'), shape)['flag'], undefined);
  });

  test('is refused with more fields than the reader allows', () => {
    const bytes = Buffer.concat([field(1, 'a'), field(9, ''), field(3, field(1, 'b'))]);
    assert.equal(Object.keys(readMessage(bytes, shape, { left: 4 })).length, 2);
    assert.equal(
      problem(() => readMessage(bytes, shape, { left: 3 })),
      'too many fields',
    );
  });

  test('is refused where it is malformed', () => {
    const read = (...bytes: number[]) => problem(() => readMessage(Buffer.from(bytes), shape));
    assert.equal(read(10), 'unexpected EOF');
    assert.equal(read(10, 5, 1), 'unexpected EOF');
    assert.equal(read(9, 1, 2), 'unexpected EOF');
    assert.equal(read(13, 1), 'unexpected EOF');
    assert.equal(read(11), 'proto: illegal wireType 3');
    assert.equal(read(2, 0), 'proto: illegal tag 0');
    assert.equal(read(10, ...Array<number>(11).fill(0xff)), 'proto: integer overflow');
  });

  test('with a key that names a property of objects changes nothing else', () => {
    const entry = Buffer.concat([field(1, '__proto__'), field(2, 'v')]);
    const { map } = readMessage(field(4, entry), shape) as { map: Record<string, string> };
    assert.equal(Object.getPrototypeOf(map), null);
    assert.deepEqual(Object.keys(map), ['__proto__']);
  });
});

suite('an envelope', () => {
  test('has type and message', () => {
    assert.deepEqual(readEnvelope(envelope('v1', 'Pod', Buffer.from('raw'))), {
      apiVersion: 'v1',
      kind: 'Pod',
      raw: Buffer.from('raw'),
    });
  });

  test('is refused without its prefix', () => {
    assert.equal(
      problem(() => readEnvelope(Buffer.alloc(0))),
      'empty data',
    );
    assert.equal(
      problem(() => readEnvelope(Buffer.from('k8s\0'))),
      'empty body',
    );
    assert.match(
      problem(() => readEnvelope(Buffer.from('{}'))),
      /expected prefix \[107 56 115 0\]/,
    );
  });
});

test('what the writer writes is read again, whatever its size', () => {
  const writer = new ProtobufWriter();
  const text = fc.string({ unit: 'grapheme' });
  fc.assert(
    fc.property(text, fc.array(text), fc.nat(20_000), (one, texts, size) => {
      const large = 'x'.repeat(size);
      const bytes = writer.envelope('v1', 'Thing', () => {
        writer.map(4, { [large]: one });
        writer.message(3, () => writer.text(1, large));
        writer.texts(2, texts);
        writer.text(1, one);
      });
      const { apiVersion, kind, raw } = readEnvelope(bytes);
      assert.deepEqual([apiVersion, kind], ['v1', 'Thing']);
      const message = readMessage(raw, shape);
      assert.equal(message['text'], one);
      assert.deepEqual(message['texts'] ?? [], texts);
      assert.deepEqual(message['inner'], { text: large });
      assert.equal((message['map'] as Record<string, string>)[large], one);
    }),
  );
});

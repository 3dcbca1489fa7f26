import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { assertDer, DerReader, dottedOid } from './der-reader.ts';
import { DerWriter, maxDepth, tags } from './der.ts';
import { brokenRule } from './rules.ts';

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const malformed = (caught: unknown): boolean => brokenRule(caught) === 'malformed-der';

type Tree = Buffer | readonly Tree[];

function write(writer: DerWriter, tree: Tree): void {
  if (Buffer.isBuffer(tree)) {
    writer.element(tags.octetString, tree);
    return;
  }
  const mark = writer.open(tags.sequence);
  for (const child of tree) write(writer, child);
  writer.close(mark);
}

function read(reader: DerReader): Tree {
  if (reader.peek() === tags.octetString) return Buffer.from(reader.content(tags.octetString));
  const children: Tree[] = [];
  const outer = reader.enter(tags.sequence);
  while (reader.peek() !== -1) children.push(read(reader));
  reader.leave(outer);
  return children;
}

const bytes = fc.uint8Array({ maxLength: 300, size: 'max' }).map((content) => Buffer.from(content));
const tree = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof({ depthSize: 'small' }, bytes, fc.array(tie('tree'), { maxLength: 5 })),
})).tree;

test('what is written reads back the same, whatever its lengths', () => {
  fc.assert(
    fc.property(tree, (original) => {
      const writer = new DerWriter(1);
      write(writer, original);
      const reader = new DerReader(writer.take());
      assert.deepEqual(read(reader), original);
      reader.finish();
    }),
  );
});

test('lengths around each change of form are written in their shortest form', () => {
  for (const length of [0, 1, 127, 128, 255, 256, 65535, 65536]) {
    const writer = new DerWriter(4);
    const mark = writer.open(tags.octetString);
    writer.raw(Buffer.alloc(length, 7));
    writer.close(mark);
    const framed = writer.take();
    const other = new DerWriter(4);
    other.element(tags.octetString, Buffer.alloc(length, 7));
    assert.deepEqual(framed, other.take());
    assert.equal(new DerReader(framed).content(tags.octetString).length, length);
  }
});

test('unsigned integers have neither needless zeros nor a sign', () => {
  const written = (magnitude: Buffer): string => {
    const writer = new DerWriter();
    writer.unsigned(magnitude);
    return writer.take().toString('hex');
  };
  assert.equal(written(hex('')), '020100');
  assert.equal(written(hex('00')), '020100');
  assert.equal(written(hex('0000 7f')), '02017f');
  assert.equal(written(hex('80')), '02020080');
  assert.equal(written(hex('00 80 01')), '0203008001');
});

test('times are read back to the second, on both sides of 2050', () => {
  const second = fc.integer({ min: Date.UTC(1950, 0) / 1000, max: Date.UTC(9999, 0) / 1000 });
  fc.assert(
    fc.property(second, (seconds) => {
      const writer = new DerWriter();
      writer.time(seconds * 1000);
      assert.equal(new DerReader(writer.take()).time(), seconds * 1000);
    }),
  );
});

for (const [what, text] of [
  ['no seconds', Buffer.from('2601010000Z').toString('hex')],
  ['a zone other than Z', Buffer.from('260101000000+').toString('hex')],
  ['a letter', Buffer.from('26010100000xZ').toString('hex')],
  ['month 13', Buffer.from('261301000000Z').toString('hex')],
  ['day 0', Buffer.from('260100000000Z').toString('hex')],
  ['30 February', Buffer.from('260230000000Z').toString('hex')],
  ['29 February of a common year', Buffer.from('270229000000Z').toString('hex')],
  ['hour 24', Buffer.from('260101240000Z').toString('hex')],
  ['second 60', Buffer.from('260101000060Z').toString('hex')],
] as const) {
  test(`a time with ${what} is refused`, () => {
    const writer = new DerWriter();
    writer.element(tags.utcTime, Buffer.from(text, 'hex'));
    const der = writer.take();
    assert.throws(() => new DerReader(der).time(), malformed);
  });
}

test('a GeneralizedTime before 2050 is refused', () => {
  const writer = new DerWriter();
  writer.element(tags.generalizedTime, Buffer.from('20260101000000Z'));
  const der = writer.take();
  assert.throws(() => new DerReader(der).time(), malformed);
});

for (const [what, der] of [
  ['an indefinite length', '30 80 00 00'],
  ['a long length that fits the short form', '04 81 05 0102030405'],
  ['a length with a leading zero', `04 82 00 80 ${'00'.repeat(128)}`],
  ['a length of five bytes', '04 85 00 00 00 00 01 00'],
  ['a length beyond the end', '04 05 00'],
  ['a length of 2^32 - 1', '04 84 ff ff ff ff 00'],
  ['nothing after the tag', '04'],
  ['a length that is cut off', '04 82 01'],
  ['a tag number in several bytes', '1f 81 01 00'],
  ['an end-of-contents marker', '00 00'],
  ['a child longer than its parent', '30 03 04 05 00 00 00 00 00'],
  ['bytes after the end', '04 01 00 ff'],
] as const) {
  test(`${what} is refused`, () => {
    assert.throws(() => assertDer(hex(der)), malformed);
  });
}

test('nesting is refused just above the limit', () => {
  const nested = (depth: number): Buffer => {
    const writer = new DerWriter();
    const marks = Array.from({ length: depth }, () => writer.open(tags.sequence));
    for (const mark of marks.toReversed()) writer.close(mark);
    return writer.take();
  };
  assertDer(nested(maxDepth));
  const tooDeep = nested(maxDepth + 1);
  assert.throws(() => assertDer(tooDeep), malformed);
});

for (const [what, der, run] of [
  ['a boolean of 01', '01 01 01', (r: DerReader) => r.boolean()],
  ['an empty boolean', '01 00', (r: DerReader) => r.boolean()],
  ['an empty integer', '02 00', (r: DerReader) => r.integer()],
  ['an integer with a needless zero', '02 02 00 01', (r: DerReader) => r.integer()],
  ['a negative one with a needless ff', '02 02 ff 80', (r: DerReader) => r.integer()],
  ['a negative small integer', '02 01 ff', (r: DerReader) => r.smallInteger()],
  ['a small integer of 5 bytes', '02 05 01 00 00 00 00', (r: DerReader) => r.smallInteger()],
  ['an empty bit string', '03 00', (r: DerReader) => r.octetAlignedBitString()],
  ['a bit string with unused bits', '03 02 01 fe', (r: DerReader) => r.octetAlignedBitString()],
  ['named bits with trailing zeros', '03 02 00 80', (r: DerReader) => r.namedBits()],
  ['named bits with 8 unused', '03 02 08 80', (r: DerReader) => r.namedBits()],
  ['named bits whose unused bits are set', '03 02 06 41', (r: DerReader) => r.namedBits()],
  ['no named bits with unused ones', '03 01 03', (r: DerReader) => r.namedBits()],
  ['an empty object identifier', '06 00', (r: DerReader) => r.oid()],
  ['an unfinished object identifier', '06 02 55 9d', (r: DerReader) => r.oid()],
  ['a padded object identifier', '06 03 55 80 01', (r: DerReader) => r.oid()],
] as const) {
  test(`${what} is refused`, () => {
    assert.throws(() => run(new DerReader(hex(der))), malformed);
  });
}

test('named bits are read from the left', () => {
  assert.equal(new DerReader(hex('03 02 07 80')).namedBits(), 1);
  assert.equal(new DerReader(hex('03 02 01 06')).namedBits(), (1 << 5) | (1 << 6));
  assert.equal(new DerReader(hex('03 03 07 00 80')).namedBits(), 1 << 8);
  assert.equal(new DerReader(hex('03 01 00')).namedBits(), 0);
});

test('object identifiers are shown dotted', () => {
  assert.equal(dottedOid(hex('551d11')), '2.5.29.17');
  assert.equal(dottedOid(hex('2a864886f70d01010b')), '1.2.840.113549.1.1.11');
  assert.equal(dottedOid(hex('883703')), '2.999.3');
});

test('no bytes make the reader do anything but accept or refuse', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (noise) => {
      try {
        assertDer(noise);
      } catch (caught) {
        assert.ok(malformed(caught), String(caught));
      }
    }),
    { numRuns: 2000 },
  );
});

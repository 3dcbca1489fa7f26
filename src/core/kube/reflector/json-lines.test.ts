import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { JsonLines, LineTooLongError } from './json-lines.ts';

function read(lines: JsonLines, ...chunks: readonly (string | Buffer)[]): string[] {
  const found: string[] = [];
  for (const chunk of chunks) {
    for (const line of lines.push(Buffer.from(chunk))) found.push(line.toString());
  }
  return found;
}

suite('the lines of a watch', () => {
  test('are the same however the body is cut, also inside a character', () => {
    const line = fc
      .string({ unit: 'binary', minLength: 1, maxLength: 40 })
      .filter((text) => !text.includes('\n') && Buffer.from(text).toString() === text);
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.nat(7)), (texts, sizes) => {
        const body = Buffer.from(texts.map((text) => `${text}\n`).join(''));
        const lines = new JsonLines(1000);
        const found: string[] = [];
        let at = 0;
        for (const size of sizes) {
          found.push(...read(lines, body.subarray(at, at + size)));
          at += size;
        }
        found.push(...read(lines, body.subarray(at)));
        assert.deepEqual(found, texts);
        assert.equal(lines.hasRest, false);
      }),
    );
  });

  test('do not include one that has not ended', () => {
    const lines = new JsonLines(100);
    assert.deepEqual(read(lines, 'a\n\nb'), ['a']);
    assert.equal(lines.hasRest, true);
    assert.deepEqual(read(lines, 'c\n'), ['bc']);
  });

  test('are bounded, in one chunk and in many', () => {
    assert.deepEqual(read(new JsonLines(3), 'abc\n', 'ab', 'c', '\n'), ['abc', 'abc']);
    assert.throws(() => read(new JsonLines(3), 'abcd\n'), LineTooLongError);
    assert.throws(() => read(new JsonLines(3), 'ab', 'cd'), LineTooLongError);
  });

  test('are right after a long one', () => {
    const lines = new JsonLines(1_000_000);
    const long = 'x'.repeat(300_000);
    assert.deepEqual(read(lines, long, `${long}\na`, 'b\n'), [long + long, 'ab']);
  });
});

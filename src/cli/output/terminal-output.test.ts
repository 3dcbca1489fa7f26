import assert from 'node:assert/strict';
import { Readable, Writable } from 'node:stream';
import { suite, test } from 'node:test';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { createCli } from '../cli.ts';
import { parseFormat, renderValue } from './output.ts';
import { allPlanes } from '../../test-planes.ts';

function printed(isTTY: boolean, text: string, how: 'print' | 'note' = 'print'): string {
  let written = '';
  const stdout = Object.assign(
    new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        written += chunk.toString('utf8');
        done();
      },
    }),
    { isTTY },
  );
  const cli = createCli(
    {
      stdout,
      stderr: stdout,
      stdin: Readable.from([]),
      env: {},
      cwd: '/nowhere',
      clock: systemClock,
      random: systemRandom,
      launcher: '/opt/hansa/hansa',
      interruption: () => new AbortController().signal,
    },
    { planes: allPlanes, version: '1.2.3' },
  );
  cli[how](text);
  return written;
}

/** Clears the screen, sets the title, and does both again with the eight-bit introducers. */
const hostile = 'a\u001b[2Jb\u001b]0;root\u0007c\u009b2Jd\u009d0;x\u009c\r\b\u202ee';
// oxlint-disable-next-line no-control-regex -- none may be left
const control = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202e]/;

suite('what commands print', () => {
  for (const output of [
    "jsonpath={range .items[*]}{.a}{'\\n'}{end}",
    'jsonpath={.items}',
    'json',
    'yaml',
  ]) {
    const format = parseFormat(output, ['jsonpath', 'json', 'yaml']);
    const text = renderValue({ items: [{ a: hostile }, { a: 'plain\tü' }] }, format) ?? '';

    test(`cannot steer a terminal with -o ${output.replace(/\{.*/, '…')}`, () => {
      const shown = printed(true, text);
      assert.doesNotMatch(shown, control);
      assert.equal(shown.split('\n').length, `${text}\n`.split('\n').length);
      assert.match(shown, /plain(?:\t|\\t)ü/);
    });

    test(`is the same to the byte for a file or a pipe with -o ${output}`, () => {
      assert.equal(printed(false, text), `${text}\n`);
    });
  }

  test('cannot steer a terminal with a note on standard error', () => {
    assert.doesNotMatch(printed(true, hostile, 'note'), control);
    assert.equal(printed(true, 'a\n\tü', 'note'), 'a\n\tü\n');
    assert.equal(printed(false, hostile, 'note'), `${hostile}\n`);
  });
});

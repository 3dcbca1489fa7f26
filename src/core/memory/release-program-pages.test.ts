import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { programMappings, releaseProgramPages } from './release-program-pages.ts';

const mapping = (head: string, changed: Readonly<Record<string, number>> = {}): string => {
  const fields = { Rss: 8, Shared_Dirty: 0, Private_Dirty: 0, Anonymous: 0, Locked: 0, ...changed };
  const rows = Object.entries(fields).map(
    ([name, kilobytes]) => `${`${name}:`.padEnd(16)}${String(kilobytes).padStart(8)} kB`,
  );
  return `${head}\n${rows.join('\n')}\nVmFlags: rd ex mr mw me\n`;
};

const code = '00400000-00600000 r-xp 00001000 fe:00 1234                       /usr/bin/node';

suite('pages of program files', () => {
  test('code and constants of a file can be returned', () => {
    const constants = '7f0000000000-7f0000002000 r--p 00000000 fe:00 77   /usr/lib/libc.so.6';
    assert.deepEqual(programMappings(mapping(code) + mapping(constants)), [
      { start: 0x400000n, bytes: 0x200000 },
      { start: 0x7f0000000000n, bytes: 0x2000 },
    ]);
  });

  for (const [what, text] of [
    ['that was changed', mapping(code, { Private_Dirty: 4 })],
    ['with pages of its own', mapping(code, { Anonymous: 4 })],
    ['that is locked', mapping(code, { Locked: 4 })],
    ['that can be written', mapping(code.replace('r-xp', 'rw-p'))],
    ['that is shared with others', mapping(code.replace('r-xp', 'r-xs'))],
    ['of no file', mapping('00400000-00600000 r-xp 00000000 00:00 0 ')],
    ['of the kernel', mapping('7ffd0000-7ffd2000 r-xp 00000000 00:00 0   [vdso]')],
    ['without its counters', `${code}\n`],
    ['of another form', 'nonsense\n'],
    ['of nothing', ''],
  ] as const) {
    test(`a mapping ${what} is left alone`, () => {
      assert.deepEqual(programMappings(text), []);
    });
  }

  test('the process holds fewer of them afterwards, and works as before', async () => {
    const residentKilobytes = (): number =>
      Number(/^RssFile:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
    // Loads everything that the call itself needs.
    await releaseProgramPages();
    for (let round = 0; round < 3; round++) JSON.parse(JSON.stringify(process.report.getReport()));
    const before = residentKilobytes();
    await releaseProgramPages();
    assert.ok(residentKilobytes() < before);
    assert.equal(
      createHash('sha256').update('hansa').digest('hex'),
      createHash('sha256').update(Buffer.from('hansa')).digest('hex'),
    );
  });
});

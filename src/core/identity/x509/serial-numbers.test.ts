import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { SerialNumbers } from './serial-numbers.ts';

test('those that wait at once share a page, and no number is given twice', async () => {
  const seeded = new SeededRandom('serials');
  let pages = 0;
  const serials = new SerialNumbers({
    bytes: (count) => {
      pages++;
      return seeded.bytes(count);
    },
    unit: () => 0,
    uuid: () => '',
  });
  const taken: Promise<Buffer>[] = [];
  for (let i = 0; i < 3000; i++) taken.push(serials.draw());
  const given = (await Promise.all(taken)).map((serial) => serial.toString('hex'));
  assert.equal(new Set(given).size, 3000);
  assert.equal(pages, 2);
});

test('a number is of 16 bytes, and positive without a leading zero', async () => {
  const serials = new SerialNumbers(new SeededRandom('signs'));
  for (let i = 0; i < 200; i++) {
    const serial = serials.take() ?? (await serials.draw());
    assert.equal(serial.length, 16);
    assert.ok((serial[0] as number) >= 0x40 && (serial[0] as number) < 0x80);
  }
});

test('who waits is told where there is no randomness, and may ask again', async () => {
  let working = false;
  const seeded = new SeededRandom('later');
  const serials = new SerialNumbers({
    bytes: (count) => (working ? seeded.bytes(count) : Promise.reject(new Error('none left'))),
    unit: () => 0,
    uuid: () => '',
  });
  await assert.rejects(serials.draw(), /none left/);
  working = true;
  assert.equal((await serials.draw()).length, 16);
});

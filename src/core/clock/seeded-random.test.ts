import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { SeededRandom } from './seeded-random.ts';

describe('seeded randomness', () => {
  test('is the same for the same seed, however it is drawn', async () => {
    const a = new SeededRandom(7);
    const b = new SeededRandom('7');
    const whole = Buffer.from(await a.bytes(100));
    const pieces = [b.take(1), b.take(31), b.take(0), b.take(33), b.take(35)];
    assert.deepEqual(Buffer.concat(pieces), whole);
  });

  test('stays the same across versions, so that old seeds replay', () => {
    assert.equal(new SeededRandom(1).take(8).toString('hex'), 'f534527e68800a14');
  });

  test('differs between seeds and between forks', () => {
    const root = new SeededRandom(1);
    const drawn = [
      root.fork('a').uuid(),
      root.fork('b').uuid(),
      new SeededRandom(2).fork('a').uuid(),
      new SeededRandom(1).uuid(),
    ];
    assert.equal(new Set(drawn).size, drawn.length);
  });

  test('forks independently of what was drawn before', () => {
    const drawn = new SeededRandom(1);
    drawn.take(1000);
    assert.equal(drawn.fork('a').uuid(), new SeededRandom(1).fork('a').uuid());
  });

  test('draws units evenly from [0, 1)', () => {
    const random = new SeededRandom('evenly');
    const counts = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 20_000; i++) {
      const unit = random.unit();
      assert.ok(unit >= 0 && unit < 1);
      const bucket = Math.floor(unit * 10);
      counts[bucket] = (counts[bucket] as number) + 1;
    }
    // Each bucket has 2,000 ± 42 (one standard deviation); five of them are ample.
    for (const count of counts) assert.ok(Math.abs(count - 2000) < 212, String(counts));
  });

  test('makes UUIDs of version 4', () => {
    const random = new SeededRandom('uuid');
    for (let i = 0; i < 100; i++) {
      assert.match(
        random.uuid(),
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
    }
  });

  test('draws integers from both ends of the range, and picks from what is there', () => {
    const random = new SeededRandom('integers');
    const seen = new Set(Array.from({ length: 200 }, () => random.integer(-1, 2)));
    assert.deepEqual(
      [...seen].toSorted((a, b) => a - b),
      [-1, 0, 1, 2],
    );
    assert.equal(random.pick(['only']), 'only');
    assert.throws(() => random.pick([]), RangeError);
    assert.equal(random.chance(0), false);
    assert.equal(random.chance(1), true);
  });
});

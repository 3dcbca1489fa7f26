import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { renewAtMs, retryAfterMs } from './renewal.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const lasting = (days: number) => ({ notBeforeMs: 0, notAfterMs: days * dayMs });

suite('a certificate is renewed', () => {
  test('when a third of its life is left, or a month of a long one', () => {
    assert.equal(renewAtMs(lasting(90), 0, 0), 60 * dayMs);
    assert.equal(renewAtMs(lasting(6), 0, 0), 4 * dayMs);
    assert.equal(renewAtMs(lasting(365), 0, 0), 335 * dayMs);
  });

  test('up to a tenth of that earlier, so that sites that began together do not come together', () => {
    assert.equal(renewAtMs(lasting(90), 0, 0.5), 58.5 * dayMs);
    assert(renewAtMs(lasting(90), 0, 0.999) > 57 * dayMs);
  });

  test('not at once where a clock says that it is due already, or over', () => {
    assert.equal(renewAtMs(lasting(90), 100 * dayMs, 0), 100 * dayMs + hourMs);
    const short = { notBeforeMs: 0, notAfterMs: 60_000 };
    assert.equal(renewAtMs(short, dayMs, 0), dayMs + 30_000);
  });
});

suite('after a failure it is tried again', () => {
  test('after a minute, and twice as long each time, up to six hours', () => {
    const minutes = [1, 2, 3, 9, 10, 1000].map((failures) => retryAfterMs(failures, undefined, 0));
    assert.deepEqual(
      minutes.map((ms) => ms / 60_000),
      [1, 2, 4, 256, 360, 360],
    );
  });

  test('a little later by chance, and not before the server wants it', () => {
    assert.equal(retryAfterMs(1, undefined, 0.5), 63_000);
    assert.equal(retryAfterMs(1, hourMs, 0), hourMs);
  });
});

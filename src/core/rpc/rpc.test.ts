import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { HansaError, hasCode } from '../errors/error.ts';
import { encodeFrame, FrameReader } from './frames.ts';
import {
  decodeStatusMessage,
  encodeStatusMessage,
  errorOfRpcStatus,
  parseTimeout,
  rpcStatusOf,
} from './status.ts';

suite('frames', () => {
  test('carry messages whole, however their bytes arrive', () => {
    const messages = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 6 });
    fc.assert(
      fc.property(messages, fc.array(fc.nat({ max: 9 })), (sent, cuts) => {
        const reader = new FrameReader(40);
        const received: Uint8Array[] = [];
        let rest = Buffer.concat(sent.map((message) => encodeFrame(message)));
        while (rest.length > 0) {
          const size = 1 + (cuts.shift() ?? 9);
          reader.push(rest.subarray(0, size));
          rest = rest.subarray(size);
          for (let one = reader.take(); one !== undefined; one = reader.take()) received.push(one);
        }
        reader.finish();
        assert.deepEqual(
          received.map((one) => [...one]),
          sent.map((one) => [...one]),
        );
      }),
    );
  });

  const refusals: readonly (readonly [string, string, string])[] = [
    ['too large, by their head alone', '0000000029', 'HANSA_TOO_LARGE'],
    ['of four gigabytes', '00ffffffff', 'HANSA_TOO_LARGE'],
    ['compressed', '01', 'HANSA_BAD_REQUEST'],
    ['with a flag that nobody knows', '02', 'HANSA_BAD_REQUEST'],
    ['that are text', Buffer.from('GET / HTTP/1.1').toString('hex'), 'HANSA_BAD_REQUEST'],
  ];
  for (const [what, hex, code] of refusals) {
    test(`are refused where they are ${what}`, () => {
      const reader = new FrameReader(40);
      reader.push(Buffer.from(hex, 'hex'));
      assert.throws(() => reader.take(), { code });
    });
  }

  test('that are cut off are told from a stream that ended', () => {
    for (const hex of ['00', '0000000002', '000000000261']) {
      const reader = new FrameReader(40);
      reader.push(Buffer.from(hex, 'hex'));
      assert.equal(reader.take(), undefined);
      assert.throws(() => reader.finish(), { code: 'HANSA_BAD_REQUEST' });
    }
  });
});

suite('statuses', () => {
  test('bring a message across in ASCII, whatever it says', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (message) => {
        const encoded = encodeStatusMessage(message);
        assert.match(encoded, /^[ -~]*$/);
        assert.equal(decodeStatusMessage(encoded), message.toWellFormed());
      }),
    );
    assert.equal(encodeStatusMessage('100 % of Lübeck'), '100 %25 of L%C3%BCbeck');
    assert.equal(
      decodeStatusMessage('50% is no escape, %zz neither'),
      '50% is no escape, %zz neither',
    );
  });

  test('tell errors apart, and nothing of what is internal', () => {
    assert.equal(rpcStatusOf(new HansaError('HANSA_FORBIDDEN', 'no')).code, 7);
    const internal = rpcStatusOf(new Error('the password is swordfish'));
    assert.equal(internal.code, 13);
    assert.doesNotMatch(internal.message, /swordfish/);
    assert.ok(hasCode(errorOfRpcStatus({ code: 7, message: 'no' }), 'HANSA_FORBIDDEN'));
    assert.ok(hasCode(errorOfRpcStatus({ code: 99, message: 'no' }), 'HANSA_INTERNAL'));
  });
});

test('a timeout is digits and a unit, and nothing else', () => {
  assert.equal(parseTimeout('5S'), 5000);
  assert.equal(parseTimeout('250m'), 250);
  assert.equal(parseTimeout('1500u'), 1.5);
  for (const text of ['', '5', 'S', '-1S', '1.5S', '123456789S', '5s', '5S ']) {
    assert.equal(parseTimeout(text), undefined, text);
  }
});

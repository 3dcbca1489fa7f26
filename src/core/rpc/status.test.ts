import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { HansaError, hasCode } from '../errors/error.ts';
import {
  decodeStatusMessage,
  encodeStatusMessage,
  errorOfRpcStatus,
  parseTimeout,
  rpcStatusOf,
} from './status.ts';

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

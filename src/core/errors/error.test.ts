import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { HansaError, hasCode, toHansaError } from './error.ts';

suite('errors', () => {
  test('of ours pass the gate as they are', () => {
    const error = new HansaError('HANSA_NOT_FOUND', 'There is no such peer.');
    assert.equal(toHansaError(error), error);
  });

  for (const caught of [
    new TypeError('secret'),
    'secret',
    { message: 'secret' },
    null,
    undefined,
  ]) {
    test(`of others become opaque: ${caught instanceof Error ? 'an error' : JSON.stringify(caught)}`, () => {
      const error = toHansaError(caught);
      assert.equal(error.code, 'HANSA_INTERNAL');
      assert.ok(!error.message.includes('secret'));
      assert.equal(error.cause, caught);
    });
  }

  test('are told apart by their code, and only ours have one', () => {
    const error = new HansaError('HANSA_CONFLICT', 'Somebody else was faster.');
    assert.ok(hasCode(error, 'HANSA_CONFLICT'));
    assert.ok(!hasCode(error, 'HANSA_NOT_FOUND'));
    assert.ok(!hasCode({ code: 'HANSA_CONFLICT' }, 'HANSA_CONFLICT'));
  });
});

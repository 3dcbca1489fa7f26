import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { managerFromUserAgent, validateManagerOptions } from './writer-name.ts';

describe('the manager of a client that names none', () => {
  it('is its User-Agent up to the first slash', () => {
    assert.equal(managerFromUserAgent('kubectl/v1.36.3 (linux/amd64)'), 'kubectl');
    assert.equal(managerFromUserAgent('curl'), 'curl');
    assert.equal(managerFromUserAgent('/x'), '');
    assert.equal(managerFromUserAgent(''), '');
  });

  it('leaves out what cannot be printed', () => {
    assert.equal(managerFromUserAgent('a\tb\u0000c d/1'), 'abc d');
  });

  it('reads the bytes of the header as UTF-8', () => {
    assert.equal(managerFromUserAgent(Buffer.from('lübeck/1').toString('latin1')), 'lübeck');
  });

  it('ends after 128 bytes, but never within a character', () => {
    assert.equal(managerFromUserAgent('x'.repeat(200)), 'x'.repeat(128));
    const umlauts = Buffer.from(`x${'ü'.repeat(100)}`).toString('latin1');
    assert.equal(managerFromUserAgent(umlauts), `x${'ü'.repeat(63)}`);
  });
});

describe('the parameters of a manager', () => {
  const messages = (options: Parameters<typeof validateManagerOptions>[0]): string[] =>
    validateManagerOptions(options).map(({ field, message }) => `${field}: ${message}`);

  it('must name the manager of an apply', () => {
    assert.deepEqual(messages({ fieldManager: '', patch: 'apply' }), [
      'fieldManager: Required value: is required for apply patch',
    ]);
    assert.deepEqual(messages({ fieldManager: 'x', patch: 'apply', force: true }), []);
    assert.deepEqual(messages({ fieldManager: '' }), []);
  });

  it('may not force anything but an apply', () => {
    assert.deepEqual(messages({ fieldManager: '', patch: 'other', force: false }), [
      'force: Forbidden: may not be specified for non-apply patch',
    ]);
  });

  it('must be short enough and printable', () => {
    assert.deepEqual(messages({ fieldManager: 'x'.repeat(128) }), []);
    assert.deepEqual(messages({ fieldManager: 'ü'.repeat(65) }), [
      'fieldManager: Too long: may not be more than 128 bytes',
    ]);
    assert.deepEqual(messages({ fieldManager: 'ü\n' }), [
      'fieldManager: Invalid value: "ü\\n": invalid character U+000A (at position 2)',
    ]);
  });
});

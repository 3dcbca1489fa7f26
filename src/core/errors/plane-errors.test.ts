import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { allPlanes } from '../../test-planes.ts';
import { errorCatalog, HansaError } from './error.ts';
import { catalogOf, errorOfCode } from './plane-errors.ts';

const pier = { like: 'HANSA_CONFLICT', meaning: 'The pier is taken.', remedy: 'Wait.' } as const;
const harbour = { name: 'harbour', errors: { HANSA_PIER_TAKEN: pier } };

suite('the catalog of error codes', () => {
  test('has the codes of the core and those of every plane', () => {
    const catalog = catalogOf([harbour]);
    assert.equal(catalog.size, Object.keys(errorCatalog).length + 1);
    assert.equal(catalog.get('HANSA_PIER_TAKEN'), pier);
    assert.equal(catalog.get('HANSA_INVALID')?.like, 'HANSA_INVALID');
  });

  test('refuses a code that another part declares', () => {
    assert.throws(
      () => catalogOf([harbour, harbour]),
      /HANSA_PIER_TAKEN of harbour exists already/,
    );
    const taken = { name: 'x', errors: { HANSA_INVALID: pier } };
    assert.throws(() => catalogOf([taken]), /HANSA_INVALID of x exists already/);
  });

  test('says of the codes of planes, too, what they mean and what to do, in sentences', () => {
    for (const [code, { meaning, remedy }] of catalogOf(allPlanes)) {
      assert.match(code, /^HANSA_[A-Z]+(?:_[A-Z]+)*$/);
      for (const text of [meaning, remedy]) assert.match(text, /^[A-Z/`].*\.$/, code);
    }
  });
});

suite('an error of a plane', () => {
  test('has its own code, and the code of the core by which wires answer', () => {
    const error = errorOfCode(catalogOf([harbour]), 'HANSA_PIER_TAKEN', 'Pier 3 is taken.');
    assert.equal(error.code, 'HANSA_PIER_TAKEN');
    assert.equal(error.general, 'HANSA_CONFLICT');
    const again = new HansaError(error, 'Cannot land: pier 3 is taken.');
    assert.deepEqual([again.code, again.general], [error.code, error.general]);
  });

  for (const code of ['HANSA_PIER_TAKEN', 'constructor', '']) {
    test(`with an unknown code is internal: ${JSON.stringify(code)}`, () => {
      assert.equal(errorOfCode(catalogOf([]), code, 'no').code, 'HANSA_INTERNAL');
    });
  }
});

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { accountNames } from './account-names.ts';

test('users and groups are known by their numbers', () => {
  const users = accountNames(
    'root:x:0:0:root:/root:/bin/bash\nweb-1.a_b@lubeck:x:1000:1000:,,,:/srv:/bin/sh\nhost$:*:1001:1::/:\n',
  );
  assert.deepEqual(
    [...users],
    [
      [0, 'root'],
      [1000, 'web-1.a_b@lubeck'],
      [1001, 'host$'],
    ],
  );
  assert.deepEqual(
    [...accountNames('sudo:x:27:web,db\nnobody:*:4294967294:\n')],
    [
      [27, 'sudo'],
      [4294967294, 'nobody'],
    ],
  );
});

test('the first of several names counts', () => {
  assert.deepEqual([...accountNames('root:x:0:0::/:\ntoor:x:0:0::/:\n')], [[0, 'root']]);
});

for (const text of [
  '',
  '+::::::',
  '# web:x:1:1::/:',
  'web:x:-1:1::/:',
  'web:x:01:1::/:',
  'web:x:4294967296:1::/:',
  'web:x:1a:1::/:',
  'we b:x:1:1::/:',
  ':x:1:1::/:',
  'web:x',
  ' web:x:1:1::/:',
]) {
  test(`nobody is known by ${JSON.stringify(text)}`, () => {
    assert.equal(accountNames(text).size, 0);
  });
}

test('whatever the text, names are names and numbers are numbers', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('a', ':', '\n', '1', '0', '+', '$', ' ') }),
      (text) => {
        for (const [number, name] of accountNames(text)) {
          assert.ok(Number.isInteger(number) && number >= 0);
          assert.match(name, /^[a1.0]+\$?$/);
        }
      },
    ),
  );
});

test('root of this machine is known', () => {
  assert.equal(accountNames(readFileSync('/etc/passwd', 'utf8')).get(0), 'root');
});

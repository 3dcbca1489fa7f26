import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTooOld, parseImage, spireVersionIn } from './server-image.ts';

const digest = `@sha256:${'a'.repeat(64)}`;

for (const image of [
  'spire-server:1',
  'ghcr.io/spiffe/spire-server:1.12.4',
  `registry.example:5000/a/b:v1${digest}`,
  `spire${digest}`,
]) {
  test(`${image} is an image`, () => assert.equal(parseImage(image), image));
}

for (const text of [
  '',
  ':1',
  'Spire:1',
  'a b',
  'a:1 --privileged',
  'a\n',
  'a'.repeat(600),
  'a@x',
]) {
  test(`${JSON.stringify(text.slice(0, 20))} is not an image`, () => {
    assert.throws(() => parseImage(text), /image/);
  });
}

test('the tag of an image names the version of SPIRE', () => {
  assert.deepEqual(spireVersionIn('ghcr.io/spiffe/spire-server:1.12.4'), { major: 1, minor: 12 });
  assert.deepEqual(spireVersionIn(`registry.example:5000/spire:v1.4.7${digest}`), {
    major: 1,
    minor: 4,
  });
  assert.deepEqual(spireVersionIn('1.5.0-dev'), { major: 1, minor: 5 });
  for (const text of ['spire', 'spire:latest', `spire${digest}`, 'registry.example:5000/spire']) {
    assert.equal(spireVersionIn(text), undefined, text);
  }
});

test('SPIRE below 1.5 is too old', () => {
  assert.ok(isTooOld({ major: 1, minor: 4 }));
  assert.ok(isTooOld({ major: 0, minor: 12 }));
  assert.ok(!isTooOld({ major: 1, minor: 5 }));
  assert.ok(!isTooOld({ major: 2, minor: 0 }));
});

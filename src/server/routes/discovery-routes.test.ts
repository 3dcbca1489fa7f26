import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { readAsked } from './discovery-routes.ts';

const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview' };

suite('the body of a review', () => {
  for (const contentType of [undefined, 'application/json', 'application/json; charset=utf-8']) {
    test(`is read as JSON where its content type is ${contentType ?? 'not said'}`, () => {
      assert.deepEqual(readAsked(Buffer.from(JSON.stringify(review)), contentType), review);
    });
  }

  for (const contentType of ['application/yaml', 'application/apply-patch+yaml', 'text/plain']) {
    test(`is refused as ${contentType}, and the answer names what is accepted`, () => {
      assert.throws(
        () => readAsked(Buffer.from(JSON.stringify(review)), contentType),
        (error) =>
          hasCode(error, 'HANSA_UNSUPPORTED_MEDIA_TYPE') &&
          error.message.endsWith('application/json, application/vnd.kubernetes.protobuf'),
      );
    });
  }

  test('is refused where it nests deeply or has many values', () => {
    assert.throws(
      () => readAsked(Buffer.from('['.repeat(300)), 'application/json'),
      (error) => hasCode(error, 'HANSA_TOO_LARGE'),
    );
    assert.throws(
      () => readAsked(Buffer.from(`[${'1,'.repeat(300)}1]`), 'application/json'),
      (error) => hasCode(error, 'HANSA_TOO_LARGE'),
    );
  });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import { envelope as envelopeOf, field } from '../../core/kube/test-protobuf.ts';
import { readReview } from './kube-protobuf.ts';

function envelope(kind: string, raw: Buffer): Buffer {
  return envelopeOf('authorization.k8s.io/v1', kind, raw);
}

test('a SelfSubjectAccessReview as kubectl sends it is read', () => {
  const attributes = Buffer.concat([field(2, 'create'), field(3, 'hansa.dev'), field(5, 'roles')]);
  const body = envelope('SelfSubjectAccessReview', field(2, field(1, attributes)));
  assert.deepEqual(readReview(body), {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SelfSubjectAccessReview',
    spec: { resourceAttributes: { verb: 'create', group: 'hansa.dev', resource: 'roles' } },
  });
});

test('numbers and unknown fields are passed over', () => {
  const raw = Buffer.concat([
    Buffer.of(9 * 8, 0x96, 0x01),
    field(8, 'x'),
    field(2, field(1, 'ns')),
  ]);
  assert.deepEqual(readReview(envelope('SelfSubjectRulesReview', raw))['spec'], {
    namespace: 'ns',
  });
});

test('another kind is refused by name', () => {
  assert.throws(() => readReview(envelope('Pod', Buffer.alloc(0))), /holds a "Pod"/);
});

test('whatever the bytes are, the answer is a review or HANSA_BAD_REQUEST', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        readReview(Buffer.concat([Buffer.from('k8s\0'), bytes]));
      } catch (error) {
        assert.ok(error instanceof HansaError && error.code === 'HANSA_BAD_REQUEST');
      }
    }),
  );
});

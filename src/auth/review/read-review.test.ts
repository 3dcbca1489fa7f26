import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { HansaError } from '../../core/errors/error.ts';
import { protobufMediaType } from '../../core/kube/protobuf.ts';
import { envelope, field } from '../../core/kube/test-protobuf.ts';
import { encodeReview } from './encode-review.ts';
import { type ReviewRequest, type ReviewVersion, readReview } from './read-review.ts';
import { answerEncoding } from './review-encoding.ts';

const v1 = 'authentication.k8s.io/v1';

function json(value: unknown, version: ReviewVersion = 'v1'): ReviewRequest {
  const body = Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));
  return readReview(body, { contentType: 'application/json', version });
}

function protobuf(body: Buffer, version: ReviewVersion = 'v1'): ReviewRequest {
  return readReview(body, { contentType: protobufMediaType, version });
}

function refusal(read: () => unknown, code: string): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof HansaError);
    assert.equal(error.code, code);
    return error.message;
  }
  assert.fail('the body was accepted');
}

const review = (spec: unknown, more = {}) => ({
  apiVersion: v1,
  kind: 'TokenReview',
  spec,
  ...more,
});

suite('a review in JSON', () => {
  test('is read with its audiences and metadata', () => {
    const metadata = { name: 'x', labels: { a: 'b' }, uid: 'u', creationTimestamp: null };
    assert.deepEqual(json(review({ token: 't', audiences: ['a', 'b'] }, { metadata })), {
      isPlain: true,
      version: 'v1',
      question: { token: 't', audiences: ['a', 'b'] },
      metadata: { name: 'x', labels: { a: 'b' } },
    });
  });

  test('needs neither apiVersion nor kind, which the path says', () => {
    assert.equal(json({ spec: { token: 't' } }).question.token, 't');
    assert.equal(json({ kind: 'TokenReview', spec: { token: 't' } }).question.token, 't');
  });

  test('is read as v1beta1', () => {
    const body = { apiVersion: 'authentication.k8s.io/v1beta1', spec: { token: 't' } };
    assert.equal(json(body, 'v1beta1').version, 'v1beta1');
  });

  test('may have a status and unknown fields, which are ignored', () => {
    const status = { authenticated: true, user: { username: 'admin' } };
    assert.deepEqual(json(review({ token: 't', more: 1 }, { status, more: {} })).question, {
      token: 't',
      audiences: [],
    });
  });

  test('is plain where no text has an escape, so that the answer can quote it', () => {
    assert.ok(json('{"spec":{"token":"é"}}').isPlain);
    for (const text of ['\\"', '\\\\', '\\u0000', '\\/'])
      assert.ok(!json(`{"spec":{"token":"${text}"}}`).isPlain);
  });

  test('is refused without a token', () => {
    for (const body of [
      review({}),
      review({ token: '' }),
      review(null),
      review({ token: null }),
      'null',
    ])
      assert.equal(
        refusal(() => json(body), 'HANSA_BAD_REQUEST'),
        'token is required for TokenReview in authentication',
      );
  });

  test('is refused in another version or as another kind', () => {
    assert.equal(
      refusal(() => json(review({ token: 't' }), 'v1beta1'), 'HANSA_BAD_REQUEST'),
      'the API version in the data (authentication.k8s.io/v1) does not match the expected API version (authentication.k8s.io/v1beta1)',
    );
    assert.equal(
      refusal(() => json({ kind: 'Pod', spec: { token: 't' } }), 'HANSA_BAD_REQUEST'),
      'Pod in version "v1" cannot be handled as a TokenReview: no kind "Pod" is registered for version "authentication.k8s.io/v1"',
    );
  });

  test('is refused where it is not JSON', () => {
    assert.equal(
      refusal(() => json('{"spec":'), 'HANSA_BAD_REQUEST'),
      `the object provided is unrecognized (must be of type TokenReview): couldn't get version/kind; json parse error: unexpected end of JSON input ({"spec":)`,
    );
    assert.match(
      refusal(() => json(''), 'HANSA_BAD_REQUEST'),
      /\(<empty>\)$/,
    );
    assert.match(
      refusal(() => json('[]'), 'HANSA_BAD_REQUEST'),
      /cannot unmarshal array/,
    );
  });

  test('is refused with values of wrong types', () => {
    for (const body of [
      review({ token: 5 }),
      review('x'),
      review({ token: 't', audiences: 'a' }),
      review({ token: 't', audiences: [1] }),
      review({ token: 't' }, { metadata: [] }),
      review({ token: 't' }, { metadata: { labels: { a: 1 } } }),
      review({ token: 't' }, { kind: 1 }),
    ])
      assert.match(
        refusal(() => json(body), 'HANSA_BAD_REQUEST'),
        /json: cannot unmarshal/,
      );
  });

  test('is refused for the problem that Go reports of several', () => {
    const wrong = (path: string, type: string, kind = 'number') =>
      `json: cannot unmarshal ${kind} into Go struct field ${path} of type ${type}`;
    const samples: readonly (readonly [string, string])[] = [
      ['{"spec":{"audiences":1,"token":2}}', wrong('TokenReviewSpec.spec.audiences', '[]string')],
      ['{"spec":{"token":2,"audiences":1}}', wrong('TokenReviewSpec.spec.token', 'string')],
      ['{"spec":1,"metadata":[]}', wrong('TokenReview.spec', 'v1.TokenReviewSpec')],
      ['{"metadata":{"uid":1}}', wrong('ObjectMeta.metadata.uid', 'types.UID')],
      ['{"status":{"user":1},"spec":2}', wrong('TokenReviewStatus.status.user', 'v1.UserInfo')],
      [
        '{"metadata":{"ownerReferences":[{"controller":1}]}}',
        wrong('OwnerReference.metadata.ownerReferences.controller', 'bool'),
      ],
      [
        '{"metadata":{"generation":1.5}}',
        wrong('ObjectMeta.metadata.generation', 'int64', 'number 1.5'),
      ],
      ['{"KIND":1,"apiVersion":2}', wrong('.kind', 'string')],
      [
        '{"metadata":{"name":1,"creationTimestamp":"x"}}',
        'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
      ],
    ];
    for (const [body, problem] of samples) {
      assert.throws(
        () => json(body),
        (error: unknown) => error instanceof Error && error.message.includes(`: ${problem}`),
        body,
      );
    }
  });

  test('is read where a status has the right types, also in the usual form', () => {
    for (const status of [{}, { user: {} }, { authenticated: true, user: { extra: { a: ['b'] } } }])
      assert.equal(json(review({ token: 't' }, { status })).question.token, 't');
    assert.throws(() => json(review({ token: 't' }, { status: { user: [] } })), /status.user/);
  });

  test('is refused with too many audiences or too many values', () => {
    const audiences = Array.from({ length: 257 }, String);
    refusal(() => json(review({ token: 't', audiences })), 'HANSA_TOO_LARGE');
    refusal(() => json(`{"x":[${'1,'.repeat(5000)}1]}`), 'HANSA_TOO_LARGE');
  });

  test('is refused with deep nesting', () => {
    const deep = `{"x":${'['.repeat(5000)}${']'.repeat(5000)}}`;
    assert.match(
      refusal(() => json(deep), 'HANSA_BAD_REQUEST'),
      /exceeded max depth/,
    );
  });
});

suite('a review in protobuf', () => {
  const spec = Buffer.concat([field(1, 't'), field(2, 'a'), field(2, 'b')]);

  test('is read with its audiences', () => {
    assert.deepEqual(protobuf(envelope(v1, 'TokenReview', field(2, spec))).question, {
      token: 't',
      audiences: ['a', 'b'],
    });
  });

  test('is refused as another kind', () => {
    const body = envelope('v1', 'Pod', Buffer.alloc(0));
    assert.match(
      refusal(() => protobuf(body), 'HANSA_BAD_REQUEST'),
      /no kind "Pod"/,
    );
  });

  test('is refused where it is cut short', () => {
    const whole = envelope(v1, 'TokenReview', field(2, spec));
    for (let length = 0; length < whole.length; length += 1)
      refusal(() => protobuf(whole.subarray(0, length)), 'HANSA_BAD_REQUEST');
  });

  test('says why, as kube-apiserver does', () => {
    assert.equal(
      refusal(() => protobuf(Buffer.from('{}')), 'HANSA_BAD_REQUEST'),
      'the object provided is unrecognized (must be of type TokenReview): provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})',
    );
  });
});

test('any bytes are read, or refused by an error of ours', () => {
  const accepted = ['HANSA_BAD_REQUEST', 'HANSA_TOO_LARGE'];
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      for (const read of [
        () => json(Buffer.from(bytes).toString('latin1')),
        () => protobuf(Buffer.concat([Buffer.from('k8s\0'), bytes])),
      ]) {
        try {
          read();
        } catch (error) {
          assert.ok(error instanceof HansaError && accepted.includes(error.code));
        }
      }
    }),
  );
});

test('what was asked survives a round trip in both encodings', () => {
  const text = fc.string({ unit: 'grapheme' });
  const map = fc.dictionary(text, text, { maxKeys: 3, noNullPrototype: true });
  const asked = fc.record({
    token: fc.string({ unit: 'grapheme', minLength: 1 }),
    audiences: fc.array(text, { maxLength: 5 }),
    name: text.filter((name) => name !== ''),
    labels: map.filter((labels) => Object.keys(labels).length > 0),
  });
  fc.assert(
    fc.property(asked, ({ token, audiences, name, labels }) => {
      const metadata = { name, labels };
      const request = json(review({ token, audiences }, { metadata }));
      const answer = (encoding: 'json' | 'protobuf') =>
        Buffer.from(encodeReview(request, { authenticated: false }, encoding).body as string);
      const again = [json(answer('json').toString()), protobuf(answer('protobuf'))];
      for (const read of again) {
        assert.deepEqual(read.question, { token, audiences });
        assert.equal(read.metadata.name, name);
        assert.deepEqual({ ...read.metadata.labels }, labels);
      }
    }),
  );
});

suite('media types', () => {
  test('other than JSON and protobuf are refused', () => {
    const read = () => readReview(Buffer.from('{}'), { contentType: 'text/plain', version: 'v1' });
    assert.equal(
      refusal(read, 'HANSA_UNSUPPORTED_MEDIA_TYPE'),
      'the body of the request was in an unknown format - accepted media types include: application/json, application/vnd.kubernetes.protobuf',
    );
  });

  test('of the answer follow the preference of the caller', () => {
    assert.equal(answerEncoding(undefined), 'json');
    assert.equal(answerEncoding(`${protobufMediaType},application/json`), 'protobuf');
    assert.equal(answerEncoding(`${protobufMediaType};q=0.5, application/json`), 'json');
    assert.equal(answerEncoding(`application/json;as=Table, */*`), 'json');
    refusal(() => answerEncoding('text/html'), 'HANSA_NOT_ACCEPTABLE');
  });
});

// Cases of the TokenReview comparison about bodies: JSON, protobuf, media types and metadata.

import { protobufMediaType } from '../../src/core/kube/protobuf.ts';
import { envelope, field } from '../../src/core/kube/test-protobuf.ts';
import { apiVersion, type Case, type Deviation, everywhere, review } from './review-case.ts';

function protobufReview(token: string, audienceList: readonly string[] = []): Buffer {
  const spec = [field(1, token), ...audienceList.map((each) => field(2, each))];
  return envelope(apiVersion, 'TokenReview', field(2, Buffer.concat(spec)));
}

const noYaml: Deviation = {
  modes: everywhere,
  reason: 'a site reads and writes no reviews in YAML',
  ours: /media types/,
};
const unnamed: Deviation = {
  modes: everywhere,
  reason: 'messages do not name source files of kube-apiserver',
  ours: /no kind "\w+" is registered for version "[^"]+"$/,
};
const smaller: Deviation = {
  modes: everywhere,
  reason: 'a site reads smaller requests',
  ours: /limit is|larger than/,
};
const notRepeated = { modes: everywhere, reason: 'a site never repeats the status of a request' };

export const bodies: readonly Case[] = [
  { name: 'an empty token', ask: () => review('') },
  { name: 'no token', ask: () => review(undefined) },
  { name: 'no spec', ask: () => ({ body: '{}' }) },
  { name: 'null', ask: () => ({ body: 'null' }) },
  { name: 'an empty body', ask: () => ({ body: '' }) },
  { name: 'a list', ask: () => ({ body: '[]' }) },
  { name: 'a text', ask: () => ({ body: '"x"' }) },
  { name: 'broken JSON', ask: () => ({ body: '{"spec":{"token":"x"' }) },
  { name: 'JSON and more', ask: () => ({ body: '{"spec":{"token":"x"}} x' }) },
  {
    name: 'no apiVersion and kind',
    ask: (scene) => ({ body: JSON.stringify({ spec: { token: scene.token() } }) }),
  },
  {
    name: 'apiVersion without the group',
    ask: (scene) => review(scene.token(), undefined, { apiVersion: 'v1' }),
    deviation: unnamed,
  },
  {
    name: 'another version',
    ask: (scene) =>
      review(scene.token(), undefined, { apiVersion: 'authentication.k8s.io/v1beta1' }),
  },
  {
    name: 'another group',
    ask: (scene) => review(scene.token(), undefined, { apiVersion: 'hansa.dev/v1' }),
    deviation: unnamed,
  },
  {
    name: 'a kind that is none',
    ask: (scene) => review(scene.token(), undefined, { kind: 'Nothing' }),
    deviation: unnamed,
  },
  { name: 'a malformed apiVersion', ask: () => review('x', undefined, { apiVersion: 'a/b/c' }) },
  { name: 'kind as number', ask: () => review('x', undefined, { kind: 1 }) },
  { name: 'token as number', ask: () => review(5) },
  { name: 'token as list', ask: () => review([]) },
  { name: 'audiences as text', ask: () => review('x', 'a') },
  { name: 'audiences with a number', ask: () => review('x', [1]) },
  { name: 'spec as text', ask: () => ({ body: '{"spec":"x"}' }) },
  { name: 'metadata as list', ask: () => review('x', undefined, { metadata: [] }) },
  {
    name: 'a label as number',
    ask: () => review('x', undefined, { metadata: { labels: { a: 1 } } }),
  },
  { name: 'labels as text', ask: () => review('x', undefined, { metadata: { labels: 'a' } }) },
  { name: 'name as number', ask: () => review('x', undefined, { metadata: { name: 1 } }) },
  {
    name: 'metadata',
    ask: (scene) =>
      review(scene.token(), undefined, {
        metadata: {
          name: 'mine',
          generateName: 'my-',
          namespace: 'shop',
          labels: { b: '2', a: '1' },
          annotations: { note: 'x' },
          uid: 'u',
          creationTimestamp: '2026-01-01T00:00:00Z',
        },
      }),
  },
  {
    name: 'metadata that has no meaning here',
    ask: (scene) => review(scene.token(), undefined, { metadata: { finalizers: ['a.b/c'] } }),
    deviation: {
      modes: everywhere,
      reason: 'a site repeats only the name, generateName, labels and annotations of a request',
      ours: 'accepted',
    },
  },
  { name: 'a large body', ask: () => review('x'.repeat(300_000)), deviation: smaller },
  {
    name: 'many audiences',
    ask: (scene) => review(scene.token(), Array.from({ length: 300 }, String)),
    deviation: smaller,
  },
  {
    name: 'unknown fields',
    ask: (scene) => review(scene.token(), undefined, { more: { a: 1 } }),
  },
  {
    name: 'half a surrogate pair in the token and in an audience',
    ask: () => ({ body: String.raw`{"spec":{"token":"a\ud800","audiences":["\udc00b"]}}` }),
  },
  {
    name: 'escapes in the token',
    ask: () => ({ body: String.raw`{"spec":{"token":"\u0022\\\/\n\u003c&\u2028"}}` }),
  },
  {
    name: 'a duplicate token, of which the last counts',
    ask: (scene) => ({ body: `{"spec":{"token":"x","token":"${scene.token()}"}}` }),
  },
  {
    name: 'a status in the request of a valid token',
    ask: (scene) => review(scene.token(), undefined, { status: { error: 'mine' } }),
    deviation: { ...notRepeated, ours: 'accepted' },
  },
  {
    name: 'a status in the request of garbage',
    ask: () =>
      review('garbage', undefined, {
        status: { authenticated: true, user: { username: 'system:admin' }, audiences: ['a'] },
      }),
    deviation: { ...notRepeated, ours: /invalid bearer token/ },
  },
  { name: 'a text file', ask: () => ({ body: 'x', contentType: 'text/plain' }), deviation: noYaml },
  {
    name: 'YAML',
    ask: (scene) => ({ body: `spec: {token: ${scene.token()}}`, contentType: 'application/yaml' }),
    deviation: noYaml,
  },
  {
    name: 'a charset',
    ask: (scene) => ({
      ...review(scene.token()),
      contentType: 'Application/JSON; charset=utf-8',
    }),
  },
  {
    name: 'an answer as HTML',
    ask: (scene) => ({ ...review(scene.token()), accept: 'text/html' }),
    deviation: noYaml,
  },
  {
    name: 'protobuf',
    ask: (scene) => ({
      body: protobufReview(scene.token({ aud: ['a', 'b'] }), ['b', 'a']),
      contentType: protobufMediaType,
      accept: protobufMediaType,
    }),
  },
  {
    name: 'protobuf as client-go accepts it',
    ask: (scene) => ({
      body: protobufReview(scene.token()),
      contentType: protobufMediaType,
      accept: `${protobufMediaType},application/json`,
    }),
  },
  {
    name: 'protobuf of garbage',
    ask: () => ({
      body: protobufReview('garbage'),
      contentType: protobufMediaType,
      accept: protobufMediaType,
    }),
  },
  {
    name: 'protobuf, answered in JSON',
    ask: (scene) => ({ body: protobufReview(scene.token()), contentType: protobufMediaType }),
  },
  {
    name: 'JSON, answered in protobuf',
    ask: (scene) => ({
      ...review(scene.token(), undefined, { metadata: { name: 'mine', labels: { a: 'b' } } }),
      accept: protobufMediaType,
    }),
  },
  {
    name: 'protobuf without token',
    ask: () => ({ body: protobufReview(''), contentType: protobufMediaType }),
  },
  {
    name: 'protobuf without prefix',
    ask: () => ({ body: Buffer.from('{}'), contentType: protobufMediaType }),
  },
  {
    name: 'protobuf cut short',
    ask: () => ({
      body: protobufReview('token').subarray(0, 40),
      contentType: protobufMediaType,
    }),
  },
  {
    name: 'protobuf of nothing',
    ask: () => ({ body: Buffer.alloc(0), contentType: protobufMediaType }),
  },
];

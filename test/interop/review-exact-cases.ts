// Cases of the TokenReview comparison about the details of Go's decoders: large numbers, extensions of the
// header, the order of several problems, and texts that are not UTF-8.

import { protobufMediaType } from '../../src/core/kube/protobuf.ts';
import { envelope, field } from '../../src/core/kube/test-protobuf.ts';
import { embeddedKeys } from '../../src/auth/review/test-embedded-keys.ts';
import { signToken } from '../../src/auth/review/test-service-account-tokens.ts';
import { about, apiVersion, type Case, type Deviation, everywhere, review } from './review-case.ts';
import { type ReviewScene, reviewKeys } from './review-scene.ts';

const { rsa } = reviewKeys;

/** A token with one claim as it is written here. */
function written(scene: ReviewScene, claim: string, json: string): string {
  const { [claim]: _, ...others } = scene.claims();
  return claimsText(JSON.stringify(others).replace('{', `{"${claim}":${json},`));
}

function claimsText(claims: string | Buffer): string {
  return signToken({ key: rsa, claims });
}

/** Around the largest exact integer, the end of Go's calendar and the end of 64 bits; and odd ways to write numbers. */
const dates = [
  '9007199254740993',
  '9223371974719178752',
  '9223371974719179776',
  '9223372036854774784',
  '9223372036854775807',
  '9223372036854775808',
  '-1',
  '-0.5',
  '-9007199254740993',
  '-9223372036854775808',
  '-1e300',
  '1E10',
  '1.5e+9',
  '99999999999999999999999999999999999',
  '1e-400',
  '-1e999',
  'true',
  '"1"',
  '[1]',
];

export const numbers: readonly Case[] = ['exp', 'nbf', 'iat'].flatMap((claim) =>
  dates.map((json) => about(`${claim} as ${json}`, (scene) => written(scene, claim, json))),
);

const header = (name: string, added: object, more: object = {}): Case =>
  about(name, (scene) => scene.token({}, {}, { header: added as never, ...more }));

export const headers: readonly Case[] = [
  header('b64 as false, for signed base64url', { b64: false }),
  header('b64 as false, for signed claims', { b64: false }, { signsRawClaims: true }),
  header('b64 as false and critical', { b64: false, crit: ['b64'] }, { signsRawClaims: true }),
  header('b64 as true and critical', { b64: true, crit: ['b64'] }),
  header('b64 as true, for signed claims', { b64: true }, { signsRawClaims: true }),
  header('b64 as null', { b64: null }),
  header('b64 as text', { b64: 'false' }),
  header('b64 as number, for signed claims', { b64: 0 }, { signsRawClaims: true }),
  header('b64 missing, though critical', { crit: ['b64'] }),
  header('b64 critical twice', { crit: ['b64', 'b64'] }),
  header('b64 and another critical extension', { b64: true, crit: ['b64', 'exp'] }),
  header('crit empty', { crit: [] }),
  header('crit as null', { crit: null }),
  header('crit with null', { crit: [null] }),
  header('crit with several wrong types', { crit: [true, {}, 1, 'b64'] }),
  header('crit with wrong types that are no number', { crit: ['b64', [], true] }),
  header('crit as object', { crit: { b64: true } }),
  ...embeddedKeys.map(([name, jwk]) => header(`an embedded key: ${name}`, { jwk })),
  about('a number in the header that is too large', (scene) =>
    rawHeader(scene, '"x":[{"a":1e999}]'),
  ),
  about('a duplicate in an unknown member of the header', (scene) =>
    rawHeader(scene, '"x":{"a":1,"a":2}'),
  ),
  about('a header that is not UTF-8', (scene) =>
    rawHeader(scene, Buffer.from('"x":"\xe2\x82"', 'latin1')),
  ),
];

function rawHeader(scene: ReviewScene, member: string | Buffer): string {
  const [head = ''] = scene.token().split('.');
  const text = Buffer.from(head, 'base64url').toString('latin1');
  const changed = text.replace('{', `{${Buffer.from(member).toString('latin1')},`);
  return signToken({ key: rsa, claims: scene.claims(), header: Buffer.from(changed, 'latin1') });
}

/** Claims that are written exactly like this, before those of a valid token. */
const order = (name: string, members: string, without: readonly string[]): Case =>
  about(name, (scene) => {
    const claims = Object.entries(scene.claims()).filter(([key]) => !without.includes(key));
    const text = JSON.stringify(Object.fromEntries(claims));
    return claimsText(text.replace(/\}$/, `,${members}}`));
  });

const severalIssuers: Deviation = {
  modes: everywhere,
  reason: 'a site sees only the last of several `iss` claims',
  ours: /json: cannot unmarshal number into Go value of type string/,
};

export const problems: readonly Case[] = [
  about(
    'an issuer that is a number, before another one',
    (scene) => claimsText(JSON.stringify(scene.claims()).replace('{', '{"iss":1,')),
    severalIssuers,
  ),
  order('a wrong sub before a wrong exp', '"sub":true,"exp":"x"', ['sub', 'exp']),
  order('a wrong exp before a wrong sub', '"exp":"x","sub":true', ['sub', 'exp']),
  order('a wrong sub before a wrong jti', '"sub":[],"jti":{}', ['sub', 'jti']),
  order('a wrong jti before a wrong sub', '"jti":{},"sub":[]', ['sub', 'jti']),
  order('a number as jti after a wrong sub', '"sub":[],"jti":1', ['sub', 'jti']),
  order('a wrong aud before a wrong exp', '"aud":1,"exp":"x"', ['aud', 'exp']),
  order('a wrong exp before a wrong aud', '"exp":"x","aud":1', ['aud', 'exp']),
  order('a duplicate after a wrong exp', '"exp":"x","sub":"a"', ['exp']),
  order('a duplicate before a wrong exp', '"sub":"a","exp":"x"', ['exp']),
  order('a duplicate after a wrong type', '"jti":true,"sub":"a"', ['jti']),
  order('a duplicate claim that Kubernetes does not know', '"x":1,"x":2', []),
  order('wrong private claims before a wrong sub', '"kubernetes.io":1,"sub":true', [
    'kubernetes.io',
    'sub',
  ]),
  order(
    'several wrong private claims',
    '"kubernetes.io":{"pod":"x","namespace":true,"serviceaccount":[]}',
    ['kubernetes.io'],
  ),
  order(
    'a number among wrong private claims',
    '"kubernetes.io":{"pod":"x","namespace":1,"serviceaccount":[]}',
    ['kubernetes.io'],
  ),
  order(
    'a wrong date among wrong private claims',
    '"kubernetes.io":{"pod":{"name":[]},"warnafter":"x"}',
    ['kubernetes.io'],
  ),
  order('a duplicate in aud', '"aud":[{"a":1,"a":2}]', ['aud']),
  order('a number in aud that is too large', '"aud":["a",-1e999]', ['aud']),
  order('an object in aud', '"aud":[{"a":1}]', ['aud']),
];

const body = (name: string, json: string, deviation?: Deviation): Case => ({
  name,
  ask: () => ({ body: json }),
  ...(deviation === undefined ? {} : { deviation }),
});

const lastCounts: Deviation = {
  modes: everywhere,
  reason: 'of duplicate fields in a request only the last counts',
  ours: /invalid bearer token/,
};
const notShown: Deviation = {
  modes: everywhere,
  reason: 'messages do not repeat the body of a request',
  ours: /Object 'apiVersion' is missing$/,
};
const otherKinds: Deviation = {
  modes: everywhere,
  reason: 'a site knows no other kinds of the group',
  ours: /no kind "\w+" is registered for version "[^"]+"$/,
};

export const bodyProblems: readonly Case[] = [
  body('audiences before the token, both wrong', '{"spec":{"audiences":1,"token":2}}'),
  body('the token before audiences, both wrong', '{"spec":{"token":2,"audiences":1}}'),
  body('metadata before spec, both wrong', '{"metadata":[],"spec":1}'),
  body('spec before metadata, both wrong', '{"spec":1,"metadata":[]}'),
  body('several wrong items', '{"spec":{"token":"x","audiences":["a",{},1]}}'),
  body('a wrong status', '{"spec":{"token":"x"},"status":1}'),
  body(
    'wrong members of the status',
    '{"spec":{"token":"x"},"status":{"user":{"extra":{"a":"b"},"groups":{}}}}',
  ),
  body('a wrong item of extra', '{"spec":{"token":"x"},"status":{"user":{"extra":{"a":[1]}}}}'),
  body('authenticated as text', '{"status":{"authenticated":"true"},"spec":{"token":1}}'),
  body('a wrong uid in metadata', '{"metadata":{"uid":1},"spec":{"token":"x"}}'),
  body('a wrong time after a wrong name', '{"metadata":{"name":1,"creationTimestamp":"x"}}'),
  body('a time as number', '{"metadata":{"name":[],"creationTimestamp":1}}'),
  body('a fraction as generation', '{"metadata":{"generation":1.5},"spec":{"token":"x"}}'),
  body('generation as text', '{"metadata":{"generation":"1"},"spec":{"token":"x"}}'),
  body(
    'wrong owners',
    '{"metadata":{"ownerReferences":[{"controller":1},[]]},"spec":{"token":"x"}}',
  ),
  body('owners as object', '{"metadata":{"ownerReferences":{}},"spec":{"token":"x"}}'),
  body('finalizers with null', '{"metadata":{"finalizers":[1,null]},"spec":{"token":"x"}}'),
  body(
    'wrong managed fields',
    '{"metadata":{"managedFields":[{"operation":1,"fieldsV1":[]}]},"spec":{"token":"x"}}',
  ),
  body('kind before apiVersion, both wrong', '{"kind":1,"apiVersion":[],"spec":1}'),
  body('apiVersion before kind, both wrong', '{"apiVersion":[],"kind":1}'),
  body('kind in capital letters, wrong', '{"KIND":1,"spec":{"token":"x"}}'),
  body('spec in capital letters', '{"SPEC":{"token":"x"}}'),
  body('a group without version', '{"apiVersion":"authentication.k8s.io/","spec":{"token":"x"}}'),
  body('a slash as apiVersion', '{"apiVersion":"/","spec":{"token":"x"}}'),
  body('another group without version', '{"apiVersion":"x/","spec":{"token":"x"}}', notShown),
  body('another kind of the group', '{"kind":"TokenRequest","spec":{"token":"x"}}', otherKinds),
  {
    name: 'another kind in capital letters',
    ask: (scene) => review(scene.token(), undefined, { Kind: 'TokenRequest' }),
    deviation: otherKinds,
  },
  body(
    'a duplicate spec',
    '{"spec":{"token":"x","audiences":["a"]},"spec":{"token":"y"}}',
    lastCounts,
  ),
  body('nothing but an opening bracket', '{'),
  body('a control character', '{"spec":{"token":"\u0001"}}'),
];

const bytes = (name: string, latin1: string): Case => ({
  name,
  ask: () => ({ body: Buffer.from(latin1, 'latin1') }),
});

const replaced: Deviation = {
  modes: everywhere,
  reason: 'a site repeats no text that is not UTF-8',
  ours: /invalid bearer token/,
};

function binaryReview(...fields: readonly Buffer[]): Buffer {
  return envelope(apiVersion, 'TokenReview', field(2, Buffer.concat(fields)));
}

const lenient: Deviation = {
  modes: everywhere,
  reason: 'a site skips fields of protobuf that it does not read',
  ours: /invalid bearer token/,
};
const ownWords: Deviation = {
  modes: everywhere,
  reason: 'a site describes malformed protobuf in other words',
  ours: /cannot be handled as a TokenReview: proto: illegal wireType 7/,
};

const cutCharacter = Buffer.from('e282', 'hex');

export const encodings: readonly Case[] = [
  bytes(
    'a token with a character that is cut short',
    '{"spec":{"token":"a\xe2\x82b\xf0\x9f\x98"}}',
  ),
  bytes(
    'an audience with bytes of no character',
    '{"spec":{"token":"a","audiences":["\xff\xc0\x80"]}}',
  ),
  bytes('a surrogate in UTF-8', '{"spec":{"token":"a\xed\xa0\x80"}}'),
  bytes(
    'a label that is not UTF-8',
    '{"metadata":{"labels":{"a\xe2\x82":"b\xe2\x82"}},"spec":{"token":"a"}}',
  ),
  bytes('a byte order mark', '\xef\xbb\xbf{"spec":{"token":"a"}}'),
  bytes('a body in UTF-16', '{\0"\0s\0'),
  bytes(
    'an excerpt that ends within a character',
    `{"spec":{"token":"aaaaaaaaaaa\xe2\x82\xac\xe2\x82\xac"`,
  ),
  bytes('a syntax error at a byte of no character', '{"spec":\xe2\x82}'),
  about('a jti with a character that is cut short', (scene) =>
    claimsText(bytesIn(scene, '"jti":"', '"jti":"\xe2\x82')),
  ),
  about('an audience of the token that is not UTF-8', (scene) =>
    claimsText(bytesIn(scene, '"aud":["', '"aud":["\xf0\x9f')),
  ),
  about('a claim that is not UTF-8', (scene) =>
    claimsText(bytesIn(scene, '{', '{"\xe2\x82":"\xff",')),
  ),
  about('claims that repeat after replacement', (scene) =>
    claimsText(bytesIn(scene, '{', '{"\xfe":1,"\xff":2,')),
  ),
  {
    name: 'protobuf with a number as status',
    ask: () => ({
      body: envelope(
        apiVersion,
        'TokenReview',
        Buffer.concat([field(2, field(1, 'a')), Buffer.of(24, 1)]),
      ),
      contentType: protobufMediaType,
    }),
    deviation: lenient,
  },
  {
    name: 'protobuf with an unknown wire type',
    ask: () => ({
      body: envelope(apiVersion, 'TokenReview', field(2, Buffer.of(15))),
      contentType: protobufMediaType,
    }),
    deviation: ownWords,
  },
  {
    name: 'protobuf that is not UTF-8, answered in JSON',
    ask: () => ({
      body: binaryReview(field(1, 'a'), field(2, cutCharacter)),
      contentType: protobufMediaType,
    }),
  },
  {
    name: 'protobuf that is not UTF-8, answered in protobuf',
    ask: () => ({
      body: binaryReview(field(1, 'a'), field(2, cutCharacter)),
      contentType: protobufMediaType,
      accept: protobufMediaType,
    }),
    deviation: replaced,
  },
];

function bytesIn(scene: ReviewScene, text: string, changed: string): Buffer {
  return Buffer.from(JSON.stringify(scene.claims()).replace(text, changed), 'latin1');
}

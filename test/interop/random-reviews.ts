// Random TokenReviews for the comparison with kube-apiserver: valid ones with a few changes each. The same
// dice make the same changes.

import { isRecord } from '../../src/core/json/is-record.ts';
import { jsonMembers } from '../../src/core/json/json-members.ts';
import { duplicateFields } from '../../src/core/json/strict-json.ts';
import { protobufMediaType } from '../../src/core/kube/protobuf.ts';
import { envelope, field } from '../../src/core/kube/test-protobuf.ts';
import { keyIdOf, signToken } from '../../src/auth/review/test-service-account-tokens.ts';
import type { Dice } from './dice.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import { type Answer, type Asked, apiVersion, review } from './review-case.ts';
import { type ReviewScene, reviewKeys } from './review-scene.ts';

/** Values that decoders read differently. */
const odd: readonly string[] = [
  'null',
  'true',
  'false',
  '0',
  '-0',
  '1',
  '-1',
  '1.5',
  '1e999',
  '-1e999',
  '1E-7',
  '9007199254740993',
  '9223372036854775807',
  '9223372036854775808',
  '-9223372036854775809',
  '""',
  '"x"',
  '" "',
  String.raw`"\ud800"`,
  String.raw`"\u0000"`,
  '"\u00fc\u2028"',
  '"2026-01-01T00:00:00Z"',
  '[]',
  '{}',
  '[null]',
  '["a"]',
  '["a","b"]',
  '[1]',
  '[{"a":1,"a":2}]',
  '{"name":1}',
  '[[]]',
  '{"name":"a","uid":"b"}',
  '{"a":1,"a":2}',
  '{"a":"b"}',
  '"TokenReview"',
  `"${apiVersion}"`,
];

const keys = [
  'iss',
  'ISS',
  'aud',
  'exp',
  'x',
  'kid',
  'b64',
  'crit',
  'nonce',
  'pod',
  'Kind',
  'status',
];

/** Changes one member of a JSON object, or of an object in it. Everything else stays as it is written. */
function changeObject(json: string, dice: Dice): string {
  const members = jsonMembers(Buffer.from(json)).map(
    ({ key, json: value }) => [JSON.stringify(key), value.toString()] as [string, string],
  );
  const at = dice.below(members.length);
  const chosen = members[at] ?? (['"x"', '1'] as [string, string]);
  const change = dice.weighted<() => void>([
    [6, () => void (chosen[1] = dice.pick(odd))],
    [6, () => void (chosen[1] = chosen[1].startsWith('{') ? changeObject(chosen[1], dice) : '[]')],
    [2, () => void members.splice(at, 1)],
    [2, () => void members.splice(at, 0, ...members.splice(dice.below(members.length), 1))],
    [2, () => void members.splice(at, 0, [JSON.stringify(dice.pick(keys)), dice.pick(odd)])],
    [1, () => void members.splice(dice.below(members.length), 0, [chosen[0], dice.pick(odd)])],
    [1, () => void (chosen[0] = chosen[0].toUpperCase())],
  ]);
  change();
  return `{${members.map((member) => member.join(':')).join(',')}}`;
}

const bytesOfInterest = [
  0, 0x09, 0x0a, 0x20, 0x22, 0x2c, 0x2e, 0x5c, 0x7b, 0x7d, 0x80, 0xc3, 0xe2, 0xff,
];

function changeBytes(input: Buffer, dice: Dice): Buffer {
  const at = dice.below(input.length + 1);
  const byte = Buffer.of(dice.chance(0.7) ? dice.pick(bytesOfInterest) : dice.below(256));
  const [before, after] = [input.subarray(0, at), input.subarray(at)];
  return dice.pick([
    () => Buffer.concat([before, byte, after]),
    () => Buffer.concat([before, byte, after.subarray(1)]),
    () => Buffer.concat([before, after.subarray(1 + dice.below(8))]),
    () => Buffer.concat([before, after.subarray(0, dice.below(12)), after]),
    () => before,
  ])();
}

function changed(json: string, dice: Dice, byteChance = 0.15): Buffer {
  let text = json;
  for (let count = dice.pick([0, 1, 1, 1, 2, 2, 3]); count > 0; count -= 1)
    text = changeObject(text, dice);
  const bytes = Buffer.from(text);
  return dice.chance(byteChance) ? changeBytes(bytes, dice) : bytes;
}

function randomToken(scene: ReviewScene, dice: Dice): string {
  const { rsa, p256, other } = reviewKeys;
  const key = dice.weighted([
    [6, rsa],
    [3, p256],
    [1, other],
  ]);
  const alg = key === rsa ? 'RS256' : 'ES256';
  const header = JSON.stringify({ alg, kid: keyIdOf(key) });
  const token = signToken({
    key,
    claims: changed(JSON.stringify(scene.claims()), dice),
    header: dice.chance(0.7) ? header : changed(header, dice),
    ...(dice.chance(0.05) ? { signsRawClaims: true } : {}),
  });
  return dice.chance(0.9) ? token : changeBytes(Buffer.from(token), dice).toString('latin1');
}

export const randomReview = {
  token: (scene: ReviewScene, dice: Dice): Asked => {
    const audiences = dice.weighted([
      [4, undefined],
      [1, [serviceAccountIssuer]],
      [1, ['a', '']],
    ]);
    return review(randomToken(scene, dice), audiences);
  },
  body: (scene: ReviewScene, dice: Dice): Asked => {
    const valid = {
      kind: 'TokenReview',
      apiVersion,
      metadata: { name: 'a', labels: { b: 'c' }, creationTimestamp: null, uid: 'd' },
      spec: { token: scene.token(), audiences: [serviceAccountIssuer] },
    };
    return { body: changed(JSON.stringify(valid), dice, 0.3) };
  },
  protobuf: (scene: ReviewScene, dice: Dice): Asked => {
    const spec = [field(1, scene.token()), field(2, serviceAccountIssuer)];
    const metadata = [field(1, 'a'), field(11, Buffer.concat([field(1, 'b'), field(2, 'c')]))];
    let body = envelope(
      apiVersion,
      'TokenReview',
      Buffer.concat([field(1, Buffer.concat(metadata)), field(2, Buffer.concat(spec))]),
    );
    for (let count = dice.pick([0, 1, 1, 2]); count > 0; count -= 1) body = changeBytes(body, dice);
    return { body, contentType: protobufMediaType };
  },
} as const;

/** Differences that docs/token-review-differences.md lists, and that random changes lead to. */
export function isKnownDifference(asked: Asked, ours: Answer, theirs: Answer): boolean {
  const [own, other] = [errorOf(ours), errorOf(theirs)];
  // Mode jwks does not ask whether objects exist, and does not know uids.
  if (/not found|invalidated|does not match/.test(other))
    return own === '' || /invalidated/.test(own);
  if (/mode jwks cannot check/.test(own)) return true;
  if (JSON.stringify(theirs.body).includes('system:anonymous')) return own === '';
  if (other.includes('unknown conversion') || other.includes(`'apiVersion' is missing in`))
    return ours.status === theirs.status;
  // Malformed protobuf: in other words, or refused because of a field that a site does not read.
  if (asked.contentType === protobufMediaType)
    return theirs.status === 400 || JSON.stringify(theirs.body).includes('\ufffd');
  return hasDuplicates(asked.body) || hasTwoIssuers(ours);
}

function hasTwoIssuers({ body }: Answer): boolean {
  const { spec } = body as { spec?: { token: string } };
  const claims = Buffer.from(spec?.token.split('.')[1] ?? '', 'base64url');
  return isJson(claims) && jsonMembers(claims).filter(({ key }) => key === 'iss').length > 1;
}

function hasDuplicates(body: string | Buffer): boolean {
  const bytes = Buffer.from(body as string);
  return isJson(bytes) && duplicateFields(bytes).length > 0;
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}

function errorOf({ body }: Answer): string {
  const { status, message } = body as { status?: { error?: string }; message?: string };
  return message ?? status?.error ?? '';
}

/** The answer of kube-apiserver without what a site never repeats. */
export function comparable(answer: Answer): Answer {
  const { metadata, ...rest } = answer.body as { metadata?: unknown };
  if (answer.status !== 201 || !isRecord(metadata)) {
    const text = JSON.stringify(answer.body).replaceAll(/ in scheme \\"[^"]*\\"/g, '');
    return { ...answer, body: JSON.parse(text) as unknown };
  }
  const { name, generateName, labels, annotations } = metadata;
  const repeated = Object.entries({ name, generateName, labels, annotations }).filter(
    ([, value]) => value !== undefined,
  );
  return { ...answer, body: { ...rest, metadata: Object.fromEntries(repeated) } };
}

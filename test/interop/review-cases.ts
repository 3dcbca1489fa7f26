// The cases of the TokenReview comparison. Each makes a token that neither side has seen.

import { signToken } from '../../src/auth/review/test-service-account-tokens.ts';
import { serviceAccountIssuer } from './kube-apiserver.ts';
import { bodies } from './review-body-cases.ts';
import { about, type Case, type Deviation, fresh, review, seconds } from './review-case.ts';
import { bodyProblems, encodings, headers, numbers, problems } from './review-exact-cases.ts';
import { forged, malformed, texts } from './review-hostile-cases.ts';
import { type ReviewScene, reviewKeys } from './review-scene.ts';

const neverExpires: Deviation = {
  modes: ['jwks'],
  reason: 'mode jwks accepts no token that never expires',
  ours: /does not expire/,
};
const { rsa, p256, p384, p521 } = reviewKeys;

const valid: readonly Case[] = [
  about('a token of the API server itself', (scene) => scene.requestToken()),
  about('a token with RS256', (scene) => scene.token()),
  about('a token with RS384', (scene) => scene.token({}, {}, { algorithm: 'RS384' })),
  about('a token with RS512', (scene) => scene.token({}, {}, { algorithm: 'RS512' })),
  about('a token with PS256', (scene) => scene.token({}, {}, { algorithm: 'PS256' })),
  about('a token with ES256', (scene) => scene.token({}, {}, { key: p256 })),
  about('a token with ES384', (scene) => scene.token({}, {}, { key: p384, algorithm: 'ES384' })),
  about('a token with ES512', (scene) => scene.token({}, {}, { key: p521, algorithm: 'ES512' })),
  about('a token without kid', (scene) => scene.token({}, {}, { header: { kid: undefined } })),
  about('a token without kid, of the last key', (scene) =>
    scene.token({}, {}, { key: p521, algorithm: 'ES512', header: { kid: undefined } }),
  ),
  about('a token with claims of others', (scene) =>
    scene.token({ groups: ['system:masters'], email: 'a@b.c', deep: [[{ a: [1] }]] }),
  ),
  about('a token of another subject', (scene) => scene.token({ sub: 'system:admin' })),
  about('a token without sub', (scene) => scene.token({ sub: undefined })),
  about('a token without jti', (scene) => scene.token({ jti: undefined })),
  about('a token without iat and nbf', (scene) => scene.token({ iat: undefined, nbf: undefined })),
  about('a token with empty members', (scene) => scene.token({ jti: null, sub: null, iat: null })),
  about('a token with a fraction in exp', (scene) => scene.token({ exp: seconds(600) + 0.75 })),
  about('a token with warnafter', (scene) =>
    scene.token({}, { warnafter: seconds(-100) } as object),
  ),
  about('a token without exp', (scene) => scene.token({ exp: undefined }), neverExpires),
];

const bound: readonly Case[] = [
  about('a pod-bound token', async (scene) =>
    scene.token({}, { pod: await scene.pod(fresh('pod')) }),
  ),
  about('a pod-bound token with a node', async (scene) =>
    scene.token({}, { pod: await scene.pod(fresh('pod')), node: { name: 'gone', uid: 'a' } }),
  ),
  about('a pod-bound token with a node without uid', async (scene) =>
    scene.token({}, { pod: await scene.pod(fresh('pod')), node: { name: 'gone' } }),
  ),
  about('a node-bound token', async (scene) =>
    scene.token({}, { node: await scene.node(fresh('node')) }),
  ),
  about('a secret-bound token', async (scene) =>
    scene.token({}, { secret: await scene.secret(fresh('secret')) }),
  ),
  about('a pod without name', (scene) => scene.token({}, { pod: { uid: 'a' } })),
  about('an empty pod', (scene) => scene.token({}, { pod: {} })),
  about('a secret without name', (scene) => scene.token({}, { secret: { uid: 'a' } })),
  about('a node without name', (scene) => scene.token({}, { node: { uid: 'a' } })),
];

const deletedObjects: Deviation = {
  modes: ['jwks'],
  reason: 'mode jwks does not ask whether objects exist',
  ours: 'accepted',
};

function afterDeletion(name: string, make: (scene: ReviewScene) => Promise<() => string>): Case {
  let next: (() => string) | undefined;
  return {
    name,
    ask: async (scene) => {
      next ??= await make(scene);
      return review(next());
    },
    deviation: deletedObjects,
    untilDenied: true,
  };
}

const deleted: readonly Case[] = [
  afterDeletion('a token of a deleted pod', async (scene) => {
    const pod = await scene.pod(fresh('pod'));
    await scene.remove('pods', pod.name);
    return () => scene.token({}, { pod });
  }),
  afterDeletion('a token of a pod that was created again', async (scene) => {
    const pod = await scene.pod(fresh('pod'));
    await scene.remove('pods', pod.name);
    await scene.pod(pod.name);
    return () => scene.token({}, { pod });
  }),
  afterDeletion('a token of a deleted secret', async (scene) => {
    const secret = await scene.secret(fresh('secret'));
    await scene.remove('secrets', secret.name);
    return () => scene.token({}, { secret });
  }),
  afterDeletion('a token of a deleted node', async (scene) => {
    const node = await scene.node(fresh('node'));
    await scene.remove('nodes', node.name);
    return () => scene.token({}, { node });
  }),
  afterDeletion('a token of a deleted ServiceAccount', async (scene) => {
    const serviceaccount = await scene.account(fresh('account'));
    await scene.remove('serviceaccounts', serviceaccount.name);
    return () => scene.token({}, { serviceaccount });
  }),
  afterDeletion('a token of a ServiceAccount that was created again', async (scene) => {
    const serviceaccount = await scene.account(fresh('account'));
    await scene.remove('serviceaccounts', serviceaccount.name);
    await scene.account(serviceaccount.name);
    return () => scene.token({}, { serviceaccount });
  }),
  afterDeletion(
    'a token of a ServiceAccount that never was',
    async (scene) => () => scene.token({}, { serviceaccount: { name: 'nobody', uid: 'a' } }),
  ),
  {
    ...about('a token without the uid of its ServiceAccount', (scene) =>
      scene.token({}, { serviceaccount: { name: 'web' } }),
    ),
    deviation: {
      modes: ['jwks'],
      reason: 'mode jwks does not know the uid that kube-apiserver names',
      ours: /has been invalidated/,
    },
  },
];

const legacy: readonly Case[] = [
  about('a legacy token', (scene) => scene.legacyToken(), neverExpires),
  about('a legacy token without its Secret', (scene) => scene.legacyToken({}, false), neverExpires),
  about('a legacy token that has expired', (scene) => scene.legacyToken({ exp: 1 }), neverExpires),
  about('a legacy token without sub', (scene) => scene.legacyToken({ sub: undefined }, false)),
  about('a legacy token of another subject', (scene) =>
    scene.legacyToken({ sub: 'system:serviceaccount:shop:admin' }, false),
  ),
  about('a legacy token without namespace', (scene) =>
    scene.legacyToken({ 'kubernetes.io/serviceaccount/namespace': undefined }, false),
  ),
  about('a legacy token with a number as uid', (scene) =>
    scene.legacyToken({ 'kubernetes.io/serviceaccount/service-account.uid': 1 }, false),
  ),
  {
    name: 'a legacy token for another audience',
    ask: async (scene) => review(await scene.legacyToken({}, false), ['reports']),
  },
];

const audiences: readonly Case[] = [
  { name: 'no audiences', ask: (scene) => review(scene.token()) },
  { name: 'an empty list of audiences', ask: (scene) => review(scene.token(), []) },
  { name: 'null as audiences', ask: (scene) => review(scene.token(), null) },
  {
    name: 'the audience of the token',
    ask: (scene) => review(scene.token({ aud: ['reports'] }), ['reports']),
  },
  {
    name: 'some of several audiences, in another order and twice',
    ask: (scene) => review(scene.token({ aud: ['a', 'b', 'c'] }), ['x', 'c', 'a', 'c']),
  },
  { name: 'a wrong audience', ask: (scene) => review(scene.token(), ['reports']) },
  {
    name: 'wrong audiences that need quoting',
    ask: (scene) => review(scene.token({ aud: ['a"\\', 'ü\u0007\u2028\u{1f600}'] }), ['\n', '']),
  },
  { name: 'an audience that is empty', ask: (scene) => review(scene.token({ aud: '' }), ['']) },
  {
    name: 'no audiences, for a token that is for others',
    ask: (scene) => review(scene.token({ aud: ['reports'] })),
  },
  {
    name: 'an audience as text',
    ask: (scene) => review(scene.token({ aud: serviceAccountIssuer })),
  },
  { name: 'a token without audiences', ask: (scene) => review(scene.token({ aud: undefined })) },
  { name: 'a token with an empty list', ask: (scene) => review(scene.token({ aud: [] })) },
  {
    name: 'a token without audiences, for another one',
    ask: (scene) => review(scene.token({ aud: undefined }), ['reports']),
  },
  {
    name: 'a wrong audience and an expired token',
    ask: (scene) => review(scene.token({ exp: 1 }), ['reports']),
  },
];

const times: readonly Case[] = [
  about('an expired token', (scene) => scene.token({ exp: seconds(-90) })),
  about('a token that expired within the leeway', (scene) => scene.token({ exp: seconds(-30) })),
  about('a token that is not valid yet', (scene) => scene.token({ nbf: seconds(120) })),
  about('a token that is valid within the leeway', (scene) => scene.token({ nbf: seconds(30) })),
  about('a token of the future', (scene) => scene.token({ iat: seconds(120) })),
  about('a token that is early and expired', (scene) =>
    scene.token({ nbf: seconds(120), exp: seconds(-120) }),
  ),
  about('a token that expires in an endless future', (scene) =>
    signToken({
      key: rsa,
      claims: JSON.stringify(scene.claims()).replace(/"exp":\d+/, '"exp":1e300'),
    }),
  ),
  about('a number beyond all numbers', (scene) =>
    signToken({
      key: rsa,
      claims: JSON.stringify(scene.claims()).replace(/"exp":\d+/, '"exp":1e999'),
    }),
  ),
];

export const reviewCases: Readonly<Record<string, readonly Case[]>> = {
  valid,
  bound,
  deleted,
  legacy,
  audiences,
  times,
  malformed,
  forged,
  texts,
  bodies,
  numbers,
  headers,
  problems,
  bodyProblems,
  encodings,
};

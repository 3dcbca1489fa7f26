import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { SeededRandom } from '../clock/seeded-random.ts';
import { socketOwner, tokenCaller } from './identity.ts';
import { openScene, person, type Scene } from './test-scene.ts';
import { createToken, listTokens, revokeToken } from './token-operations.ts';
import { tokensCollection } from './token-register.ts';
import { digestOfToken, isTokenText, makeTokenText } from './token-text.ts';

const day = 86_400_000;

test('a token is 54 characters with a prefix that scanners know, and no two are alike', async () => {
  const random = new SeededRandom('tokens');
  const made = await Promise.all(Array.from({ length: 100 }, () => makeTokenText(random)));
  for (const text of made) {
    assert.match(text, /^hansa_[A-Za-z0-9_-]{48}$/);
    assert.ok(isTokenText(text));
  }
  assert.equal(new Set(made).size, made.length);
});

test('every changed, cut, lengthened or respelt character makes it another text', async () => {
  const text = await makeTokenText(new SeededRandom('flip'));
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.nat(6), (at, bit) => {
      const flipped = String.fromCharCode(text.charCodeAt(at) ^ (1 << bit));
      const changed = text.slice(0, at) + flipped + text.slice(at + 1);
      assert.ok(!isTokenText(changed), changed);
    }),
    { numRuns: 500 },
  );
  for (let length = 0; length < text.length; length += 1)
    assert.ok(!isTokenText(text.slice(0, length)));
  for (const other of [`${text}=`, `${text}A`, ` ${text}`, `${text}\n`, text.toUpperCase(), ''])
    assert.ok(!isTokenText(other), JSON.stringify(other));
});

test('any other text is not a token, whatever it holds', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: 'binary' })), (text) => {
      assert.ok(!isTokenText(text));
      assert.ok(!isTokenText(`hansa_${text}`));
    }),
  );
});

test('the store holds the digest of a token and never the token', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  const entry = scene.store.get(tokensCollection, 'ci');
  const stored = entry?.value.toString('utf8') ?? '';
  assert.ok(stored.includes(digestOfToken(token).toString('hex')));
  const rows = await scene.store.auditLog.read(0, 100);
  const secret = token.slice('hansa_'.length, 30);
  for (const text of [stored, ...rows.map((row) => row.toString('utf8'))])
    assert.ok(!text.includes(secret));
});

test('a new token is found by its text alone, has its role, and expires after thirty days', async () => {
  const scene = await openScene();
  const made = await createToken(scene, socketOwner, { name: 'ci', role: 'editor' });
  assert.equal(made.user, 'token:ci');
  assert.equal(made.createdBy, 'admin');
  assert.equal(scene.tokens.find(made.token)?.name, 'ci');
  const create = { verb: 'create', plural: 'networks' };
  assert.ok(scene.authorizer.authorize(tokenCaller('ci'), create).allowed);
  await scene.clock.advance(30 * day - 1000);
  assert.ok(scene.tokens.find(made.token));
  await scene.clock.advance(1000);
  assert.equal(scene.tokens.find(made.token), undefined);
  assert.equal(listTokens(scene, socketOwner)[0]?.state, 'expired');
});

test('a revoked token is unknown at once, its binding is gone, and its name is free', async () => {
  const scene = await openScene();
  const first = await createToken(scene, socketOwner, { name: 'ci', role: 'editor' });
  assert.ok(scene.tokens.find(first.token));
  assert.deepEqual(await revokeToken(scene, socketOwner, 'ci'), {
    name: 'ci',
    remainingBindings: [],
  });
  assert.equal(scene.tokens.find(first.token), undefined);
  assert.equal(scene.store.count('rolebindings'), 0);
  await assert.rejects(revokeToken(scene, socketOwner, 'ci'), { code: 'HANSA_NOT_FOUND' });
  const second = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  assert.equal(scene.tokens.find(first.token), undefined);
  assert.ok(scene.tokens.find(second.token));
});

test('revoking leaves a binding alone that somebody made over for others, and names it', async () => {
  const scene = await openScene();
  await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  await scene.bind('token-ci', {
    role: 'viewer',
    subjects: [
      { kind: 'Token', name: 'ci' },
      { kind: 'User', name: 'alice' },
    ],
  });
  const { remainingBindings } = await revokeToken(scene, socketOwner, 'ci');
  assert.deepEqual(remainingBindings, ['token-ci']);
});

test('listing tells everything about tokens but what they are', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'b', role: 'viewer' });
  await createToken(scene, socketOwner, { name: 'a', role: 'editor', ttlSeconds: 60 });
  scene.tokens.find(token);
  assert.deepEqual(listTokens(scene, socketOwner), [
    {
      name: 'a',
      user: 'token:a',
      role: 'editor',
      createdAt: '2026-01-01T00:00:00Z',
      createdBy: 'admin',
      expiresAt: '2026-01-01T00:01:00Z',
      state: 'active',
    },
    {
      name: 'b',
      user: 'token:b',
      role: 'viewer',
      createdAt: '2026-01-01T00:00:00Z',
      createdBy: 'admin',
      expiresAt: '2026-01-31T00:00:00Z',
      lastUsedAt: '2026-01-01T00:00:00.000Z',
      state: 'active',
    },
  ]);
});

test('the last use is noted at most once a minute', async () => {
  const scene = await openScene();
  const { token } = await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  scene.tokens.find(token);
  await scene.clock.advance(59_000);
  scene.tokens.find(token);
  assert.equal(scene.tokens.lastUsedAt('ci'), '2026-01-01T00:00:00.000Z');
  await scene.clock.advance(1_000);
  scene.tokens.find(token);
  assert.equal(scene.tokens.lastUsedAt('ci'), '2026-01-01T00:01:00.000Z');
});

test('what is wrong with a request is said by field', async () => {
  const scene = await openScene();
  const table: readonly [body: unknown, code: string, message: RegExp][] = [
    [null, 'HANSA_BAD_REQUEST', /JSON object/],
    [[], 'HANSA_BAD_REQUEST', /JSON object/],
    ['x', 'HANSA_BAD_REQUEST', /JSON object/],
    [{ name: 'a', role: 'viewer', admin: true }, 'HANSA_BAD_REQUEST', /Unknown field "admin"/],
    [{ role: 'viewer' }, 'HANSA_INVALID', /^name: /],
    [{ name: 'A', role: 'viewer' }, 'HANSA_INVALID', /^name: .*lower case/],
    [{ name: 'a.b', role: 'viewer' }, 'HANSA_INVALID', /^name: /],
    [{ name: 'a/b', role: 'viewer' }, 'HANSA_INVALID', /^name: /],
    [{ name: '-a', role: 'viewer' }, 'HANSA_INVALID', /^name: /],
    [{ name: 'x'.repeat(64), role: 'viewer' }, 'HANSA_INVALID', /^name: /],
    [{ name: 'a' }, 'HANSA_INVALID', /^role: /],
    [{ name: 'a', role: '' }, 'HANSA_INVALID', /^role: /],
    [{ name: 'a', role: 7 }, 'HANSA_INVALID', /^role: /],
    [{ name: 'a', role: 'viewer', ttlSeconds: 59 }, 'HANSA_INVALID', /^ttlSeconds: .*from 60 to/],
    [{ name: 'a', role: 'viewer', ttlSeconds: 1e9 }, 'HANSA_INVALID', /^ttlSeconds: /],
    [{ name: 'a', role: 'viewer', ttlSeconds: '90' }, 'HANSA_INVALID', /^ttlSeconds: /],
    [{ name: 'a', role: 'viewer', ttlSeconds: 90.5 }, 'HANSA_INVALID', /^ttlSeconds: /],
  ];
  for (const [body, code, message] of table)
    await assert.rejects(createToken(scene, socketOwner, body), { code, message });
  assert.equal(scene.store.count(tokensCollection), 0);
  assert.equal(scene.store.auditLog.size, 0);
});

test('a name that is taken, by a token or by a binding, is refused and nothing changes', async () => {
  const scene = await openScene();
  await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' });
  await assert.rejects(createToken(scene, socketOwner, { name: 'ci', role: 'viewer' }), {
    code: 'HANSA_ALREADY_EXISTS',
    message: /hansa access revoke ci/,
  });
  await scene.bind('token-x', { role: 'viewer', subjects: [] });
  await assert.rejects(createToken(scene, socketOwner, { name: 'x', role: 'viewer' }), {
    code: 'HANSA_ALREADY_EXISTS',
    message: /RoleBinding token-x/,
  });
  assert.equal(scene.store.count(tokensCollection), 1);
});

test('of many who make a token of one name at once, one succeeds', async () => {
  const scene = await openScene();
  const results = await Promise.allSettled(
    Array.from({ length: 8 }, () =>
      createToken(scene, socketOwner, { name: 'ci', role: 'viewer' }),
    ),
  );
  assert.equal(results.filter((result) => result.status === 'fulfilled').length, 1);
  for (const result of results)
    if (result.status === 'rejected') assert.equal(result.reason.code, 'HANSA_ALREADY_EXISTS');
});

const maker = person('maker');

/** May make and revoke tokens and read sites, and nothing else. */
async function withMaker(): Promise<Scene> {
  const scene = await openScene();
  await scene.role('maker', [
    { kinds: ['Token'], verbs: ['create', 'list', 'delete'] },
    { kinds: ['Site'], verbs: ['get'] },
  ]);
  await scene.role('sites', [{ kinds: ['Site'], verbs: ['get'] }]);
  await scene.bind('makers', { role: 'maker', subjects: [{ kind: 'User', name: 'maker' }] });
  return scene;
}

test('nobody makes a token with rights that they do not have', async () => {
  const scene = await withMaker();
  await createToken(scene, maker, { name: 'ok', role: 'sites' });
  await assert.rejects(createToken(scene, maker, { name: 'ci', role: 'viewer' }), {
    code: 'HANSA_FORBIDDEN',
    message: /tokens\.hansa\.dev "ci" is forbidden: user "maker" .* not currently held/,
  });
  await assert.rejects(createToken(scene, maker, { name: 'ci', role: 'nowhere' }), {
    code: 'HANSA_NOT_FOUND',
  });
  // Who may bind anything still cannot misspell it.
  await scene.bind('chiefs', { role: 'admin', subjects: [{ kind: 'User', name: 'chief' }] });
  await assert.rejects(createToken(scene, person('chief'), { name: 'ci', role: 'nowhere' }), {
    code: 'HANSA_NOT_FOUND',
    message: /the Role "nowhere" does not exist/,
  });
  await assert.rejects(createToken(scene, person('alice'), { name: 'ci', role: 'sites' }), {
    code: 'HANSA_FORBIDDEN',
    message: /User "alice" cannot create resource "tokens"/,
  });
});

test('nobody takes over rights that wait for a token of that name', async () => {
  const scene = await withMaker();
  await scene.bind('waits', { role: 'admin', subjects: [{ kind: 'Token', name: 'ci' }] });
  await scene.bind('also', { role: 'editor', subjects: [{ kind: 'User', name: 'token:cd' }] });
  await scene.bind('late', { role: 'later', subjects: [{ kind: 'Token', name: 'free' }] });
  for (const name of ['ci', 'cd'])
    await assert.rejects(createToken(scene, maker, { name, role: 'sites' }), {
      code: 'HANSA_FORBIDDEN',
      message: /not currently held/,
    });
  await createToken(scene, maker, { name: 'free', role: 'sites' });
  await scene.bind('everybody', {
    role: 'viewer',
    subjects: [{ kind: 'Group', name: 'hansa:tokens' }],
  });
  await assert.rejects(createToken(scene, maker, { name: 'other', role: 'sites' }), {
    code: 'HANSA_FORBIDDEN',
  });
});

test('listing and revoking need their own rights', async () => {
  const scene = await withMaker();
  await createToken(scene, maker, { name: 'ci', role: 'sites' });
  const alice = person('alice');
  assert.throws(() => listTokens(scene, alice), { code: 'HANSA_FORBIDDEN' });
  await assert.rejects(revokeToken(scene, alice, 'ci'), { code: 'HANSA_FORBIDDEN' });
  await assert.rejects(revokeToken(scene, alice, 'none'), { code: 'HANSA_FORBIDDEN' });
  assert.equal(listTokens(scene, maker).length, 1);
  await revokeToken(scene, maker, 'ci');
});

test('a token cannot make one that outlives it', async () => {
  const scene = await openScene();
  await createToken(scene, socketOwner, { name: 'parent', role: 'admin', ttlSeconds: 3600 });
  const parent = tokenCaller('parent');
  await assert.rejects(
    createToken(scene, parent, { name: 'child', role: 'viewer', ttlSeconds: 3601 }),
    { code: 'HANSA_INVALID', message: /outlive parent/ },
  );
  const child = await createToken(scene, parent, { name: 'child', role: 'viewer' });
  assert.equal(child.expiresAt, '2026-01-01T01:00:00Z');
  assert.equal(child.createdBy, 'token:parent');
});

test('making and revoking leave records of who did it, in the same commit', async () => {
  const scene = await openScene();
  const origin = { address: '192.0.2.1', requestId: 'r1' };
  await createToken(scene, socketOwner, { name: 'ci', role: 'viewer' }, origin);
  await revokeToken(scene, socketOwner, 'ci', origin);
  const rows = await scene.store.auditLog.read(0, 10);
  const events = rows.map((row) => JSON.parse(row.toString('utf8')));
  assert.deepEqual(
    events.map(({ verb, kind, name }) => [verb, kind, name]),
    [
      ['create', 'Token', 'ci'],
      ['create', 'RoleBinding', 'token-ci'],
      ['delete', 'Token', 'ci'],
      ['delete', 'RoleBinding', 'token-ci'],
    ],
  );
  assert.deepEqual(events[0].actor, {
    user: 'admin',
    groups: ['hansa:admins', 'system:authenticated'],
    via: 'socket',
    address: '192.0.2.1',
  });
  assert.equal(events[0].requestId, 'r1');
});

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { anonymous, type Caller, socketOwner } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import { name } from '../../core/identity/x509/build-certificate.ts';
import { exportPkcs8 } from '../../core/identity/x509/keys.ts';
import { certificatePem, privateKeyPem } from '../../core/identity/x509/pem.ts';
import { forge } from '../../core/identity/x509/test-forge.ts';
import { callRoute } from '../../core/plane/test-request.ts';
import type { RotationStatus } from './rotation.ts';
import { rotationSite } from './test-rotation-site.ts';

type Site = Awaited<ReturnType<typeof rotationSite>>;

async function call(
  site: Site,
  method: 'GET' | 'POST',
  segment: string,
  body: string | object = '',
  caller: Caller | undefined = socketOwner,
): Promise<RotationStatus> {
  const route = site.routes.find((one) => one.method === method);
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const response = await callRoute(route, { caller, params: { step: segment }, body: text }, site);
  return JSON.parse(String(response.body)) as RotationStatus;
}

const states = ({ authorities }: RotationStatus, kind = 'x509'): string =>
  authorities
    .filter((one) => one.kind === kind)
    .map(({ state }) => state)
    .join(' ');

test('each step can be taken by hand, and is answered with what is there then', async () => {
  const site = await rotationSite();
  assert.equal(states(await call(site, 'GET', '')), 'active');
  const prepared = await call(site, 'POST', 'prepare');
  assert.equal(states(prepared), 'active prepared');
  assert.equal(prepared.bundle.sequence, 2);
  assert.equal(states(await call(site, 'POST', 'activate')), 'old active');
  const [old] = site.authority.authorities;
  assert.equal(
    states(await call(site, 'POST', 'taint', { id: old?.id.slice(0, 16) })),
    'tainted active',
  );
  const revoked = await call(site, 'POST', 'revoke', { id: old?.id });
  assert.equal(states(revoked), 'active');
  assert.equal(revoked.bundle.sequence, 3);
  assert.deepEqual(
    site.audited.map(({ verb, actor }) => `${verb} ${actor.user}`),
    ['prepare', 'activate', 'taint', 'revoke'].map(
      (verb) => `authority.${verb} ${socketOwner.user}`,
    ),
  );
});

test('JWT keys are asked for by kind', async () => {
  const site = await rotationSite();
  const status = await call(site, 'POST', 'prepare', { kind: 'jwt' });
  assert.equal(states(status, 'jwt'), 'active prepared');
  assert.equal(states(status), 'active');
});

test('a rotation is noted, and asked for twice it is the same one', async () => {
  const site = await rotationSite();
  const first = await call(site, 'POST', 'rotate', {});
  assert.equal(states(first), 'active prepared');
  assert.equal(first.rotation[0]?.waitsFor, 'spread');
  const second = await call(site, 'POST', 'rotate', {});
  assert.deepEqual(second.authorities, first.authorities);
  await site.clock.advance(600_000);
  await site.settle();
  assert.equal(states(await call(site, 'GET', '')), 'old active');
});

test('an emergency is over when it is answered', async () => {
  const site = await rotationSite();
  const before = site.authority.certificate.fingerprint;
  const status = await call(site, 'POST', 'rotate', { emergency: true, fresh: true });
  assert.equal(states(status), 'active');
  assert.notEqual(site.authority.certificate.fingerprint, before);
  assert.ok(site.audited.every(({ reason }) => reason?.endsWith('emergency')));
});

test('an emergency tells who was not known to hold what signs from then on', async () => {
  const site = await rotationSite();
  await site.store.commit({
    put: [
      { collection: 'spiffefederations', name: 'spire.example', encode: () => Buffer.from('{}') },
    ],
  });
  await site.peer('bruges.example', 'active', 'current');
  await site.peer('revoked.example', 'revoked', 'nothing');
  await call(site, 'POST', 'prepare');
  await site.peer('bruges.example', 'active', 'current');
  await site.peer('visby.example', 'active', 'nothing');
  const early = await call(site, 'GET', '');
  assert.deepEqual(early.emergencyLoses.prepared, ['visby.example', 'spire.example']);
  await site.clock.advance(600_000);
  const { emergencyLoses } = await call(site, 'GET', '');
  assert.deepEqual(emergencyLoses.prepared, ['visby.example']);
  assert.deepEqual(emergencyLoses.fresh, ['bruges.example', 'visby.example', 'spire.example']);
  const jwt = await call(site, 'POST', 'rotate', { kind: 'jwt', emergency: true, fresh: true });
  assert.deepEqual(jwt.rotation[1]?.wentOnWithout, []);
  await site.peer('bruges.example', 'active', 'current');
  const kept = await call(site, 'POST', 'rotate', { emergency: true });
  assert.deepEqual(kept.rotation[0]?.wentOnWithout, ['visby.example']);
  const lost = await call(site, 'POST', 'rotate', { emergency: true, fresh: true });
  assert.deepEqual(lost.rotation[0]?.wentOnWithout, emergencyLoses.fresh);
});

/** Roots live beyond any test. */
function rootFiles(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-rotation-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const certFile = join(folder, 'upstream.pem');
  const keyFile = join(folder, 'upstream.key');
  let made = 0;
  const replace = (): void => {
    const root = forge({ ca: true, subject: name('Root', String(made++)) });
    writeFileSync(certFile, certificatePem(root.der));
    writeFileSync(keyFile, privateKeyPem(exportPkcs8(root.key)));
  };
  replace();
  return { replace, upstream: { certFile, keyFile, bundleFile: undefined } };
}

test('below a root that stays nobody is lost and waited for; below another one they are', async (t) => {
  const { replace, upstream } = rootFiles(t);
  const site = await rotationSite(undefined, { upstream });
  await site.store.commit({
    put: [
      { collection: 'spiffefederations', name: 'spire.example', encode: () => Buffer.from('{}') },
    ],
  });
  await site.peer('visby.example', 'active', 'nothing');
  const nobody = { prepared: [], fresh: [] };
  assert.deepEqual((await call(site, 'GET', '')).emergencyLoses, nobody);
  assert.deepEqual((await call(site, 'POST', 'prepare')).emergencyLoses, nobody);
  await call(site, 'POST', 'rotate');
  await site.clock.advance(600_000);
  await site.settle();
  assert.equal(states(await call(site, 'GET', '')), 'old active');
  for (const fresh of [false, true]) {
    const { rotation } = await call(site, 'POST', 'rotate', { emergency: true, fresh });
    assert.deepEqual(rotation[0]?.wentOnWithout, []);
  }
  await call(site, 'POST', 'prepare');
  replace();
  const everybody = ['visby.example', 'spire.example'];
  const { emergencyLoses } = await call(site, 'GET', '');
  assert.deepEqual(emergencyLoses, { prepared: [], fresh: everybody });
  const lost = await call(site, 'POST', 'rotate', { emergency: true, fresh: true });
  assert.deepEqual(lost.rotation[0]?.wentOnWithout, everybody);
});

test('whoever may read the Site and its peers may look, and not act', async () => {
  const site = await rotationSite();
  const bind = (binding: string, role: string, user: string) => ({
    collection: 'rolebindings',
    name: binding,
    encode: () =>
      Buffer.from(JSON.stringify({ spec: { role, subjects: [{ kind: 'User', name: user }] } })),
  });
  await site.store.commit({ put: [bind('a', 'admin', 'alice'), bind('b', 'viewer', 'bob')] });
  for (const user of ['alice', 'bob']) {
    const caller: Caller = { user, groups: ['system:authenticated'], via: 'certificate' };
    assert.equal(states(await call(site, 'GET', '', '', caller)), 'active');
    await assert.rejects(call(site, 'POST', 'prepare', '', caller), (caught) =>
      hasCode(caught, 'HANSA_FORBIDDEN'),
    );
  }
});

test('only owners of the site may act, and strangers may not look', async () => {
  const site = await rotationSite();
  const reader: Caller = { ...socketOwner, user: 'eve', groups: ['editors'] };
  for (const caller of [anonymous, reader]) {
    for (const [method, segment] of [
      ['GET', ''],
      ['POST', 'prepare'],
      ['POST', 'rotate'],
    ] as const) {
      await assert.rejects(call(site, method, segment, '', caller), (caught) =>
        hasCode(caught, 'HANSA_FORBIDDEN'),
      );
    }
  }
  assert.deepEqual(site.phases(), ['active']);
});

for (const [what, code, segment, body] of [
  ['an unknown step', 'HANSA_NOT_FOUND', 'destroy', {}],
  ['no JSON', 'HANSA_BAD_REQUEST', 'prepare', '{'],
  ['a list', 'HANSA_BAD_REQUEST', 'prepare', '[]'],
  ['an unknown kind', 'HANSA_BAD_REQUEST', 'prepare', { kind: 'ssh' }],
  ['an unknown field', 'HANSA_BAD_REQUEST', 'rotate', { emergancy: true }],
  ['a flag that is none', 'HANSA_BAD_REQUEST', 'rotate', { emergency: 'yes' }],
  ['an id that is a number', 'HANSA_BAD_REQUEST', 'taint', { id: 7 }],
  ['a long id', 'HANSA_BAD_REQUEST', 'taint', { id: 'a'.repeat(200) }],
  ['an id of nothing', 'HANSA_NOT_FOUND', 'taint', { id: 'ffffffffffff' }],
  ['to activate where none is prepared', 'HANSA_AUTHORITY_STATE', 'activate', {}],
  ['to revoke where none is old', 'HANSA_AUTHORITY_STATE', 'revoke', {}],
] as const) {
  test(`${what} is refused (${code}), and changes nothing`, async () => {
    const site = await rotationSite();
    await assert.rejects(call(site, 'POST', segment, body), (caught) => hasCode(caught, code));
    assert.deepEqual(site.phases(), ['active']);
    assert.equal(site.audited.length, 0);
  });
}

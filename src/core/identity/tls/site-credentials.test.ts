import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '../../log/json-log.ts';
import {
  SiteCredentials,
  type SiteCredential,
  type SiteCredentialsOptions,
} from './site-credentials.ts';
import { Certificate } from '../x509/certificate.ts';
import { type TestSite, testSite } from '../authority/test-vault.ts';

const hourMs = 3_600_000;

async function start(
  site: Pick<TestSite, 'clock' | 'random'> & Pick<SiteCredentialsOptions, 'authority'>,
): Promise<SiteCredentials> {
  return SiteCredentials.start({
    ...site,
    log: createLog({
      clock: site.clock,
      sink: { write: () => {} },
      level: 'error',
      format: 'json',
    }),
    dnsNames: ['localhost'],
    ipAddresses: ['127.0.0.1', '::1'],
  });
}

const valid = (credential: SiteCredential, nowMs: number): boolean =>
  credential.notBeforeMs <= nowMs && nowMs <= credential.notAfterMs;

test('the first SVID is there at the start, with the names that clients verify', async () => {
  const credentials = await start(await testSite());
  const { id, chain } = credentials.current;
  assert.equal(id.toString(), 'spiffe://lubeck.example/hansa/site');
  const names = Certificate.parse(chain[0] as Buffer).extensions.subjectAlternativeName;
  assert.deepEqual(names?.dnsNames, ['localhost']);
  assert.deepEqual(names?.ipAddresses, ['127.0.0.1', '::1']);
  credentials.stop();
});

test('it is renewed before its half-life, with a new key, and listeners are told', async () => {
  const site = await testSite();
  const credentials = await start(site);
  const first = credentials.current;
  const renewed: SiteCredential[] = [];
  credentials.onRenewal((credential) => renewed.push(credential));
  await site.clock.advance(0.44 * hourMs);
  assert.equal(renewed.length, 0);
  await site.clock.advance(0.07 * hourMs);
  assert.equal(renewed.length, 1);
  assert.equal(renewed[0], credentials.current);
  assert.ok(!first.key.equals(credentials.current.key));
  credentials.stop();
});

test('over days it is valid at every minute', async () => {
  const site = await testSite();
  const credentials = await start(site);
  for (let minute = 0; minute < 2 * 24 * 60; minute += 1) {
    await site.clock.advance(60_000);
    assert.ok(valid(credentials.current, site.clock.now()), `at minute ${minute}`);
  }
  credentials.stop();
});

for (const [what, byMs] of [
  ['forwards', 5 * hourMs],
  ['backwards', -3 * hourMs],
] as const) {
  test(`a wall clock that jumps ${what} is noticed within a minute or so`, async () => {
    // A root that was there before the jump and is there after it.
    const site = await testSite();
    await site.clock.advance(10 * hourMs);
    const credentials = await start(site);
    site.clock.jumpWall(byMs);
    await site.clock.advance(61_000);
    assert.ok(valid(credentials.current, site.clock.now()));
    credentials.stop();
  });
}

test('a failure is retried with growing pauses, and the old SVID stays meanwhile', async () => {
  const site = await testSite();
  let broken = false;
  let attempts = 0;
  const authority: Parameters<typeof start>[0]['authority'] = {
    onChange: (listener) => site.authority.onChange(listener),
    isTainted: (id) => site.authority.isTainted(id),
    issueSite: (request) => {
      attempts++;
      if (broken) return Promise.reject(new Error('the key is away'));
      return site.authority.issueSite(request);
    },
  };
  const credentials = await start({ ...site, authority });
  const first = credentials.current;
  broken = true;
  await site.clock.advance(hourMs / 2 + 60_000);
  assert.equal(credentials.current, first);
  assert.ok(attempts > 3 && attempts < 12, `${attempts} attempts`);
  broken = false;
  await site.clock.advance(60_000);
  assert.notEqual(credentials.current, first);
  credentials.stop();
});

test('once stopped it renews no more', async () => {
  const site = await testSite();
  const credentials = await start(site);
  const { current } = credentials;
  credentials.stop();
  await site.clock.advance(hourMs);
  assert.equal(credentials.current, current);
});

test('renewals asked for at the same time are one', async () => {
  const credentials = await start(await testSite());
  let told = 0;
  credentials.onRenewal(() => told++);
  await Promise.all([credentials.renew(), credentials.renew()]);
  assert.equal(told, 1);
  credentials.stop();
});

test('activating another authority leaves the SVID alone until it is due', async () => {
  const site = await testSite();
  const credentials = await start(site);
  const first = credentials.current;
  await site.authority.prepare('x509', () => []);
  const made = await site.authority.activate('x509', undefined, () => []);
  await site.clock.advance(60_000);
  assert.equal(credentials.current, first);
  await site.clock.advance(0.5 * hourMs);
  assert.equal(credentials.current.authorityId, made.id);
  credentials.stop();
});

test('tainting the authority that signed it renews it at once', async () => {
  const site = await testSite();
  const credentials = await start(site);
  const renewed: SiteCredential[] = [];
  credentials.onRenewal((credential) => renewed.push(credential));
  await site.authority.prepare('x509', () => []);
  const made = await site.authority.activate('x509', undefined, () => []);
  await site.authority.taint('x509', undefined, () => []);
  await site.clock.advance(0);
  assert.deepEqual(
    renewed.map(({ authorityId }) => authorityId),
    [made.id],
  );
  // The next one is due at its own half-life, and not twice.
  await site.clock.advance(0.44 * hourMs);
  assert.equal(renewed.length, 1);
  credentials.stop();
});

test('an emergency leaves no SVID of the authority that is gone', async () => {
  const site = await testSite();
  const credentials = await start(site);
  const made = await site.authority.replaceAtOnce('x509', { fresh: true }, () => []);
  await site.clock.advance(0);
  assert.equal(credentials.current.authorityId, made.id);
  credentials.stop();
});

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { timestamp } from '../api/object.ts';
import { certificatePem } from '../core/identity/x509/pem.ts';
import { testSite } from '../core/identity/authority/test-vault.ts';
import type { TlsCredential } from '../core/identity/tls/options.ts';
import { MetricsRegistry } from '../core/metrics/registry.ts';
import { openStore } from '../core/store/open.ts';
import { observeExpiry } from './expiry-metrics.ts';

async function site() {
  const { authority, clock } = await testSite();
  const store = await openStore({ driver: 'memory' }, { clock });
  const metrics = new MetricsRegistry();
  const web: { current: TlsCredential | undefined } = { current: undefined };
  const workloads: { firstMs: number | undefined } = { firstMs: undefined };
  const inMs = (delayMs: number): number => clock.now() + delayMs;
  observeExpiry({
    metrics,
    clock,
    store,
    authority,
    web,
    firstWorkloadExpiryMs: () => workloads.firstMs,
    maxFederations: 50,
    credentials: { current: { notAfterMs: inMs(3_600_000) } },
  });
  /** Of one kind, by name. */
  const read = (kind: string): Readonly<Record<string, number>> =>
    Object.fromEntries(
      [...metrics.expose().matchAll(/^hansa_expiry_seconds\{([^}]*)\} (\S+)$/gm)]
        .map(([, labels = '', value]) => ({
          kind: /kind="([^"]*)"/.exec(labels)?.[1],
          name: /name="([^"]*)"/.exec(labels)?.[1] ?? '',
          value: Number(value),
        }))
        .filter((found) => found.kind === kind)
        .map(({ name, value }) => [name, value]),
    );
  const put = (collection: string, name: string, value: object) =>
    store.commit({
      put: [{ collection, name, encode: () => Buffer.from(JSON.stringify(value)) }],
    });
  return { authority, clock, web, workloads, read, put, inMs };
}

const federation = (...notAfter: readonly string[]): object => ({
  metadata: { name: 'bruges.example' },
  spec: { bundleSource: { static: { bundle: '{}' } } },
  status: { authorities: notAfter.map((at, i) => ({ fingerprint: String(i), notAfter: at })) },
});

describe('the expiry metrics', () => {
  test('tell of every authority of the site, and count down', async () => {
    const { authority, clock, read } = await site();
    const before = read('x509-authority');
    const names = Object.keys(before);
    assert.equal(names.length, 1);
    assert.ok(authority.certificate.fingerprint.startsWith(names[0] ?? 'nothing'));
    assert.equal(Object.keys(read('jwt-authority')).length, 1);
    await authority.prepare('x509', () => []);
    assert.equal(Object.keys(read('x509-authority')).length, 2);
    await clock.advance(60_000);
    const name = names[0] as string;
    assert.equal(Math.round((before[name] ?? 0) - (read('x509-authority')[name] ?? 0)), 60);
  });

  test('tell of the SVID of the site', async () => {
    const { read } = await site();
    assert.deepEqual(read('site-svid'), { site: 3600 });
  });

  test('tell of the certificate of the web listener once there is one', async () => {
    const { authority, web, read } = await site();
    assert.deepEqual(read('web-certificate'), {});
    const certificateChain = certificatePem(authority.certificate.der);
    web.current = { certificateChain, privateKey: '' };
    assert.deepEqual(Object.values(read('web-certificate')), Object.values(read('x509-authority')));
  });

  test('tell when the first SVID of a workload ends, while one is in use', async () => {
    const { workloads, read, inMs } = await site();
    assert.deepEqual(read('workload-svid'), {});
    workloads.firstMs = inMs(1_800_000);
    assert.deepEqual(read('workload-svid'), { first: 1800 });
  });

  test('tell of grants, of tokens for the API and of agents that have to renew, not of bots', async () => {
    const { put, read, inMs } = await site();
    const expiresAt = timestamp(inMs(3_600_000));
    await put('federationgrants', 'until-then', { spec: { expiresAt } });
    await put('federationgrants', 'for-ever', { spec: {} });
    await put('access.tokens', 'ci', { expiresAt });
    await put('trust.members', 'agent/crane-1', { role: 'agent', notAfterMs: inMs(3_600_000) });
    await put('trust.members', 'bot/ci/1', { role: 'bot', notAfterMs: inMs(3_600_000) });
    assert.deepEqual(Object.keys(read('grant')), ['until-then']);
    assert.deepEqual(Object.keys(read('access-token')), ['ci']);
    assert.deepEqual(read('agent'), { 'crane-1': 3600 });
  });

  test('tell when the last authority of another trust domain ends', async () => {
    const { put, read, inMs } = await site();
    await put(
      'spiffefederations',
      'bruges.example',
      federation(timestamp(inMs(7_200_000)), timestamp(inMs(3_600_000))),
    );
    const { 'bruges.example': left = 0 } = read('federated-authorities');
    assert.ok(left >= 7200 && left <= 7201, `${left} seconds`);
    await put('spiffefederations', 'bruges.example', federation());
    assert.deepEqual(read('federated-authorities'), {});
  });

  test('tell of join tokens that can still be used, the first hundred to end', async () => {
    const { put, read, inMs } = await site();
    const token = (delayMs: number) => ({ spec: { expiresAt: timestamp(inMs(delayMs)) } });
    for (let i = 1; i <= 150; i++) await put('jointokens', `token-${i}`, token(i * 60_000));
    await put('jointokens', 'spent', token(-60_000));
    await put('jointokens', 'for-ever', { spec: {} });
    const told = read('join-token');
    assert.equal(Object.keys(told).length, 100);
    assert.ok('token-1' in told && 'token-100' in told);
    assert.ok(!('token-101' in told || 'spent' in told || 'for-ever' in told));
  });
});

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { federationSite, type TestEndpoint } from './test-federation-site.ts';

const name = 'bruges.example';
let site: Awaited<ReturnType<typeof federationSite>>;
let peer: TestEndpoint;

beforeEach(async () => {
  site = await federationSite();
  peer = site.endpoint(name);
});

/** Time stands still, so what stops must not wait for it. */
afterEach(async () => {
  const stopped = site.stop();
  await site.clock.advance(60_000);
  await stopped;
});

const seconds = (count: number): Promise<void> => site.clock.advance(count * 1000);

test('metrics tell how many federations are in which state, and how old their bundles are', async () => {
  await site.create(name, peer.spec());
  const dead = site.endpoint('dead.example');
  dead.answer = () => 'refused';
  await site.create(dead.trustDomain, dead.spec({ quarantined: true }));
  await seconds(90);
  const text = site.metrics.expose();
  assert.match(text, /^hansa_federations\{state="fresh"\} 1$/m);
  assert.match(text, /^hansa_federations\{state="quarantined"\} 1$/m);
  assert.match(text, /^hansa_federation_bundle_age_seconds\{trust_domain="bruges.example"\} 90$/m);
  const staleIn =
    /^hansa_federation_bundle_stale_in_seconds\{trust_domain="bruges.example"\} 3810$/m;
  assert.match(text, staleIn);
});

test('metrics of a federation go with it, and those of one that comes back begin anew', async () => {
  const counted = (): readonly string[] =>
    site.metrics
      .expose()
      .match(/^spire_server_federation_bundle_refresh_\w+\{trust_domain="bruges.*$/gm) ?? [];
  await site.create(name, peer.spec());
  peer.answer = () => 'refused';
  await seconds(600);
  assert.ok(counted().some((line) => line.includes('_errors{')));
  await site.remove(name);
  await seconds(1);
  assert.deepEqual(counted(), []);
  peer.answer = () => peer.ok(peer.document([peer.root], 1));
  await site.create(name, peer.spec());
  await seconds(1);
  assert.ok(counted().some((line) => /refresh_count\{.*\} 1$/.test(line)));
});

test('a scrape reads the federations once, and the next one reads them again', async (t) => {
  const list = t.mock.method(site.store, 'list');
  for (const read of [1, 2]) {
    site.metrics.expose();
    assert.equal(list.mock.callCount(), read);
    await Promise.resolve();
  }
});

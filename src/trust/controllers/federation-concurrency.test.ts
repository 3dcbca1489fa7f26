import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { federationSite, type TestEndpoint } from '../federation/test-federation-site.ts';

let site: Awaited<ReturnType<typeof federationSite>>;

beforeEach(async () => {
  site = await federationSite();
});

/** Virtual time does not advance, so a stop must not wait for it. */
afterEach(async () => {
  const stopped = site.stop();
  await site.clock.advance(60_000);
  await stopped;
});

const seconds = (count: number): Promise<void> => site.clock.advance(count * 1000);

/** Enough to exhaust all slots. */
const crowd = 260;

/** Endpoints that accept a connection and never answer. */
async function federateWithSilentOnes(): Promise<readonly TestEndpoint[]> {
  const silent = Array.from({ length: crowd }, (_, at) => site.endpoint(`silent${at}.example`));
  for (const endpoint of silent) {
    endpoint.answer = () => 'silence';
    await site.create(endpoint.trustDomain, endpoint.spec());
  }
  return silent;
}

suite('hundreds of endpoints that are silent', () => {
  test('do not delay one that answers, at the very first look', async () => {
    const silent = await federateWithSilentOnes();
    const healthy = site.endpoint('bruges.example');
    await site.create(healthy.trustDomain, healthy.spec());
    // It waits for two slots of half a second, not for ten seconds.
    await seconds(1.1);
    assert.equal(healthy.requests, 1);
    assert.equal((await site.status(healthy.trustDomain)).sequence, 1);
    assert.ok(silent.every(({ requests }) => requests === 1));
  });

  test('leave one that answered before its own time', async () => {
    const healthy = site.endpoint('bruges.example');
    await site.create(healthy.trustDomain, healthy.spec());
    await seconds(1);
    const { nextSyncAt } = await site.status(healthy.trustDomain);
    await site.clock.advance(Date.parse(nextSyncAt ?? '') - site.clock.now() - 1);
    assert.equal(healthy.requests, 1);
    await federateWithSilentOnes();
    await site.clock.advance(1);
    assert.equal(healthy.requests, 2);
  });

  test('are each asked again in time, with all that failed at once', async () => {
    const silent = await federateWithSilentOnes();
    await seconds(15);
    const recovered = silent.at(-1) as TestEndpoint;
    recovered.answer = () => recovered.ok(recovered.document([recovered.root], 1));
    await seconds(60);
    assert.ok(silent.slice(0, -1).every(({ requests }) => requests >= 4));
    assert.equal((await site.status(recovered.trustDomain)).consecutiveFailures, 0);
  });
});

test('a federation that is deleted while it waits for its turn is not asked', async () => {
  await federateWithSilentOnes();
  const gone = site.endpoint('gone.example');
  await site.create(gone.trustDomain, gone.spec());
  await seconds(0.1);
  await site.remove(gone.trustDomain);
  await seconds(20);
  assert.equal(gone.requests, 0);
});

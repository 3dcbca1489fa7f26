import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import { federationSite, type TestEndpoint } from '../federation/test-federation-site.ts';

const name = 'bruges.example';
const bruges = TrustDomain.parse(name);
let site: Awaited<ReturnType<typeof federationSite>>;
let peer: TestEndpoint;

beforeEach(async () => {
  site = await federationSite();
  peer = site.endpoint(name);
});

/** Virtual time does not advance, so a stop must not wait for it. */
afterEach(async () => {
  const stopped = site.stop();
  await site.clock.advance(60_000);
  await stopped;
});

const seconds = (count: number): Promise<void> => site.clock.advance(count * 1000);
const held = (): readonly string[] =>
  site.bundles.bundleFor(bruges)?.authorities.map(({ fingerprint }) => fingerprint) ?? [];

/** A bundle that the endpoint does not serve. */
const takeInAnother = async (): Promise<void> => {
  await site.create(name, {
    bundleSource: { static: { bundle: peer.document([forgeRoot(name)], 9) } },
    staleAfterSeconds: 3600,
    quarantined: false,
  });
  await seconds(1);
};

suite('a static federation', () => {
  test('is taken in, never asked for and never stale', async () => {
    const bundle = peer.document([peer.root], 1);
    await site.create(name, {
      bundleSource: { static: { bundle } },
      staleAfterSeconds: 60,
      quarantined: false,
    });
    await seconds(1);
    const status = await site.status(name);
    assert.equal(status.bundle, bundle);
    assert.equal(status.nextSyncAt, undefined);
    await seconds(7200);
    assert.equal((await site.condition(name, 'Fresh'))?.status, 'True');
    assert.equal(await site.condition(name, 'EndpointReachable'), undefined);
    assert.equal(peer.requests, 0);
  });

  test('is believed by its new source at once when it becomes one with an endpoint', async () => {
    await takeInAnother();
    await site.change(name, () => peer.spec());
    assert.deepEqual(held(), [peer.root.certificate.fingerprint]);
    await seconds(1);
    assert.equal((await site.status(name)).sequence, 1);
    assert.equal((await site.status(name)).source, 'https_spiffe');
  });

  test('stays forgotten where the endpoint that took its place does not answer', async () => {
    await takeInAnother();
    const { answer } = peer;
    peer.answer = () => 'refused';
    await site.change(name, () => peer.spec());
    await seconds(5);
    assert.deepEqual(held(), [peer.root.certificate.fingerprint]);
    assert.equal((await site.status(name)).sequence, undefined);
    peer.answer = answer;
    await seconds(10);
    assert.equal((await site.status(name)).sequence, 1);
    assert.equal((await site.condition(name, 'Ready'))?.status, 'True');
  });

  test('tells nothing of the endpoint that it had before', async () => {
    await site.create(name, peer.spec());
    await seconds(1);
    await site.change(name, (spec) => ({
      ...spec,
      bundleSource: { static: { bundle: peer.document([peer.root], 2) } },
    }));
    await seconds(1);
    assert.equal((await site.status(name)).sequence, 2);
    assert.equal(await site.condition(name, 'EndpointReachable'), undefined);
  });

  test('may be replaced by an older one, since an operator did it', async () => {
    const spec = (sequence: number) => ({
      bundleSource: { static: { bundle: peer.document([peer.root], sequence) } },
      staleAfterSeconds: 3600,
      quarantined: false,
    });
    await site.create(name, spec(9));
    await seconds(1);
    await site.change(name, () => spec(3));
    await seconds(1);
    assert.equal((await site.status(name)).sequence, 3);
  });
});

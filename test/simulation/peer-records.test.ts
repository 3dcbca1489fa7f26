// A revoked peer stays revoked, regardless of its finalizers and of how its object was created,
// because handshake records belong to the uid of the peer that they created.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { acceptancesCollection } from '../../src/peering/handshake/records.ts';
import { writeRow } from './disk.ts';
import { leaseMs } from './thread/site.ts';
import { bruges, lubeck, TwoSites } from './thread/two-sites.ts';

const by = { controller: 'operator' };
const spec = (name: string) => ({ url: `https://${name}:8443`, desiredState: 'active' as const });
/** Longer than leases, retries and heartbeats. */
const longMs = 15_000;

suite('a peer that was ended', () => {
  for (const [role, here, there] of [
    ['acceptor', bruges, lubeck],
    ['inviter', lubeck, bruges],
  ] as const) {
    const scene = async (declared: boolean): Promise<TwoSites> => {
      const sites = await TwoSites.start(`ended/${role}`);
      if (declared) {
        await sites.done(sites.peers(here).create({ name: there, spec: spec(there) }, by));
      }
      await sites.peer(lubeck, bruges);
      return sites;
    };
    const strip = (sites: TwoSites) =>
      sites.done(sites.peers(here).removeFinalizer(there, 'hansa.dev/peering', by));
    const remove = (sites: TwoSites) => sites.done(sites.operators.deletePeer(here, there));
    const staysGone = async (sites: TwoSites): Promise<void> => {
      await sites.simulation.run(longMs);
      assert.equal(await sites.peers(here).get(there), undefined);
      assert.equal(sites.world.believes(sites.site(here), there), false);
      assert.equal(sites.site(here).store.get(acceptancesCollection, there), undefined);
    };

    test(`as ${role}: declared by a manifest, revoked and deleted, stays gone`, async () => {
      const sites = await scene(true);
      await sites.done(sites.operators.revoke(here, there));
      await remove(sites);
      await staysGone(sites);
    });

    test(`as ${role}: declared by a manifest and deleted, stays gone`, async () => {
      const sites = await scene(true);
      await remove(sites);
      await staysGone(sites);
    });

    test(`as ${role}: without its finalizer when it is revoked and deleted, stays gone`, async () => {
      const sites = await scene(false);
      await strip(sites);
      await sites.done(sites.operators.revoke(here, there));
      await remove(sites);
      await staysGone(sites);
    });

    test(`as ${role}: deleted and declared again, has none of the old trust`, async () => {
      const sites = await scene(true);
      await remove(sites);
      await sites.until(
        async () => (await sites.peers(here).get(there)) === undefined,
        'it is gone',
      );
      await sites.done(sites.peers(here).create({ name: there, spec: spec(there) }, by));
      await sites.simulation.run(longMs);
      assert.equal(sites.state(here, there), undefined);
      assert.equal(sites.world.believes(sites.site(here), there), false);
      await sites.done(sites.operators.revoke(there, here));
      await sites.peer(lubeck, bruges);
    });

    test(`as ${role}: an active peer gets its finalizer back`, async () => {
      const sites = await scene(false);
      await strip(sites);
      await sites.until(async () => {
        const { finalizers } = (await sites.peers(here).get(there))?.metadata ?? {};
        return finalizers?.includes('hansa.dev/peering') === true;
      }, 'the finalizer is back');
    });

    test(`as ${role}: its object removed from the store while the site is down, stays gone`, async () => {
      const sites = await scene(false);
      sites.world.crash(here, 100);
      const disk = sites.world.database(here).copy();
      writeRow(disk, 'federationpeers', there, undefined);
      sites.world.putBack(here, disk);
      await sites.until(async () => sites.world.site(here) !== undefined, 'it is up again');
      assert.equal(sites.world.believes(sites.site(here), there), false);
      await staysGone(sites);
    });
  }

  test('is distrusted at once by a site that waits for its leases after a crash', async () => {
    for (const end of ['suspend', 'delete', 'delete without finalizer'] as const) {
      const sites = await TwoSites.start(`waits/${end}`);
      await sites.peer(lubeck, bruges);
      sites.world.crash(lubeck, 100);
      await sites.until(async () => sites.world.site(lubeck) !== undefined, 'it is up again');
      if (end === 'suspend') {
        await sites.done(sites.operators.desire(lubeck, bruges, 'suspended'));
      } else {
        if (end !== 'delete') await sites.done(sites.operators.removeFinalizer(lubeck, bruges));
        await sites.done(sites.operators.deletePeer(lubeck, bruges));
      }
      const tookMs = await sites.until(
        async () => !sites.world.believes(sites.site(lubeck), bruges),
        'it is distrusted',
      );
      assert.ok(tookMs < leaseMs / 4, `${end} took ${tookMs} ms`);
    }
  });

  test('is made by the invitation that was accepted after its revocation', async () => {
    const sites = await TwoSites.start('replaced');
    await sites.peer(lubeck, bruges);
    await sites.done(sites.operators.revoke(bruges, lubeck));
    await sites.done(sites.operators.revoke(lubeck, bruges));
    await sites.peer(lubeck, bruges);
  });
});

// A site stops trusting a peer: how soon that reaches every place of the site, and what a resume gives back.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { federationGrantKind } from '../../src/api/kinds/federation-grant.ts';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { TrustDomain } from '../../src/api/values/trust-domain.ts';
import type { ThreadSite } from './thread/site.ts';
import { bruges, lubeck, TwoSites } from './thread/two-sites.ts';

/** The requirement, for everything that is connected. */
const withinMs = 1000;
/** Longer than silence. */
const longMs = 15_000;
/** Longer than the time between two fetches of a bundle. */
const untilFetchedMs = 400_000;

suite('a peer that is stopped', () => {
  const peerOf = async (sites: TwoSites) => {
    const peer = await sites.peers(lubeck).get(bruges);
    assert.ok(peer !== undefined);
    return peer;
  };

  for (const how of ['suspended', 'revoked'] as const) {
    for (const isDark of [false, true]) {
      const dark = isDark ? ', with the peer dark' : '';
      test(`${how}, is rejected at every place within a second${dark}`, async () => {
        const sites = await TwoSites.start(`stopped/${how}/${isDark}`);
        await sites.peer(lubeck, bruges);
        if (isDark) sites.simulation.network.partition([lubeck], [bruges]);
        const { clock } = sites.simulation;
        const startedMs = clock.monotonic();
        await sites.done(
          how === 'suspended'
            ? sites.operators.desire(lubeck, bruges, 'suspended')
            : sites.operators.revoke(lubeck, bruges),
        );
        await sites.until(async () => {
          const { state, enforcement = [] } = (await peerOf(sites)).status ?? {};
          return state === how && enforcement.length > 0 && enforcement.every(isEnforced);
        }, 'every place rejects it');
        const tookMs = clock.monotonic() - startedMs;
        assert.ok(tookMs <= withinMs, `it took ${tookMs} ms`);
        assert.equal(sites.world.believes(sites.site(lubeck), bruges), false);
        // The world fails where the site answers a heartbeat of the peer now.
        await sites.simulation.run(longMs);
      });
    }
  }

  for (const rotating of [[lubeck], [lubeck, bruges]]) {
    test(`returns as it was after ${rotating.join(' and ')} replaced the authorities`, async () => {
      const sites = await TwoSites.start(`resumed/${rotating.join()}`);
      await sites.peer(lubeck, bruges);
      await sites.done(offerTo(sites.site(lubeck)));
      const offers = async () => (await sites.peers(bruges).get(lubeck))?.status?.offers;
      await sites.until(async () => (await offers())?.length === 1, 'bruges knows its grant');
      const [before, offered] = [await peerOf(sites), await offers()];
      await sites.done(sites.operators.desire(lubeck, bruges, 'suspended'));
      for (const verb of ['prepare', 'activate', 'taint', 'revoke']) {
        for (const name of rotating) {
          assert.equal(await sites.done(sites.operators.rotate(name, verb)), 'ok', verb);
        }
        await sites.simulation.run(untilFetchedMs);
      }
      assert.equal(sites.world.believes(sites.site(lubeck), bruges), false);
      await sites.done(sites.operators.desire(lubeck, bruges, 'active'));
      await sites.untilActive();
      const { spec, status } = await peerOf(sites);
      assert.deepEqual(spec, before.spec);
      const kept = ['role', 'invitation', 'contractVersion', 'acceptance', 'capabilities'] as const;
      for (const field of kept) assert.deepEqual(status?.[field], before.status?.[field], field);
      assert.equal(status?.enforcement, undefined);
      for (const [site, other] of [
        [lubeck, bruges],
        [bruges, lubeck],
      ] as const) {
        await sites.until(async () => {
          const held = sites.site(site).bundles.bundleFor(TrustDomain.parse(other));
          return held?.hash === sites.site(other).authority.bundle.hash;
        }, `${site} holds the bundle of ${other}`);
      }
      assert.deepEqual(await offers(), offered);
    });
  }
});

async function offerTo(site: ThreadSite): Promise<void> {
  const by = { controller: 'operator' };
  const spec = { spiffeID: `spiffe://${lubeck}/db` };
  await site.resources(serviceOfferKind).create({ name: 'db', spec }, by);
  const open = { unrestricted: true };
  const axes = { nodeInstances: open, networks: open, sourceCIDRs: open };
  const grant = { peer: bruges, offers: ['db'], scopes: ['read'], ...axes };
  await site.resources(federationGrantKind).create({ name: 'db', spec: grant }, by);
}

function isEnforced({ state }: { readonly state: string }): boolean {
  return state === 'enforced';
}

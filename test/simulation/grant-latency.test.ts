// A peer learns of a grant at once, however often grants change, and a burst of changes needs few
// messages.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { federationGrantKind } from '../../src/api/kinds/federation-grant.ts';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { paths } from '../../src/peering/messages.ts';
import { bruges, lubeck, TwoSites } from './thread/two-sites.ts';

const by = { controller: 'operator' };
const aimMs = 200;

async function grant(sites: TwoSites, offer: string): Promise<void> {
  const site = sites.site(lubeck);
  await site
    .resources(serviceOfferKind)
    .create({ name: offer, spec: { spiffeID: `spiffe://${lubeck}/${offer}` } }, by);
  await site.resources(federationGrantKind).create(
    {
      name: `${bruges}-${offer}`,
      spec: {
        peer: bruges,
        offers: [offer],
        nodeInstances: { ids: [`spiffe://${bruges}/web`] },
        networks: { unrestricted: true },
        sourceCIDRs: { unrestricted: true },
      },
    },
    by,
  );
}

function untilKnown(sites: TwoSites, count: number): Promise<number> {
  return sites.until(async () => {
    const peer = await sites.peers(bruges).get(lubeck);
    return peer?.status?.offers?.length === count;
  }, `${count} offers are known`);
}

test('a peer knows every grant at once, however many came before', async () => {
  const sites = await TwoSites.start('grants');
  await sites.peer(lubeck, bruges);
  for (let count = 1; count <= 40; count++) {
    await sites.done(grant(sites, `offer-${count}`));
    const tookMs = await untilKnown(sites, count);
    assert.ok(tookMs < aimMs, `grant ${count} took ${tookMs} ms`);
  }
});

test('a peer knows a grant at once, however often the two sites parted before', async () => {
  const sites = await TwoSites.start('rounds');
  for (let round = 1; round <= 12; round++) {
    await sites.peer(lubeck, bruges);
    await sites.done(grant(sites, 'db'));
    const tookMs = await untilKnown(sites, 1);
    assert.ok(tookMs < aimMs, `the grant of round ${round} took ${tookMs} ms`);
    const grants = sites.site(lubeck).resources(federationGrantKind);
    await sites.done(grants.delete(`${bruges}-db`, by));
    await sites.done(sites.site(lubeck).resources(serviceOfferKind).delete('db', by));
    await sites.done(sites.operators.deletePeer(lubeck, bruges));
    await sites.done(sites.operators.deletePeer(bruges, lubeck));
    await sites.until(
      async () =>
        (await sites.peers(lubeck).get(bruges)) === undefined &&
        (await sites.peers(bruges).get(lubeck)) === undefined,
      'both have forgotten the other',
    );
  }
});

test('a burst of grants takes few messages', async () => {
  const sites = await TwoSites.start('burst');
  await sites.peer(lubeck, bruges);
  await sites.simulation.run(5000);
  const before = sites.answered(paths.heartbeat);
  await sites.done(
    Promise.all(Array.from({ length: 100 }, (_, at) => grant(sites, `offer-${at}`))),
  );
  await untilKnown(sites, 100);
  const took = sites.answered(paths.heartbeat) - before;
  assert.ok(took <= 6, `${took} heartbeats for 100 grants`);
});

test('a grant that could not be told at once is told with a later heartbeat', async () => {
  const sites = await TwoSites.start('lost');
  await sites.peer(lubeck, bruges);
  sites.simulation.network.partition([lubeck], [bruges]);
  await sites.done(grant(sites, 'db'));
  await sites.simulation.run(1000);
  sites.simulation.network.heal();
  await untilKnown(sites, 1);
});

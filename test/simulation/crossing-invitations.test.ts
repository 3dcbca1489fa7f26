// Crossing invitations: two operators invite each other, both accept, and the result is one
// peering.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { bruges, lubeck, TwoSites } from './thread/two-sites.ts';

suite('crossing invitations', () => {
  const invite = async (sites: TwoSites, meant: boolean) => {
    const ofLubeck = await sites.done(sites.operators.invite(lubeck, meant ? bruges : undefined));
    const ofBruges = await sites.done(sites.operators.invite(bruges, meant ? lubeck : undefined));
    return { ofLubeck, ofBruges };
  };
  const accept = (sites: TwoSites, name: string, line: string | undefined) =>
    sites.operators.ask(name, 'accept', { invitation: line });
  const isOne = async (sites: TwoSites): Promise<void> => {
    await sites.untilActive();
    await sites.simulation.run(10_000);
    const { witness } = sites.world;
    const here = witness.peer(lubeck, bruges);
    const there = witness.peer(bruges, lubeck);
    assert.deepEqual([here?.state, there?.state], ['active', 'active']);
    assert.equal(here?.invitation, there?.invitation);
    assert.notEqual(here?.role, there?.role);
  };

  for (const meant of [true, false]) {
    const kind = meant ? 'made for one site' : 'made for any site';
    // Apart by less and by more than a message, a redemption and a peering take.
    for (const apartMs of [0, 3, 8, 15, 30, 60, 120, 2000, -3, -8, -15, -30, -60, -120, -2000]) {
      test(`${kind}, accepted ${apartMs} ms apart, end in one peering`, async () => {
        const sites = await TwoSites.start(`crossing/${meant}/${apartMs}`);
        const { ofLubeck, ofBruges } = await invite(sites, meant);
        const first =
          apartMs < 0
            ? () => accept(sites, bruges, ofLubeck)
            : () => accept(sites, lubeck, ofBruges);
        const second =
          apartMs < 0
            ? () => accept(sites, lubeck, ofBruges)
            : () => accept(sites, bruges, ofLubeck);
        const one = first();
        if (apartMs !== 0) await sites.simulation.run(Math.abs(apartMs));
        const answers = await sites.done(Promise.all([one, second()]));
        for (const answer of answers) {
          // Whoever comes when the two are peers already is told so.
          assert.ok([undefined, 'HANSA_PEER_STATE'].includes(answer?.code), answer?.code);
        }
        await isOne(sites);
      });
    }
  }

  test('of a site that waits for a confirmation: accepting its invitation confirms it', async () => {
    const sites = await TwoSites.start('confirms');
    const { ofLubeck, ofBruges } = await invite(sites, false);
    await sites.done(accept(sites, bruges, ofLubeck));
    await sites.simulation.run(5000);
    assert.equal(sites.state(lubeck, bruges), 'proposed');
    const answer = await sites.done(accept(sites, lubeck, ofBruges));
    assert.equal(answer?.code, undefined);
    await isOne(sites);
  });

  test('while one site crashes end in one peering', async () => {
    for (const [at, dead] of [20, 40, 60, 80].flatMap((ms) => [
      [ms, lubeck] as const,
      [ms, bruges] as const,
    ])) {
      const sites = await TwoSites.start(`crash/${at}/${dead}`);
      const { ofLubeck, ofBruges } = await invite(sites, true);
      const both = Promise.all([accept(sites, lubeck, ofBruges), accept(sites, bruges, ofLubeck)]);
      await sites.simulation.run(at);
      sites.world.crash(dead, 200);
      await sites.done(both);
      // Whoever died before writing it down accepts again.
      await sites.until(async () => sites.world.site(dead) !== undefined, 'it is up again');
      await sites.done(accept(sites, dead, dead === lubeck ? ofBruges : ofLubeck));
      await isOne(sites);
    }
  });
});

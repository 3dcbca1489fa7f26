// A peer floods a site with requests: the site rejects those above the rate limit before it reads them,
// and serves all others.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { maxAnnouncementBytes, maxHeartbeatBytes, paths } from '../../src/peering/messages.ts';
import { messageCost, messageLimit } from '../../src/peering/timing.ts';
import { encodeChain } from './site-transport.ts';
import { bruges, lubeck, TwoSites } from './thread/two-sites.ts';

interface Answer {
  readonly status: number;
  readonly reason?: string;
  readonly message?: string;
}

/** As bruges says it to lubeck, over a connection of its own. */
async function say(sites: TwoSites, path: string, message: object): Promise<Answer> {
  const { process, credentials } = sites.site(bruges);
  const { life } = (await process.transport.request(lubeck, '/hello', {})) as { life: number };
  const answer = (await process.transport.request(lubeck, path, {
    method: 'POST',
    chain: encodeChain(credentials.current.chain),
    life,
    headers: {},
    body: Buffer.from(JSON.stringify(message)).toString('base64'),
  })) as { readonly status: number; readonly body: string };
  const text = Buffer.from(answer.body, 'base64').toString('utf8');
  const said = text === '' ? {} : (JSON.parse(text) as Omit<Answer, 'status'>);
  return { ...said, status: answer.status };
}

const heartbeat = (bytes: number) => {
  const message = { contractVersion: 1, bundleSequence: 0, offers: [], padding: '' };
  return { ...message, padding: 'x'.repeat(bytes - JSON.stringify(message).length) };
};

suite('a peer that floods', () => {
  const flood = async (sites: TwoSites, path: string, messages: readonly object[]) => {
    const answers = await sites.done(
      Promise.all(messages.map((message) => say(sites, path, message))),
    );
    const taken = answers.filter(({ status }) => status < 300).length;
    return { answers, taken };
  };

  for (const [what, bytes] of [
    ['large', maxHeartbeatBytes],
    ['small', 100],
  ] as const) {
    test(`with ${what} heartbeats has a share of them taken, and is told why not the others`, async () => {
      const sites = await TwoSites.start(`flood/${what}`);
      // Its heartbeats say nothing about its log.
      sites.world.logs.suspects.add(bruges);
      await sites.peer(lubeck, bruges);
      const messages = Array.from({ length: 1000 }, () => heartbeat(bytes));
      const { answers, taken } = await flood(sites, paths.heartbeat, messages);
      const cost = Math.max(bytes, messageCost);
      assert.ok(taken >= 1 && taken <= (messageLimit.burst + messageLimit.perSecond) / cost);
      const refused = answers.find(({ status }) => status >= 300);
      assert.equal(refused?.status, 429);
      assert.equal(refused.reason, 'TooManyRequests');
      assert.match(
        refused.message ?? '',
        /bruges\.example: the rate limit of a peer is 64 KiB per second/,
      );
      await sites.simulation.run(10_000);
      assert.equal(sites.state(lubeck, bruges), 'active');
      assert.equal((await sites.done(say(sites, paths.heartbeat, heartbeat(bytes)))).status, 200);
    });
  }

  test('with announcements is refused alike', async () => {
    const sites = await TwoSites.start('flood/announcements');
    await sites.peer(lubeck, bruges);
    const messages = Array.from({ length: 1000 }, () => ({ bundleSequence: 1 }));
    const { taken } = await flood(sites, paths.announce, messages);
    assert.ok(taken <= (messageLimit.burst + messageLimit.perSecond) / messageCost);
  });

  test('with messages above their size has none taken', async () => {
    const sites = await TwoSites.start('flood/size');
    await sites.peer(lubeck, bruges);
    const large = heartbeat(maxHeartbeatBytes + 1);
    assert.equal((await sites.done(say(sites, paths.heartbeat, large))).status, 413);
    const announcement = { bundleSequence: 1, padding: 'x'.repeat(maxAnnouncementBytes) };
    assert.equal((await sites.done(say(sites, paths.announce, announcement))).status, 413);
  });
});

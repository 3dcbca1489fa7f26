// Which peers witness the audit logs of each other: a site can stay out of it (peering.witness).

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { WitnessedSummary } from '../../src/peering/routes/witness-routes.ts';
import { temporaryFolder } from './daemon.ts';
import { PeeringSite } from './peering-pair.ts';
import { until } from './until.ts';

suite('a site with peering.witness: no', () => {
  const folder = temporaryFolder();
  const lubeck = new PeeringSite(folder, 'lubeck', ['--peering-witness', 'no']);
  const bruges = new PeeringSite(folder, 'bruges');
  const novgorod = new PeeringSite(folder, 'novgorod');

  const witnessed = async (site: PeeringSite): Promise<readonly WitnessedSummary[]> => {
    const { logs } = JSON.parse(await site.must(['witness', 'list', '-o', 'json'])) as {
      readonly logs: readonly WitnessedSummary[];
    };
    return logs;
  };

  before(async () => {
    await Promise.all([lubeck.start(), bruges.start(), novgorod.start()]);
    // The site is the acceptor once, and once the inviter: each sends the key of its log.
    for (const [inviter, acceptor] of [
      [lubeck, bruges],
      [novgorod, lubeck],
      [bruges, novgorod],
    ] as const) {
      const { code, stderr } = await acceptor.accept(
        await inviter.invite(['--for', acceptor.name]),
      );
      assert.equal(code, 0, stderr);
    }
  });
  after(() => Promise.all([lubeck.stop(), bruges.stop(), novgorod.stop()]));

  test('has peers that witness each other, and neither witnesses nor is witnessed', async () => {
    for (const [site, peer] of [
      [bruges, novgorod],
      [novgorod, bruges],
    ] as const) {
      await until(async () => {
        const log = (await witnessed(site)).find(({ name }) => name === peer.name);
        return log !== undefined && log.events > 0 && log.cosigned.events > 0;
      });
    }
    const beat = (await lubeck.peer('bruges.example'))?.lastSeen;
    await until(async () => (await lubeck.peer('bruges.example'))?.lastSeen !== beat);
    assert.deepEqual(await witnessed(lubeck), []);
    for (const [site, peer] of [
      [bruges, novgorod],
      [novgorod, bruges],
    ] as const) {
      assert.deepEqual(
        (await witnessed(site)).map(({ name }) => name),
        [peer.name],
      );
      const shown = await site.must(['get', 'federationpeers', 'lubeck.example', '-o', 'yaml']);
      assert.match(shown, /state: active/);
      assert.doesNotMatch(shown, /AuditLogWitnessed/);
    }
  });
});

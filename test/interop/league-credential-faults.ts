// Tests for the suite of faults: with what a site authenticates to members, and what happens while they reject it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { siteUser } from '../../src/core/kube/manifests/manifest.ts';
import { type FaultScene, removeFrom } from './league-fault-scene.ts';
import {
  changeMember,
  expiredTokenFor,
  homes,
  putSecret,
  systemNamespace,
  tokenFor,
  trustDomainOf,
} from './league-members.ts';
import { untilCopies } from './league-services.ts';

export function credentialFaults(scene: () => FaultScene): void {
  test('a member that trusts the OIDC issuer of a site is led with its JWT-SVID, without a Secret', async () => {
    const { league, clusters, logs } = scene();
    const path = `/api/v1/namespaces/${systemNamespace}/secrets/south`;
    const { status } = await clusters[homes.lubeck].client.send({ method: 'GET', path });
    assert.equal(status, 404);
    await scene().makeLeader('south', league.site('lubeck'));
    const before = logs.south.writes().length;
    await untilCopies([clusters.south], 'northern', await scene().change('north'));
    const users = logs.south
      .writes()
      .slice(before)
      .filter(({ code }) => code < 300)
      .map(({ user }) => user);
    assert.deepEqual([...new Set(users)], [siteUser(trustDomainOf('lubeck'))]);
  });

  test('a wrong CA is reported, and a corrected one is used', async () => {
    const { league, clusters } = scene();
    const lubeck = league.site('lubeck');
    await changeMember(clusters.north, 'south', { caBundle: clusters.north.ca });
    await scene().untilState(lubeck, 'south', 'Unreachable', 'BadCertificate');
    await changeMember(clusters.north, 'south', { caBundle: clusters.south.ca });
    await scene().equal();
  });

  test('an expired token is reported, and a new one in the same Secret is used', async () => {
    const { league, clusters, all } = scene();
    const { north, west } = clusters;
    const [lubeck, bruges] = [league.site('lubeck'), league.site('bruges')];
    const token = await expiredTokenFor(west, 'lubeck');
    // The site may read it, and does so at once, because it has not read it before.
    await putSecret(north, 'south', { token, 'ca.crt': west.ca });
    await changeMember(north, 'west', { secret: 'south' });
    await scene().untilState(lubeck, 'west', 'Unreachable', 'Unauthorized');
    const { message = '' } = (await lubeck.members()).get('west') ?? {};
    assert.match(message, /rejects the credential of this site.*new token into the Secret of west/);
    assert.ok(!message.includes(token));
    // No other site and no other member is delayed.
    await scene().untilLed('west', bruges);
    await untilCopies(all, 'northern', await scene().change('north'));
    await putSecret(north, 'south', { token: await tokenFor(west, 'lubeck'), 'ca.crt': west.ca });
    await scene().equal();
    await changeMember(north, 'west', { secret: 'west' });
    await removeFrom(north, `/api/v1/namespaces/${systemNamespace}/secrets/south`);
    await scene().equal();
  });
}

// Tests for the suite of faults: with what a site authenticates to members, and what happens while they reject it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { siteUser } from '../../src/core/kube/manifests/manifest.ts';
import { renewSecret } from './league.ts';
import type { FaultScene } from './league-fault-scene.ts';
import {
  expiredTokenFor,
  homes,
  putSecret,
  systemNamespace,
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

  test('a wrong CA and an expired token are reported, and a corrected Secret is used', async () => {
    const { league, clusters, all } = scene();
    const { north, west } = clusters;
    const [lubeck, bruges] = [league.site('lubeck'), league.site('bruges')];
    const token = await expiredTokenFor(west, 'lubeck');
    await putSecret(north, 'west', { token, 'ca.crt': north.ca });
    // A running site reads a Secret again when its content is rejected, or after minutes.
    await lubeck.end('SIGTERM');
    await lubeck.start();
    await scene().untilState(lubeck, 'west', 'Unreachable', 'BadCertificate');
    await putSecret(north, 'west', { token, 'ca.crt': west.ca });
    await scene().untilState(lubeck, 'west', 'Unreachable', 'Unauthorized');
    const { message = '' } = (await lubeck.members()).get('west') ?? {};
    assert.match(message, /rejects the credential of this site.*new token into the Secret of west/);
    assert.ok(!message.includes(token));
    // No other site and no other member is delayed.
    await scene().untilLed('west', bruges);
    await untilCopies(all, 'northern', await scene().change('north'));
    await renewSecret(lubeck, clusters, 'west');
    await scene().equal();
  });
}

// Faults of a league on three real clusters with two supervisors: after each of them, all members are equal
// again, and no leader of an old term has changed what a newer one wrote.

import { after, afterEach, before, suite } from 'node:test';
import { leagueTools } from './league.ts';
import { credentialFaults } from './league-credential-faults.ts';
import { FaultScene } from './league-fault-scene.ts';
import { memberFaults } from './league-member-faults.ts';
import { tail } from './league-site.ts';
import { supervisorFaults } from './league-supervisor-faults.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools(...leagueTools);

suite('faults of a league', { skip }, () => {
  let scene: FaultScene;

  before(async () => {
    scene = await FaultScene.start();
  });
  afterEach((context) => {
    if (!('passed' in context) || context.passed) return;
    for (const site of scene.league.sites.values()) console.error(tail(site));
  });
  after(async () => {
    await scene?.stop();
  });

  supervisorFaults(() => scene);
  memberFaults(() => scene);
  credentialFaults(() => scene);
});

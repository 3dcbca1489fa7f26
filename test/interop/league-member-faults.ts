// Tests for the suite of faults: members whose API server is away, and that lose objects or their whole history.

import assert from 'node:assert/strict';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../e2e/until.ts';
import { renewSecret } from './league.ts';
import { type FaultScene, removeFrom } from './league-fault-scene.ts';
import { federate, shop, systemNamespace, tokenFor } from './league-members.ts';
import { untilCopies } from './league-services.ts';

const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases/hansa-leader`;

export function memberFaults(scene: () => FaultScene): void {
  const untilEpochAbove = (epoch: number): Promise<void> =>
    until(async () => (await scene().epochOf('west')) > epoch, `an epoch above ${epoch}`);

  test('a member whose API server was away catches up, and delays no other', async () => {
    const { north, south, west } = scene().clusters;
    await west.restart(async () => {
      await untilCopies([north, south], 'northern', await scene().change('north'));
      await scene().untilState(scene().league.site('lubeck'), 'west', 'Unreachable');
    });
    await scene().equal();
  });

  test('a member whose API server was silent catches up, and delays no other', async () => {
    const { north, south, west } = scene().clusters;
    const { apiserver } = west.pids;
    process.kill(apiserver, 'SIGSTOP');
    try {
      await untilCopies([north, south], 'northern', await scene().change('north'));
      for (const site of scene().league.sites.values()) {
        await scene().untilState(site, 'west', 'Unreachable');
      }
    } finally {
      process.kill(apiserver, 'SIGCONT');
    }
    await scene().equal();
  });

  test('a deleted Lease does not bring an epoch back', async () => {
    const epoch = await scene().epochOf('west');
    await scene().clusters.west.send('DELETE', leasePath);
    await untilEpochAbove(epoch);
    await scene().equal();
  });

  test('a member that was restored from an old backup gets a later epoch and the current copies', async () => {
    const { folder, ownEtcd, logs } = scene();
    const { west } = scene().clusters;
    const backup = join(folder, 'backup');
    await west.restart(() => ownEtcd.restart((data) => cp(data, backup, { recursive: true })));
    // A new term, after the backup.
    const saved = await scene().epochOf('west');
    await west.send('DELETE', leasePath);
    await untilEpochAbove(saved);
    await scene().equal();
    const epoch = await scene().epochOf('west');
    await west.restart(() =>
      ownEtcd.restart(async (data) => {
        logs.west.forget();
        await rm(data, { recursive: true });
        await cp(backup, data, { recursive: true });
      }),
    );
    await untilEpochAbove(epoch);
    await scene().equal();
  });

  test('a namespace that was deleted under us gets its copies again when it is back', async () => {
    const { league, clusters, all } = scene();
    await removeFrom(clusters.west, `/api/v1/namespaces/${shop}`);
    await untilCopies(all, 'northern', await scene().change('north'));
    await league.install('west');
    await scene().equal();
  });

  test('the system namespace and CRDs can be installed again after they were deleted', async () => {
    const { league, clusters } = scene();
    const { north, south, west } = clusters;
    const epoch = await scene().epochOf('west');
    for (const plural of ['clusterclaims', 'federations', 'nativeservices']) {
      const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
      await removeFrom(west, `${crds}/${plural}.clusters.hansa.dev`);
    }
    await removeFrom(west, `/api/v1/namespaces/${systemNamespace}`);
    await untilCopies([north, south], 'northern', await scene().change('north'));
    await league.install('west');
    await federate(west, []);
    // The ServiceAccounts are new ones.
    await renewSecret(league.site('lubeck'), clusters, 'west');
    const token = await tokenFor(west, 'bruges');
    await league.site('bruges').run(['cluster', 'credential', 'set', 'west'], token);
    await scene().equal();
    assert.ok((await scene().epochOf('west')) > epoch);
  });
}

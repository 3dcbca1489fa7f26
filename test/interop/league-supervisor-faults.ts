// Tests for the suite of faults: supervisors that die, stop, are cut off from members, or have a wrong clock.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../e2e/until.ts';
import type { RecordedWrite } from './league-audit.ts';
import { type FaultScene, hourMs } from './league-fault-scene.ts';
import { accountOf, clusterNames, systemNamespace, tokenFor } from './league-members.ts';
import { copyIn, setEndpoints, slicesOf, slicesPath, untilCopies } from './league-services.ts';
import { WireClient } from './wire.ts';

const leasePath = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases/hansa-leader`;

export function supervisorFaults(scene: () => FaultScene): void {
  test('when a supervisor is killed, the other one leads all members in later terms', async () => {
    const { league, all } = scene();
    const killed = await league.leaderOf('west');
    const heir = scene().otherThan(killed);
    const epochs = await Promise.all(clusterNames.map((name) => scene().epochOf(name)));
    const led = await Promise.all(clusterNames.map((name) => league.leaderOf(name)));
    await killed.end('SIGKILL');
    for (const name of clusterNames) await scene().untilLed(name, heir);
    for (const [at, name] of clusterNames.entries()) {
      const [old = 0, now] = [epochs[at], await scene().epochOf(name)];
      if (led[at] === killed) assert.ok(now > old, `${name}: ${old}, then ${now}`);
      else assert.equal(now, old, name);
    }
    await untilCopies(all, 'northern', await scene().change('north'));
    await killed.start();
    await scene().equal();
  });

  test('a leader whose clock is an hour ahead keeps its term, and no other one takes it', async () => {
    const { west } = scene().clusters;
    const bruges = scene().league.site('bruges');
    await scene().makeLeader('west', bruges);
    const epoch = await scene().epochOf('west');
    const renewal = async (): Promise<number> => {
      const { spec } = await west.get<{ readonly spec: { readonly renewTime: string } }>(leasePath);
      return Date.parse(spec.renewTime);
    };
    for (let count = 0; count < 3; count++) {
      const last = await renewal();
      assert.ok(last - Date.now() > hourMs / 2, 'the clock of bruges is ahead');
      await until(async () => (await renewal()) !== last, 'a renewal of the Lease');
    }
    assert.equal((await scene().league.leaderOf('west')).name, 'bruges');
    assert.equal(await scene().epochOf('west'), epoch);
  });

  test('a leader that was stopped and woken cannot change what its successor wrote', async () => {
    const { west } = scene().clusters;
    const bruges = scene().league.site('bruges');
    await scene().makeLeader('west', bruges);
    const epoch = await scene().epochOf('west');
    process.kill(bruges.daemon.pid, 'SIGSTOP');
    try {
      await scene().untilLed('west', scene().otherThan(bruges));
      await untilCopies([west], 'northern', await scene().change('north'));
      assert.ok((await scene().epochOf('west')) > epoch);
      // What it would write if it woke up in the middle of its work, with the current version of the slice.
      const late = new WireClient({
        url: west.url,
        ca: west.ca,
        token: await tokenFor(west, bruges.name),
      });
      const [slice] = await slicesOf(west, systemNamespace, 'northern');
      assert.ok(slice !== undefined);
      const path = `${slicesPath(systemNamespace)}/${slice.metadata.name}`;
      const annotations = {
        ...slice.metadata.annotations,
        'clusters.hansa.dev/epoch': String(epoch),
      };
      const write = await late.send({
        method: 'PUT',
        path,
        body: JSON.stringify({
          apiVersion: 'discovery.k8s.io/v1',
          kind: 'EndpointSlice',
          ...slice,
          metadata: { ...slice.metadata, annotations },
          endpoints: [],
        }),
      });
      assert.equal(write.status, 422, write.text);
      assert.match(write.text, /another leader has taken over/);
      const unmarked = await late.send({ method: 'DELETE', path });
      assert.equal(unmarked.status, 422, unmarked.text);
      late.close();
    } finally {
      process.kill(bruges.daemon.pid, 'SIGCONT');
    }
    await scene().equal();
  });

  test('a write of a leader that was stopped after it sent it is refused in the term of its successor', async () => {
    const { west, north } = scene().clusters;
    const bruges = scene().league.site('bruges');
    const log = scene().logs.west;
    await scene().makeLeader('west', bruges);
    const epoch = await scene().epochOf('west');
    const door = bruges.doors.west;
    door.hold();
    // Its write of these is far larger than what it sends for the Lease.
    const many = Array.from({ length: 80 }, (_, at) => `10.1.200.${at}`);
    await setEndpoints(north, 'northern', many);
    await until(() => door.heldBytes > 6000, 'the write waits in the door');
    process.kill(bruges.daemon.pid, 'SIGSTOP');
    try {
      await scene().untilLed('west', scene().otherThan(bruges));
      const current = await scene().change('north');
      await untilCopies([west], 'northern', current);
      const before = log.writes().length;
      door.restore();
      const isLate = (write: RecordedWrite): boolean =>
        write.user.endsWith(`:${accountOf('bruges')}`) && write.epoch === epoch;
      let late: readonly RecordedWrite[] = [];
      await until(() => {
        late = log.writes().slice(before).filter(isLate);
        return late.length > 0;
      }, 'the late write arrives');
      // A conflict of versions, or the admission policy.
      for (const { code, message } of late) assert.ok([409, 422].includes(code), message);
      assert.deepEqual((await copyIn(west, 'northern'))?.endpoints, current.toSorted());
    } finally {
      door.restore();
      process.kill(bruges.daemon.pid, 'SIGCONT');
    }
    await scene().equal();
  });

  test('writes that arrive after another supervisor took over change nothing', async () => {
    const { league, clusters } = scene();
    const late = await league.leaderOf('west');
    const heir = scene().otherThan(late);
    late.doors.west.hold();
    // Its write of this waits in the door.
    await scene().change('north');
    await scene().untilLed('west', heir);
    await untilCopies([clusters.west], 'northern', await scene().change('north'));
    late.doors.west.restore();
    await scene().equal();
    assert.equal((await league.leaderOf('west')).name, heir.name);
  });

  test('each side of a partition goes on by itself, and both agree after it', async () => {
    const { league, clusters } = scene();
    const { north, south, west } = clusters;
    const [lubeck, bruges] = [league.site('lubeck'), league.site('bruges')];
    lubeck.doors.south.cut();
    lubeck.doors.west.cut();
    bruges.doors.north.cut();
    await scene().untilLed('north', lubeck);
    await scene().untilLed('south', bruges);
    await scene().untilLed('west', bruges);
    await scene().untilState(lubeck, 'west', 'Unreachable');
    await scene().untilState(bruges, 'north', 'Unreachable');
    const kept = (await copyIn(west, 'northern'))?.endpoints;
    await untilCopies([north], 'northern', await scene().change('north'));
    await untilCopies([south, west], 'southern', await scene().change('south'));
    // The other side keeps what it knew.
    assert.deepEqual((await copyIn(west, 'northern'))?.endpoints, kept);
    for (const door of [lubeck.doors.south, lubeck.doors.west, bruges.doors.north]) door.restore();
    await scene().equal();
  });
}

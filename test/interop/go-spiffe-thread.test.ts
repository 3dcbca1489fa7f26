// From invitation to call, with go-spiffe as the workload at both sites: one invitation makes two
// sites peers, and a workload of one can call a workload of the other exactly while a grant is in
// force.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { siteKind } from '../../src/api/kinds/site.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { peeringPlane } from '../../src/peering/plane.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { hansa } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { missingTools } from './tool.ts';
import {
  Calls,
  type Ended,
  type LineReader,
  startWorkloadSite,
  type WorkloadSite,
} from './workload-site.ts';

interface Context {
  readonly bundles?: Readonly<Record<string, number>>;
}

const skip = await missingTools('go-spiffe');
const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://bruges.example/web';

suite('a workload of a peer', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let server: string;
  let caller: string;
  let address: string;
  let served: LineReader;
  let calling: LineReader;

  const run = async (site: WorkloadSite, ...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await hansa([...args, '--data-dir', site.dataDir, '--yes']);
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const call = () => bruges.run(caller, 'client', `https://${address}/`, db);
  /** The server is told of a change when its neighbour is, and may be a moment later. */
  const callsEndWith = (code: number): Promise<void> => {
    let last: Ended | undefined;
    return until(
      async () => {
        last = await call();
        return last.code === code;
      },
      () => `calls end with ${code}: ${last?.stderr}`,
    );
  };
  /** Until the workload was told to believe exactly these. */
  const believes = async (watch: LineReader, ...names: readonly string[]): Promise<void> => {
    for (;;) {
      const { bundles } = await watch.next<Context>();
      if (bundles !== undefined && Object.keys(bundles).toSorted().join() === names.join()) return;
    }
  };
  const grant = () => {
    const what = ['--peer', 'bruges.example', '--offer', 'db', '--identity', web];
    return run(lubeck, 'grant', 'create', 'bruges-db', ...what, '--any-network', '--any-address');
  };

  before(async () => {
    [lubeck, bruges] = await Promise.all([
      startWorkloadSite('lubeck.example', [trustPlane, peeringPlane]),
      startWorkloadSite('bruges.example', [trustPlane, peeringPlane]),
    ]);
    for (const site of [lubeck, bruges]) {
      const answer = await site.apply(siteKind, 'site', { advertiseURL: site.url });
      assert.equal(answer.status, 200, answer.text);
    }
    server = await lubeck.program('db', 'go-spiffe');
    caller = await bruges.program('web', 'go-spiffe');
    await lubeck.apply(workloadEntryKind, 'db', {
      spiffeID: db,
      selectors: [`unix:path:${server}`],
      federatesWith: ['*'],
    });
    await bruges.apply(workloadEntryKind, 'web', {
      spiffeID: web,
      selectors: [`unix:path:${caller}`],
      federatesWith: ['lubeck.example'],
    });
    await lubeck.apply(serviceOfferKind, 'db', { spiffeID: db });
    served = lubeck.follow(server, 'watch');
    calling = bruges.follow(caller, 'watch');
    await believes(served, 'lubeck.example');
    await believes(calling, 'bruges.example');
    ({ address } = await lubeck
      .follow(server, 'server', '127.0.0.1:0', web)
      .next<{ readonly address: string }>());
  });
  after(async () => {
    await Promise.all([lubeck.stop(), bruges.stop()]);
  });

  test('is refused while its site is a peer but nothing is granted', async () => {
    const invitation = await run(lubeck, 'peer', 'invite', '--for', 'bruges.example');
    await run(bruges, 'peer', 'accept', invitation);
    assert.equal((await call()).code, 1);
  });

  test('calls as soon as a grant covers it, and both ends hold the bundles', async () => {
    await grant();
    await believes(served, 'bruges.example', 'lubeck.example');
    await believes(calling, 'bruges.example', 'lubeck.example');
    await callsEndWith(0);
    const { lines } = await call();
    assert.deepEqual(lines[0], { status: 200, body: `hello ${web}`, server: db });
  });

  test('is told of each step of a rotation of the other site, and not one of its calls fails', async () => {
    const calls = await Calls.begin(bruges.follow(caller, 'calls', `https://${address}/`, db));
    const old = calls.authorities;
    await lubeck.rotate('prepare', 'x509');
    await calls.untilHolds('client', 2);
    await lubeck.rotate('activate', 'x509');
    await lubeck.rotate('taint', 'x509');
    await calls.untilAnother('server', old);
    await lubeck.rotate('revoke', 'x509');
    await calls.untilHolds('client', 1);
    const again = await call();
    assert.equal(again.code, 0, again.stderr);
    assert.deepEqual((await calls.finish()).failures, []);
  });

  test('is refused at once when its site is suspended, and comes back with it', async () => {
    await run(lubeck, 'peer', 'suspend', 'bruges.example');
    await believes(served, 'lubeck.example');
    await callsEndWith(1);
    await run(lubeck, 'peer', 'resume', 'bruges.example');
    await believes(served, 'bruges.example', 'lubeck.example');
    await callsEndWith(0);
  });

  test('loses the bundle when the grant is taken back', async () => {
    await run(lubeck, 'grant', 'delete', 'bruges-db');
    await believes(served, 'lubeck.example');
    await believes(calling, 'bruges.example');
    await callsEndWith(1);
  });

  test('is refused for good when its site is revoked', async () => {
    await grant();
    await believes(served, 'bruges.example', 'lubeck.example');
    await run(lubeck, 'peer', 'revoke', 'bruges.example');
    await believes(served, 'lubeck.example');
    await callsEndWith(1);
  });
});

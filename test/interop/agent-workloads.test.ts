// Workloads of real agents, judged by go-spiffe and by SPIRE's client: two sites are peers, each has an
// agent, and a workload of one agent calls a workload of the other.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { serviceOfferKind } from '../../src/api/kinds/service-offer.ts';
import { siteKind } from '../../src/api/kinds/site.ts';
import { workloadEntryKind } from '../../src/api/kinds/workload-entry.ts';
import { peeringPlane } from '../../src/peering/plane.ts';
import { trustPlane } from '../../src/trust/plane.ts';
import { execute, hansa, type Ran, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type SiteAgent, startSiteAgent } from './site-agent.ts';
import { missingTools, requireTool } from './tool.ts';
import {
  Calls,
  type Ended,
  type LineReader,
  startWorkloadSite,
  type WorkloadSite,
} from './workload-site.ts';

interface Context {
  readonly svids?: readonly { readonly id: string; readonly serial: string }[];
  readonly bundles?: Readonly<Record<string, number>>;
  readonly error?: string;
}

const skip = await missingTools('go-spiffe', 'spire-agent');
const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://bruges.example/web';

suite('workloads of two agents of two peered sites', { skip }, () => {
  let lubeck: WorkloadSite;
  let bruges: WorkloadSite;
  let crane: SiteAgent;
  let tower: SiteAgent;
  let server: string;
  let caller: string;
  let stranger: string;
  let address: string;

  const run = async (site: WorkloadSite, ...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await hansa([...args, '--data-dir', site.dataDir, '--yes']);
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const call = () => tower.run(caller, 'client', `https://${address}/`, db);
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
  /** Until the workload was told to trust exactly these. */
  const trusts = async (watch: LineReader, ...names: readonly string[]): Promise<void> => {
    for (;;) {
      const { bundles } = await watch.next<Context>();
      if (bundles !== undefined && Object.keys(bundles).toSorted().join() === names.join()) return;
    }
  };
  /** `spire-agent api …` as a client of the agent at lubeck. */
  const api = async (...args: readonly string[]): Promise<Ran> =>
    execute(await requireTool('spire-agent'), ['api', ...args, '-socketPath', crane.socket]);

  before(async () => {
    const planes = [trustPlane, peeringPlane];
    lubeck = await startWorkloadSite('lubeck.example', planes);
    bruges = await startWorkloadSite('bruges.example', planes);
    for (const site of [lubeck, bruges]) {
      const answer = await site.apply(siteKind, 'site', { advertiseURL: site.url });
      assert.equal(answer.status, 200, answer.text);
    }
    crane = await startSiteAgent(lubeck, 'crane-1', { place: 'harbour' });
    tower = await startSiteAgent(bruges, 'tower-1');
    server = await lubeck.program('db', 'go-spiffe');
    caller = await bruges.program('web', 'go-spiffe');
    stranger = await lubeck.program('stranger', 'go-spiffe');
    const made = [
      await lubeck.apply(workloadEntryKind, 'db', {
        spiffeID: db,
        selectors: [`unix:path:${server}`],
        federatesWith: ['*'],
        agents: { selector: { matchLabels: { place: 'harbour' } } },
      }),
      // SPIRE's client has a path of its own.
      await lubeck.apply(workloadEntryKind, 'spire-client', {
        spiffeID: 'spiffe://lubeck.example/spire-client',
        selectors: [`unix:path:${await requireTool('spire-agent')}`],
        agents: { names: ['crane-1'] },
      }),
      await bruges.apply(workloadEntryKind, 'web', {
        spiffeID: web,
        selectors: [`unix:path:${caller}`],
        federatesWith: ['lubeck.example'],
        agents: { names: ['tower-1'] },
      }),
      await lubeck.apply(serviceOfferKind, 'db', { spiffeID: db }),
    ];
    for (const answer of made) assert.equal(answer.status, 201, answer.text);
    await trusts(crane.follow(server, 'watch'), 'lubeck.example');
    ({ address } = await crane
      .follow(server, 'server', '127.0.0.1:0', web)
      .next<{ readonly address: string }>());
  });
  after(async () => {
    await Promise.all([crane?.stop(), tower?.stop()]);
    await Promise.all([lubeck?.stop(), bruges?.stop()]);
  });

  test('a workload fetches its SVID and bundle from the agent', async () => {
    const { code, lines, stderr } = await crane.run(server, 'fetch');
    assert.equal(code, 0, stderr);
    const { svids = [], bundles } = lines[0] as Context;
    assert.deepEqual(
      svids.map(({ id }) => id),
      [db],
    );
    assert.deepEqual(bundles, { 'lubeck.example': 1 });
  });

  test('the site does not serve an entry of an agent on its own machine', async () => {
    const { code, stderr } = await lubeck.run(server, 'fetch');
    assert.equal(code, 1);
    assert.match(stderr, /PermissionDenied/);
  });

  test('a process that no entry of the agent matches gets nothing', async () => {
    const { code, stderr } = await crane.run(stranger, 'fetch');
    assert.equal(code, 1);
    assert.match(stderr, /PermissionDenied/);
  });

  test('a workload gets JWT-SVIDs that go-spiffe and the agent accept', async () => {
    const { code, lines, stderr } = await crane.run(server, 'jwt', 'ledger');
    assert.equal(code, 0, stderr);
    const { id, token } = lines[0] as { readonly id: string; readonly token: string };
    assert.equal(id, db);
    const judged = await crane.run(server, 'jwt-validate', 'ledger', token);
    assert.equal(judged.code, 0, judged.stderr);
    const other = await crane.run(server, 'jwt-validate', 'other', token);
    assert.notDeepEqual(other.lines, judged.lines);
  });

  test('SPIRE’s client fetches X.509-SVIDs that openssl verifies', async () => {
    const folder = join(temporaryFolder(), 'fetched');
    await mkdir(folder);
    const { code, stderr } = await api('fetch', 'x509', '-write', folder);
    assert.equal(code, 0, stderr);
    const chain = join(folder, 'svid.0.pem');
    const verified = await execute('openssl', [
      'verify',
      '-x509_strict',
      '-CAfile',
      join(folder, 'bundle.0.pem'),
      '-untrusted',
      chain,
      chain,
    ]);
    assert.equal(verified.code, 0, verified.stderr);
  });

  test('SPIRE’s client fetches JWT-SVIDs and finds the agent healthy', async () => {
    const fetched = await api('fetch', 'jwt', '-audience', 'ledger');
    assert.equal(fetched.code, 0, fetched.stderr);
    assert.match(fetched.stdout, /token\(spiffe:\/\/lubeck\.example\/spire-client\)/);
    const program = await requireTool('spire-agent');
    const health = await execute(program, ['healthcheck', '-socketPath', crane.socket]);
    assert.match(health.stdout, /Agent is healthy/);
  });

  test('SPIRE’s client is told of a new entry', async () => {
    const program = await requireTool('spire-agent');
    const child = spawn(program, ['api', 'watch', '-socketPath', crane.socket], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let shown = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
    });
    try {
      await until(() => /Received 1 svid[^]*\/spire-client/.test(shown));
      const made = await lubeck.apply(workloadEntryKind, 'also', {
        spiffeID: 'spiffe://lubeck.example/also',
        selectors: [`unix:path:${program}`],
        agents: { names: ['crane-1'] },
      });
      assert.equal(made.status, 201, made.text);
      await until(() => /Received 2 svids[^]*\/also/.test(shown));
    } finally {
      child.kill('SIGTERM');
    }
  });

  test('the call of a peer is refused without a grant', async () => {
    const invitation = await run(lubeck, 'peer', 'invite', '--for', 'bruges.example');
    await run(bruges, 'peer', 'accept', invitation);
    assert.equal((await call()).code, 1);
  });

  test('a workload of one agent calls a workload of the other with mutual TLS', async () => {
    const what = ['--peer', 'bruges.example', '--offer', 'db', '--identity', web];
    await run(lubeck, 'grant', 'create', 'bruges-db', ...what, '--any-network', '--any-address');
    await callsEndWith(0);
    const { lines } = await call();
    assert.deepEqual(lines[0], { status: 200, body: `hello ${web}`, server: db });
  });

  test('no call fails while the authority of a site is rotated', async () => {
    const calls = await Calls.begin(tower.follow(caller, 'calls', `https://${address}/`, db));
    const old = calls.authorities;
    const watch = crane.follow(server, 'watch');
    const first = await watch.next<Context>();
    await lubeck.rotate('prepare', 'x509');
    await calls.untilHolds('client', 2);
    await lubeck.rotate('activate', 'x509');
    await lubeck.rotate('taint', 'x509');
    await calls.untilAnother('server', old);
    for (;;) {
      const { svids } = await watch.next<Context>();
      if (svids?.[0]?.serial !== first.svids?.[0]?.serial) break;
    }
    await lubeck.rotate('revoke', 'x509');
    await calls.untilHolds('client', 1);
    assert.deepEqual((await calls.finish()).failures, []);
  });

  test('a suspended peer is refused at the agent, and accepted after it is resumed', async () => {
    const watch = crane.follow(server, 'watch');
    await run(lubeck, 'peer', 'suspend', 'bruges.example');
    await trusts(watch, 'lubeck.example');
    await callsEndWith(1);
    await run(lubeck, 'peer', 'resume', 'bruges.example');
    await trusts(watch, 'bruges.example', 'lubeck.example');
    await callsEndWith(0);
  });

  test('a forgotten agent takes the SVIDs from its workloads, and ends', async () => {
    const watch = crane.follow(server, 'watch');
    await watch.next<Context>();
    await run(lubeck, 'agent', 'forget', 'crane-1');
    const code = await crane.process.ended;
    assert.ok(code === 6 || code === 7, `it ended with ${code}: ${crane.process.log()}`);
    const lost = await watch.next<Context>();
    assert.match(lost.error ?? '', /PermissionDenied|Unavailable/);
    assert.equal((await crane.run(stranger, 'fetch')).code, 1);
  });
});

// Suspend, resume and revoke at two real sites, with an agent, workloads on both machines, and members
// that joined with SVIDs of the peer. No test measures time: each waits for a state.

import { status as grpc } from '@grpc/grpc-js';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import type { FederationPeer } from '../../src/api/kinds/federation-peer.ts';
import { type ReceivedState, watchSvids } from '../../src/trust/client/workload-client.ts';
import { check, ownUid } from '../../src/trust/workload/test-workload-site.ts';
import { type AgentProcess, spawnAgent, startAgent } from './agent-process.ts';
import { applyTo, joiningAt } from './agent-site.ts';
import { hansa } from './daemon.ts';
import { type PeeringSite, startPair } from './peering-pair.ts';
import { until } from './until.ts';

const peer = 'bruges.example';
const web = 'spiffe://bruges.example/web';
/** The points of a site itself. */
const points = [
  'api',
  'bundle-delivery',
  'connections',
  'ext_authz',
  'join',
  'members',
  'spire-bundles',
  'svid-validation',
  'token-reviews',
];

let lubeck: PeeringSite;
let bruges: PeeringSite;
let crane: AgentProcess;
const over = new AbortController();

async function peerObject(): Promise<FederationPeer> {
  const text = await lubeck.must(['get', 'federationpeers', peer, '-o', 'json']);
  return JSON.parse(text) as FederationPeer;
}

/** Such as `api enforced`. */
async function rows(): Promise<readonly string[]> {
  const { status } = await peerObject();
  return (status?.enforcement ?? []).map(({ point, state }) => `${point} ${state}`);
}

async function untilRows(...wanted: readonly string[]): Promise<void> {
  let shown: readonly string[] = [];
  await until(
    async () => {
      shown = await rows();
      return shown.join() === wanted.join();
    },
    () => `${shown.join(', ')} instead of ${wanted.join(', ')}`,
  );
}

const everywhere = points.map((point) => `${point} enforced`);

/** The newest state of one workload's stream, for as long as the test runs. */
class Workload {
  state: ReceivedState | undefined;
  #failed: unknown;

  constructor(socket: string) {
    void this.#follow(socket);
  }

  async #follow(socket: string): Promise<void> {
    while (!over.signal.aborted) {
      try {
        for await (const state of watchSvids(socket, over.signal)) this.state = state;
      } catch (error) {
        // The agent is restarted in between.
        this.#failed = error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  }

  get trusts(): readonly string[] {
    const bundle = this.state?.federated.get(`spiffe://${peer}`);
    return (bundle ?? []).map(({ fingerprint }) => fingerprint);
  }

  async untilItTrusts(fingerprints: (found: readonly string[]) => boolean): Promise<void> {
    await until(
      () => fingerprints(this.trusts),
      () => `it trusts ${this.trusts.join()}, last error: ${String(this.#failed)}`,
    );
  }
}

const admits = async (socket: string): Promise<boolean> => {
  const answer = await check(socket, { principal: web, offer: 'db', address: '192.0.2.7' });
  return answer.status?.code === grpc.OK;
};

suite('a suspended or revoked peer', () => {
  let here: Workload;
  let there: Workload;
  let sockets: readonly string[] = [];

  before(async () => {
    [lubeck, bruges] = (await startPair('lubeck', 'bruges')) as [PeeringSite, PeeringSite];
    const { code, stderr } = await bruges.accept(await lubeck.invite(['--for', peer]));
    assert.equal(code, 0, stderr);
    await lubeck.until(peer, 'active');
    await applyTo(lubeck, 'ServiceOffer', 'db', { spiffeID: 'spiffe://lubeck.example/db' });
    const grant = ['grant', 'create', 'bruges-db', '--peer', peer, '--offer', 'db'];
    await lubeck.must([...grant, '--any-identity', '--any-network', '--any-address']);
    for (const agent of ['site', 'crane']) {
      await applyTo(lubeck, 'WorkloadEntry', `db-${agent}`, {
        spiffeID: 'spiffe://lubeck.example/db',
        selectors: [`unix:uid:${ownUid}`],
        federatesWith: ['*'],
        agents: { names: [agent] },
      });
    }
    const folder = join(lubeck.daemon.dataDir, '..', 'crane');
    crane = await startAgent(folder, await joiningAt(lubeck, 'crane', {}));
    sockets = [join(lubeck.daemon.dataDir, 'workload.sock'), crane.socket];
    [here, there] = sockets.map((socket) => new Workload(socket)) as [Workload, Workload];
    for (const workload of [here, there]) await workload.untilItTrusts(({ length }) => length > 0);
    await until(async () => (await Promise.all(sockets.map(admits))).every(Boolean));
  });
  after(async () => {
    over.abort();
    await Promise.all([crane?.signal('SIGKILL'), lubeck?.stop(), bruges?.stop()]);
  });

  test('is rejected at every point and by the agent, and workloads lose its bundle', async () => {
    await lubeck.must(['peer', 'suspend', peer]);
    await untilRows('agent/crane enforced', ...everywhere);
    for (const workload of [here, there])
      await workload.untilItTrusts(({ length }) => length === 0);
    assert.deepEqual(await Promise.all(sockets.map(admits)), [false, false]);
    const { code, stderr } = await bruges.run(['peer', 'catalog', 'lubeck.example']);
    assert.equal(code === 0 && !/denied/.test(stderr), false, stderr);
    await bruges.until('lubeck.example', 'degraded', /rejects this site/);
    const minted = join(bruges.daemon.dataDir, '..', 'web');
    await bruges.must(['svid', 'mint', web, '--write', minted]);
    const verdict = await lubeck.run(['svid', 'validate', join(minted, 'svid.pem')]);
    assert.notEqual(verdict.code, 0);
    const shown = await lubeck.must(['peer', 'show', peer]);
    assert.match(shown, /enforced by +agent\/crane since .*; api since /);
  });

  test('has after a resume exactly what it had', async () => {
    const had = await peerObject();
    await lubeck.must(['peer', 'resume', peer]);
    await lubeck.until(peer, 'active');
    await untilRows();
    for (const workload of [here, there]) await workload.untilItTrusts(({ length }) => length > 0);
    await until(async () => (await Promise.all(sockets.map(admits))).every(Boolean));
    const now = await peerObject();
    assert.deepEqual(now.spec, { ...had.spec, desiredState: 'active' });
    for (const field of [
      'role',
      'invitation',
      'acceptance',
      'capabilities',
      'endpoints',
    ] as const) {
      assert.deepEqual(now.status?.[field], had.status?.[field], field);
    }
    assert.match(await lubeck.must(['grant', 'list', '--peer', peer]), /bruges-db/);
    await bruges.until('lubeck.example', 'active');
  });

  test('is pending, by name, for an agent that is not connected, until it has connected and agreed', async () => {
    await crane.signal('SIGTERM');
    await until(async () => /Disconnected/.test(await lubeck.must(['get', 'agents', 'crane'])));
    await lubeck.must(['peer', 'suspend', peer]);
    await untilRows('agent/crane pending', ...everywhere);
    const shown = await lubeck.must(['peer', 'show', peer]);
    assert.match(shown, /agent\/crane \(pending since /);
    // The site forgets nothing of that when it is killed.
    await lubeck.stop('SIGKILL');
    await lubeck.start();
    await untilRows('agent/crane pending', ...everywhere);
    crane = await startAgent(crane.dataDir, undefined, {
      flags: [`--server=${lubeck.federationUrl}`],
    });
    await untilRows('agent/crane enforced', ...everywhere);
    await there.untilItTrusts(({ length }) => length === 0);
    assert.equal(await admits(crane.socket), false);
  });

  test('rotates meanwhile, and resumes with its new authority and no other', async () => {
    const fetched = ['trust', 'refresh', peer, '--wait'];
    await bruges.must(['trust', 'rotate', 'prepare']);
    await lubeck.must(fetched);
    for (const step of ['activate', 'taint', 'revoke']) {
      await bruges.must(['trust', 'rotate', step]);
      await lubeck.must(fetched);
    }
    assert.deepEqual(here.trusts, []);
    assert.ok((await rows()).every((row) => row.endsWith(' enforced')));
    await lubeck.must(['peer', 'resume', peer]);
    await lubeck.until(peer, 'active');
    await bruges.until('lubeck.example', 'active');
    await untilRows();
    const bundle = JSON.parse(await bruges.must(['trust', 'bundle', 'show'])) as {
      readonly keys: readonly { readonly use: string }[];
    };
    const authorities = bundle.keys.filter(({ use }) => use === 'x509-svid');
    assert.equal(authorities.length, 1);
    for (const workload of [here, there]) {
      await workload.untilItTrusts(({ length }) => length === authorities.length);
    }
    assert.deepEqual(here.trusts, there.trusts);
    await until(async () => (await Promise.all(sockets.map(admits))).every(Boolean));
  });

  test('revoked while it is dead, it leaves nothing behind: its agents and bots are ended', async () => {
    const folder = join(lubeck.daemon.dataDir, '..');
    await applyTo(lubeck, 'JoinToken', 'ci', {
      method: 'spiffe',
      roles: ['bot', 'agent'],
      botName: 'ci',
      expiresAt: '2099-01-01T00:00:00Z',
      spiffe: { allow: [{ spiffeID: 'spiffe://bruges.example/ci/*' }] },
    });
    await bruges.must([
      'svid',
      'mint',
      'spiffe://bruges.example/ci/x',
      '--write',
      join(folder, 'x'),
    ]);
    const proof = [
      `--server=${lubeck.federationUrl}`,
      '--trust-domain=lubeck.example',
      `--bundle=${join(lubeck.daemon.dataDir, 'ca.pem')}`,
      '--token=ci',
      `--svid=${join(folder, 'x', 'svid.pem')}`,
      `--key=${join(folder, 'x', 'svid.key')}`,
    ];
    const joined = await hansa(['join', ...proof, '--write', join(folder, 'bot')]);
    assert.equal(joined.code, 0, joined.stderr);
    const barge = spawnAgent(join(folder, 'barge'), undefined, {
      flags: [...proof, '--name=barge'],
    });
    const bargeOver = barge.ended;
    await barge.greeted;
    assert.match(await lubeck.must(['join', 'list']), /ci +ci +spiffe:\/\/bruges\.example/);
    await bruges.stop('SIGKILL');
    await lubeck.must(['peer', 'revoke', peer]);
    await until(async () => {
      const shown = await rows();
      return shown.length > points.length && shown.every((row) => row.endsWith(' enforced'));
    });
    assert.deepEqual(await rows(), ['agent/crane enforced', ...everywhere]);
    assert.doesNotMatch(await lubeck.must(['join', 'list']), /bruges/);
    await until(async () => !/barge/.test(await lubeck.must(['agent', 'list'])));
    // The agent itself ends, and with it everything that it served.
    await bargeOver;
    const renewed = await hansa(['join', 'renew', '--write', join(folder, 'bot')]);
    assert.notEqual(renewed.code, 0);
    const again = await hansa(['join', ...proof, '--write', join(folder, 'bot-2')]);
    assert.notEqual(again.code, 0);
    for (const workload of [here, there])
      await workload.untilItTrusts(({ length }) => length === 0);
    assert.deepEqual(await Promise.all(sockets.map(admits)), [false, false]);
    // After a restart, too.
    await lubeck.stop('SIGKILL');
    await lubeck.start();
    await untilRows('agent/crane enforced', ...everywhere);
  });
});

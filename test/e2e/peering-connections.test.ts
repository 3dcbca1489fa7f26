// Kept connections between two real sites: one handshake for many heartbeats, and none after trust ended.

import assert from 'node:assert/strict';
import { get } from 'node:http';
import { after, before, suite, test } from 'node:test';
import { type PeeringSite, startPair } from './peering-pair.ts';
import { until } from './until.ts';

async function metrics(site: PeeringSite): Promise<string> {
  const { metrics: url } = site.daemon.endpoints as unknown as { readonly metrics: string };
  const chunks: Buffer[] = [];
  const response = await new Promise<AsyncIterable<Buffer>>((resolve, reject) => {
    get(new URL('/metrics', url), resolve).on('error', reject);
  });
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

async function value(site: PeeringSite, series: string): Promise<number> {
  const line = (await metrics(site)).split('\n').find((one) => one.startsWith(`${series} `));
  return Number(line?.split(' ')[1] ?? 0);
}

const answered = 'hansa_peer_heartbeats_total{direction="sent",result="answered"}';
const opened = 'hansa_peer_connections_opened_total';
const open = 'hansa_peer_connections';

suite('connections between peers', () => {
  let lubeck: PeeringSite;
  let bruges: PeeringSite;

  before(async () => {
    [lubeck, bruges] = (await startPair('lubeck', 'bruges')) as [PeeringSite, PeeringSite];
    const { code, stderr } = await bruges.accept(await lubeck.invite(['--for', 'bruges.example']));
    assert.equal(code, 0, stderr);
    await lubeck.until('bruges.example', 'active');
  });
  after(() => Promise.all([lubeck?.stop(), bruges?.stop()]));

  test('carry heartbeat after heartbeat', async () => {
    await until(async () => (await value(lubeck, open)) === 1);
    const then = { answered: await value(lubeck, answered), opened: await value(lubeck, opened) };
    await until(async () => (await value(lubeck, answered)) >= then.answered + 2);
    assert.equal(await value(lubeck, opened), then.opened);
  });

  test('are opened again after the other site restarted', async () => {
    await bruges.stop('SIGKILL');
    await bruges.start();
    const earlier = await value(lubeck, answered);
    await until(async () => (await value(lubeck, answered)) > earlier);
    await lubeck.until('bruges.example', 'active');
  });

  test('close when the peer is suspended, and open again when it is resumed', async () => {
    await until(async () => (await value(lubeck, open)) === 1);
    await lubeck.must(['peer', 'suspend', 'bruges.example']);
    await until(async () => (await value(lubeck, open)) === 0);
    await lubeck.must(['peer', 'resume', 'bruges.example']);
    await until(async () => (await value(lubeck, open)) === 1);
  });

  test('close when the peer is revoked', async () => {
    await lubeck.must(['peer', 'revoke', 'bruges.example']);
    await until(async () => (await value(lubeck, open)) === 0);
  });
});

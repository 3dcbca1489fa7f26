import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { Clock } from '../../core/clock/clock.ts';
import { systemClock } from '../../core/clock/system.ts';
import { hasCode } from '../../core/errors/error.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { putEntry, startTestSite } from '../workload/test-workload-site.ts';
import { fetchJwtSvids, fetchSvids, watchIdentities, watchSvids } from './workload-client.ts';

test('a site that stops while nobody asks for the next state is told of when somebody does', async (t) => {
  const site = await startTestSite();
  let stop = site.stop;
  t.after(() => stop());
  await putEntry(site.store, 'web');
  const states = watchIdentities(site.socket, new AbortController().signal);
  assert.equal((await states.next()).value?.svids.length, 1);
  await site.stop();
  stop = async () => undefined;
  // A rejection that nobody hears of would end the process, and here the test.
  for (let turn = 0; turn < 100; turn++) await yieldToEventLoop();
  await assert.rejects(states.next(), (error) => hasCode(error, 'HANSA_UNREACHABLE'));
});

test('what was interrupted before it began ends at once, and without an error', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-silent-'));
  const socket = join(folder, 'workload.sock');
  const silent = createServer().listen(socket);
  await once(silent, 'listening');
  t.after(() => {
    silent.close();
    rmSync(folder, { recursive: true });
  });
  assert.equal((await watchSvids(socket, AbortSignal.abort()).next()).done, true);
  assert.equal((await watchIdentities(socket, AbortSignal.abort()).next()).done, true);
});

/** Passes connections on to a site, after it has cut the first ones. */
async function churning(t: TestContext, site: string, cut: number) {
  const folder = mkdtempSync(join(tmpdir(), 'hansa-churn-'));
  const socket = join(folder, 'workload.sock');
  const came: Socket[] = [];
  const server = createServer((near) => {
    near.on('error', () => undefined);
    if (came.push(near) <= cut) {
      near.destroy();
      return;
    }
    const far = connect(site);
    far.on('error', () => undefined).once('close', () => near.destroy());
    near.once('close', () => far.destroy());
    near.pipe(far).pipe(near);
  }).listen(socket);
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const one of came) one.destroy();
    rmSync(folder, { recursive: true });
  });
  return { socket, came };
}

/** Waits pass at once. */
const hurried: Clock = { ...systemClock, timer: (_ms, fire) => systemClock.timer(0, fire) };
const asking = (socket: string) => ({
  socket,
  signal: new AbortController().signal,
  clock: hurried,
});

test('a fetch whose connection is cut asks again, a few times', async (t) => {
  const site = await startTestSite();
  t.after(() => site.stop());
  await putEntry(site.store, 'web');
  const request = { audience: ['db'], spiffeId: '' };
  for (const ask of [
    async (socket: string) => (await fetchSvids(asking(socket)))?.svids.length,
    async (socket: string) => (await fetchJwtSvids(asking(socket), request)).length,
  ]) {
    const some = await churning(t, site.socket, 2);
    assert.equal(await ask(some.socket), 1);
    assert.equal(some.came.length, 3);
    const all = await churning(t, site.socket, 100);
    await assert.rejects(ask(all.socket), (error) => hasCode(error, 'HANSA_UNREACHABLE'));
    assert.equal(all.came.length, 4);
  }
});

test('a fetch without a server, or that is refused, does not ask again', async (t) => {
  const site = await startTestSite();
  t.after(() => site.stop());
  let waits = 0;
  const counting: Clock = {
    ...hurried,
    timer: (ms, fire) => {
      waits++;
      return hurried.timer(ms, fire);
    },
  };
  const ask = (socket: string) => fetchSvids({ ...asking(socket), clock: counting });
  await assert.rejects(ask('/nowhere/workload.sock'), (error) =>
    hasCode(error, 'HANSA_UNREACHABLE'),
  );
  await assert.rejects(ask(site.socket), (error) => hasCode(error, 'HANSA_FORBIDDEN'));
  assert.equal(waits, 0);
});

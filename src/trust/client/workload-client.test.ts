import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { yieldToEventLoop } from '../../core/clock/yield-to-event-loop.ts';
import { putEntry, startTestSite } from '../workload/test-workload-site.ts';
import { watchIdentities, watchSvids } from './workload-client.ts';

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

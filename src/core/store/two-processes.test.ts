// One process has the files of a store; a second one is told which.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../clock/system.ts';
import { withErrorCode } from './conformance/harness.ts';
import { openStore } from './open.ts';
import type { Store } from './store.ts';

test('a store is refused to a second process until the first is killed', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-processes-'));
  t.after(() => rm(folder, { recursive: true }));
  const path = join(folder, 'store.db');
  const open = (): Promise<Store> => openStore({ driver: 'sqlite', path }, { clock: systemClock });
  const holder = `
      import { openStore } from ${JSON.stringify(new URL('./open.ts', import.meta.url).href)};
      import { systemClock } from ${JSON.stringify(new URL('../clock/system.ts', import.meta.url).href)};
      await openStore({ driver: 'sqlite', path: ${JSON.stringify(path)} }, { clock: systemClock });
      console.log('open');
    `;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', holder], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  await Promise.race([new Promise((resolve) => child.stdout.once('data', resolve)), exited]);
  await assert.rejects(open(), (error: unknown) => {
    assert.match(String(error), new RegExp(`process ${child.pid} uses it`));
    return withErrorCode('HANSA_STORE_LOCKED')(error);
  });
  child.kill('SIGKILL');
  await exited;
  const store = await open();
  await store.close();
});

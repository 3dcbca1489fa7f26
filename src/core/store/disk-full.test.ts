// A disk that is really full: a tiny file system of its own where that can be had.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../clock/system.ts';
import { HansaError, hasCode } from '../errors/error.ts';
import { naiveRoot } from '../merkle/test-naive-tree.ts';
import { readAll } from './conformance/audit.ts';
import { audit, put } from './conformance/harness.ts';
import { openStore } from './open.ts';
import type { Store } from './store.ts';

/** Undefined with the reason where this machine or user cannot mount. */
function mountTiny(folder: string): string | undefined {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', folder], { stdio: 'pipe' });
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.trim() : String(error);
  }
}

/** Commits until the disk is full; returns how many were acknowledged. */
async function writeUntilFull(store: Store): Promise<number> {
  const value = Buffer.alloc(20_000, 1);
  for (let count = 0; ; count++) {
    try {
      await store.commit({ put: [put('things', `n${count}`, value)], audit: [audit(`n${count}`)] });
    } catch (error) {
      assert.ok(hasCode(error, 'HANSA_STORE_FULL'), String((error as HansaError).stack));
      return count;
    }
    assert.ok(count < 1000, 'the disk never became full');
  }
}

test('on a full disk writes fail clearly, reads go on, and it recovers by itself', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-full-'));
  const why = mountTiny(folder);
  if (why !== undefined) {
    await rm(folder, { recursive: true });
    context.skip(`cannot mount a small file system to fill: ${why}`);
    return;
  }
  try {
    const filler = join(folder, 'filler');
    await writeFile(filler, Buffer.alloc(1024 * 1024));
    const path = join(folder, 'store.db');
    const store = await openStore({ driver: 'sqlite', path }, { clock: systemClock });
    const count = await writeUntilFull(store);
    const { revision } = store;
    assert.equal(revision, count);

    const outcomes = await Promise.allSettled([
      store.commit({ put: [put('things', 'late', Buffer.alloc(50_000))] }),
      store.commit({ put: [put('things', 'later', Buffer.alloc(50_000))] }),
    ]);
    for (const outcome of outcomes) {
      assert.ok(outcome.status === 'rejected' && hasCode(outcome.reason, 'HANSA_STORE_FULL'));
    }
    assert.equal(store.problem?.code, 'HANSA_STORE_FULL');
    assert.equal(store.revision, revision);
    assert.equal(store.list('things').entries.length, count);
    assert.equal((await readAll(store)).length, count);
    assert.deepEqual(store.auditLog.rootHash, naiveRoot(await readAll(store)));

    await rm(filler);
    const committed = await store.commit({ put: [put('things', 'late', Buffer.alloc(50_000))] });
    assert.equal(committed.revision, revision + 1);
    assert.equal(store.problem, undefined);
    await store.close();

    const again = await openStore({ driver: 'sqlite', path }, { clock: systemClock });
    assert.equal(again.revision, revision + 1);
    assert.equal(again.count('things'), count + 1);
    await again.close();
  } finally {
    execFileSync('umount', [folder]);
    await rm(folder, { recursive: true });
  }
});

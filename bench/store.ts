// Compares durable writes through the store with SQLite in a plain loop, and measures how long a
// commit takes to reach a thousand watchers. `node bench/store.ts` prints one JSON object per line.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../src/core/clock/system.ts';
import { openStore } from '../src/core/store/open.ts';
import { migrate } from '../src/core/store/sqlite/schema.ts';
import type { Store } from '../src/core/store/store.ts';
import { type Figure, median, rounded, spread } from './figure.ts';
import { sized } from './size.ts';

const rounds = sized(7, 5, 1);
const writes = sized(16_384, 16_384, 1024);
const names = 4096;
const writers = 32;
const value = Buffer.alloc(1024, 'v');
const auditBody = Buffer.alloc(512, 'a');

interface Measured {
  readonly perSecond: number;
  readonly cpuMicrosEach: number;
}

async function measure(run: () => Promise<void> | void): Promise<Measured> {
  const cpuBefore = process.cpuUsage();
  const before = performance.now();
  await run();
  const seconds = (performance.now() - before) / 1000;
  const { user, system } = process.cpuUsage(cpuBefore);
  return { perSecond: writes / seconds, cpuMicrosEach: (user + system) / writes };
}

/** As many callers as the target names, each waiting for its commit before the next. */
async function throughStore(store: Store): Promise<void> {
  let next = 0;
  const writer = async (): Promise<void> => {
    while (next < writes) {
      const name = `n${next++ % names}`;
      await store.commit({
        put: [{ collection: 'things', name, encode: () => value }],
        audit: [{ encode: () => auditBody }],
      });
    }
  };
  await Promise.all(Array.from({ length: writers }, writer));
}

/** The same rows in the same tables, 32 to a transaction, with nothing around them. */
function bareLoop(database: DatabaseSync): void {
  const begin = database.prepare('BEGIN IMMEDIATE');
  const commit = database.prepare('COMMIT');
  const change = database.prepare('INSERT INTO changes VALUES (?, ?, ?, ?, ?)');
  const audit = database.prepare('INSERT INTO audit VALUES (?, ?, ?)');
  const head = database.prepare(
    'UPDATE head SET sequence = ?, revision = ?, tree_size = ?, frontier = ?',
  );
  const leafHash = Buffer.alloc(32, 1);
  const frontier = Buffer.alloc(256, 1);
  for (let at = 0; at < writes; at += writers) {
    begin.run();
    for (let row = at; row < at + writers; row++) {
      change.run(row + 1, 'things', `n${row % names}`, Math.max(0, row - names), value);
      audit.run(row, leafHash, auditBody);
    }
    head.run(at / writers, at + writers, at + writers, frontier);
    commit.run();
  }
}

async function measureStore(path: string): Promise<Measured> {
  const store = await openStore({ driver: 'sqlite', path }, { clock: systemClock });
  const measured = await measure(() => throughStore(store));
  await store.close();
  return measured;
}

async function measureBare(path: string): Promise<Measured> {
  const database = new DatabaseSync(path);
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16384');
  migrate(database);
  const measured = await measure(() => bareLoop(database));
  database.close();
  return measured;
}

async function durableWrites(folder: string): Promise<Figure> {
  const ours: Measured[] = [];
  const bare: Measured[] = [];
  // Turn by turn, so that what else the machine does hits both; the first round warms up.
  for (let round = -1; round < rounds; round++) {
    const one = await measureStore(join(folder, `store${round}.db`));
    const other = await measureBare(join(folder, `bare${round}.db`));
    if (round < 0) continue;
    ours.push(one);
    bare.push(other);
  }
  const rate = median(ours.map((one) => one.perSecond));
  const bareRate = median(bare.map((one) => one.perSecond));
  return {
    bench: 'store: durable commits of 1 KiB with an audit row, 32 waiting',
    value: rounded(rate),
    unit: 'commits/s',
    ...spread(ours.map((one) => one.perSecond)),
    anchor: 'SQLite in a bare loop, same rows, 32 to a transaction',
    anchorValue: rounded(bareRate),
    // Of each round, because the machine's speed changes from round to round.
    ratio: rounded(median(ours.map((one, at) => one.perSecond / (bare[at]?.perSecond ?? 0)))),
    cpuMicrosEach: rounded(median(ours.map((one) => one.cpuMicrosEach))),
    anchorCpuMicrosEach: rounded(median(bare.map((one) => one.cpuMicrosEach))),
    atLeast: 0.5,
  };
}

/** From the call of `commit` until the last of a thousand watchers was told, beside one watcher. */
async function fanOut(folder: string): Promise<Figure> {
  const path = join(folder, 'watch.db');
  const store = await openStore({ driver: 'sqlite', path }, { clock: systemClock });
  const timed = async (count: number): Promise<number> => {
    let lastMs = 0;
    const watches = Array.from({ length: count }, () =>
      store.watch('things', store.revision, {
        changes: () => {
          lastMs = performance.now();
        },
        ended: () => {},
      }),
    );
    const times: number[] = [];
    for (let round = 0; round < sized(200, 100, 5); round++) {
      const before = performance.now();
      await store.commit({ put: [{ collection: 'things', name: 'a', encode: () => value }] });
      times.push(lastMs - before);
    }
    for (const watch of watches) watch.stop();
    return median(times);
  };
  await timed(1);
  const one = await timed(1);
  const thousand = await timed(1000);
  await store.close();
  return {
    bench: 'store: commit until the last of 1,000 watchers was told',
    value: rounded(thousand),
    unit: 'ms',
    anchor: 'the same with one watcher',
    anchorValue: rounded(one),
    ratio: rounded(one / thousand),
  };
}

const folder = await mkdtemp(join(tmpdir(), 'hansa-bench-'));
try {
  console.log(JSON.stringify(await durableWrites(folder)));
  console.log(JSON.stringify(await fanOut(folder)));
} finally {
  await rm(folder, { recursive: true });
}

// kill -9 in a loop: what was acknowledged is there, the audit tree verifies, no lease hangs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SeededRandom } from '../clock/seeded-random.ts';
import type { Found } from './crash-writer.ts';
import { Frontier, leafHash } from '../merkle/tree.ts';

const rounds = Number(process.env['HANSA_CRASH_ROUNDS'] ?? 200);
/** Stores that are killed side by side: while one process starts, another writes. */
const stores = 2;
const writerFile = fileURLToPath(new URL('./crash-writer.ts', import.meta.url));

interface Acknowledged {
  readonly revision: number;
  readonly name: string;
  readonly stamp: string;
}

interface Round {
  /** What the process found when it opened the store. */
  readonly found: Found;
  /** What was acknowledged to it afterwards. */
  readonly acknowledged: readonly Acknowledged[];
}

/** Starts a writer, lets it write for a while, and kills it. */
async function runAndKill(
  folder: string,
  argv: { readonly store: string; readonly knownRows: number; readonly round: string },
  killAfterMs: number | undefined,
): Promise<Round> {
  const notes = join(folder, `${argv.store}.notes`);
  const child = spawn(
    process.execPath,
    [writerFile, join(folder, `${argv.store}.db`), notes, String(argv.knownRows), argv.round],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      // Most of a round is the start of Node: compiled code is kept.
      env: { ...process.env, NODE_COMPILE_CACHE: join(folder, 'cache') },
    },
  );
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const writing = new Promise((resolve) => {
    child.stdout.once('data', resolve);
  });
  const ended = new Promise<NodeJS.Signals | null>((resolve) => {
    child.once('close', (_, signal) => resolve(signal));
  });
  await Promise.race([writing, ended]);
  if (killAfterMs !== undefined) {
    await delay(killAfterMs);
    child.kill('SIGKILL');
  }
  assert.equal(await ended, killAfterMs === undefined ? null : 'SIGKILL', errors);
  assert.equal(errors, '');
  // What follows the last end of line was cut.
  const [first = '', ...lines] = (await readFile(notes, 'utf8')).split('\n').slice(0, -1);
  const acknowledged = lines.map((line) => {
    const [revision, name = '', stamp = ''] = line.split(' ');
    return { revision: Number(revision), name, stamp };
  });
  return { found: JSON.parse(first) as Found, acknowledged };
}

/** Holds what a process found against what was acknowledged to the one before it. */
function checkNothingLost(found: Found, acknowledged: readonly Acknowledged[]): void {
  const records = new Map(found.records.map(([name, ...rest]) => [name, rest]));
  const rows = new Set(found.rows);
  for (const { revision, name, stamp } of acknowledged) {
    assert.ok(revision <= found.revision, `revision ${revision} was acknowledged and is lost`);
    assert.ok(rows.has(`${name} ${stamp}`), `the audit row of ${name} at ${revision} is lost`);
    const [present, value] = records.get(name) ?? [];
    if (present === revision) assert.equal(value, stamp);
    // A later write may have replaced it, and those that end in -0 are removed again.
    else if (present === undefined) assert.match(name, /-0$/);
    else assert.ok(present > revision, `${name} was at ${revision}, and is at ${present}`);
  }
}

async function crashLoop(folder: string, count: number, seed: string): Promise<number> {
  const random = new SeededRandom(seed);
  const frontier = Frontier.empty();
  let before: readonly Acknowledged[] = [];
  let epoch = 0;
  let total = 0;
  for (let round = 0; round <= count; round++) {
    const last = round === count;
    const { found, acknowledged } = await runAndKill(
      folder,
      { store: seed, knownRows: frontier.size, round: last ? 'end' : String(round) },
      last ? undefined : random.integer(0, 30),
    );
    checkNothingLost(found, before);
    for (const row of found.rows) frontier.append(leafHash(Buffer.from(row)));
    assert.equal(found.rootHash, frontier.root().toString('hex'), 'the audit tree verifies');
    assert.equal(found.epoch, epoch, 'each process took the lease once');
    epoch++;
    before = acknowledged;
    total += acknowledged.length;
  }
  return total;
}

test(`every acknowledged write survives ${rounds} rounds of kill -9`, async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'hansa-crash-'));
  try {
    // Only a process that ends by itself leaves its compiled code behind.
    await runAndKill(folder, { store: 'first', knownRows: 0, round: 'end' }, undefined);
    const loops = Array.from({ length: stores }, (_, at) =>
      crashLoop(folder, Math.ceil(rounds / stores), `store${at}`),
    );
    const totals = await Promise.all(loops);
    const total = totals.reduce((sum, one) => sum + one, 0);
    context.diagnostic(`${total} acknowledged writes`);
    assert.ok(total > 0, 'the writers got something done between the kills');
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

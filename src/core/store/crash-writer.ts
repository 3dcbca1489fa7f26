// The process that crash.test.ts kills. It opens the store, writes what it found to a file, then
// commits as fast as it can and notes every acknowledged commit. It uses a file because a pipe may
// fill up, and a file outlives the process.

import { openSync, writeSync } from 'node:fs';
import { systemClock } from '../clock/system.ts';
import { openStore } from './open.ts';

/** The first line of the notes, as JSON. */
export interface Found {
  /** Name, revision and the beginning of the value. */
  readonly records: readonly (readonly [name: string, revision: number, stamp: string])[];
  readonly revision: number;
  /** The audit rows from the index on that the third argument names. */
  readonly rows: readonly string[];
  readonly rootHash: string;
  /** The epoch of the lease before this process took it. */
  readonly epoch: number;
}

const [path = '', notesPath = '', knownRows = '', round = ''] = process.argv.slice(2);
const notes = openSync(notesPath, 'w');
const store = await openStore(
  { driver: 'sqlite', path },
  { clock: systemClock, history: { maxChanges: 200 } },
);
const rows: string[] = [];
for (let from = Number(knownRows); from + rows.length < store.auditLog.size; ) {
  rows.push(...(await store.auditLog.read(from + rows.length, 1000)).map(String));
}
const [lease] = await store.leases.list();
const found: Found = {
  records: store
    .list('things')
    .entries.map(({ name, revision, value }) => [
      name,
      revision,
      value.toString().split(' ')[0] ?? '',
    ]),
  revision: store.revision,
  rows,
  rootHash: store.auditLog.rootHash.toString('hex'),
  epoch: lease?.epoch ?? 0,
};

/** Synchronous, so that an acknowledged commit is noted before anything else happens. */
function note(line: string): void {
  writeSync(notes, `${line}\n`);
}

async function writer(number: number, epoch: number): Promise<void> {
  for (let turn = 0; ; turn++) {
    const name = `w${number}-${turn % 20}`;
    const stamp = `${round}.${turn}`;
    const value = `${stamp} ${'x'.repeat((turn * 37) % 3000)}`;
    const committed = await store.commit({
      fence: { lease: 'work', epoch },
      put: [{ collection: 'things', name, encode: () => Buffer.from(value) }],
      delete: turn % 5 === 4 ? [{ collection: 'things', name: `w${number}-0` }] : [],
      audit: [{ encode: () => Buffer.from(`${name} ${stamp}`) }],
    });
    note(`${committed.entries[0]?.revision} ${name} ${stamp}`);
  }
}

if (round === 'end') {
  note(JSON.stringify(found));
  await store.close();
} else {
  // It was taken for a millisecond, so a lease of a killed process has expired by now.
  const taken = await store.leases.acquire('work', `round ${round}`, 1);
  if (taken === undefined) throw new Error('the lease of a killed process hangs');
  note(JSON.stringify(found));
  process.stdout.write('writing\n');
  // Enough to make transactions overlap on a fast disk.
  await Promise.all(Array.from({ length: 32 }, (_, number) => writer(number, taken.epoch)));
}

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, test } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../../clock/system.ts';
import { audit, put, withErrorCode } from '../conformance/harness.ts';
import type { AuditRecord, Batch, ChangeRow, FirstRows, Head } from '../driver.ts';
import { TransactionFailed } from '../driver.ts';
import { openStore } from '../open.ts';
import { SqliteDriver } from './driver.ts';
import { migrate, schemaSteps } from './schema.ts';
import type { Store } from '../store.ts';

let folder: string;
let path: string;
let count = 0;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hansa-sqlite-'));
});
beforeEach(async () => {
  const place = join(folder, String(count++));
  await mkdir(place);
  path = join(place, 'store.db');
});
after(() => rm(folder, { recursive: true }));

function open(): Promise<Store> {
  return openStore({ driver: 'sqlite', path }, { clock: systemClock });
}

/** A store with some history in it, closed. */
async function makeStore(): Promise<void> {
  const store = await open();
  for (let at = 0; at < 300; at++) {
    await store.commit({ put: [put('things', `n${at % 10}`)], audit: [audit(`row ${at}`)] });
  }
  await store.compact(100);
  await store.close();
}

function edit(sql: string): void {
  const database = new DatabaseSync(path);
  try {
    database.exec(sql);
  } finally {
    database.close();
  }
}

describe('the files of a store', () => {
  test('can be read by their owner only, and go when they are not needed', async () => {
    const store = await open();
    await store.commit({ put: [put('things', 'a')] });
    const names = await readdir(join(path, '..'));
    assert.deepEqual(names.toSorted(), [
      'store.db',
      'store.db-shm',
      'store.db-wal',
      'store.db.lock',
      'store.db.pid',
    ]);
    for (const name of names) {
      assert.equal((await stat(join(path, '..', name))).mode & 0o777, 0o600, name);
    }
    await store.close();
    assert.deepEqual((await readdir(join(path, '..'))).toSorted(), ['store.db', 'store.db.lock']);
  });

  test('in a folder that does not exist cannot be made', async () => {
    path = join(folder, 'missing', 'store.db');
    await assert.rejects(open(), withErrorCode('HANSA_UNAVAILABLE'));
  });
});

describe('a second store on the same file', () => {
  test('is refused with the process that has it, and taken when that one is closed', async () => {
    const store = await open();
    await assert.rejects(open(), (error: unknown) => {
      assert.match(String(error), new RegExp(`process ${process.pid} uses it`));
      return withErrorCode('HANSA_STORE_LOCKED')(error);
    });
    await store.commit({ put: [put('things', 'a')] });
    await store.close();
    const second = await open();
    assert.equal(second.count('things'), 1);
    await second.close();
  });
});

describe('the audit table', () => {
  test('refuses to be changed or cut, whoever asks', async () => {
    await makeStore();
    for (const sql of [
      `UPDATE audit SET body = x'00' WHERE idx = 3`,
      'DELETE FROM audit WHERE idx = 299',
      'DELETE FROM audit',
      `REPLACE INTO audit VALUES (3, x'00', x'00')`,
      `INSERT OR REPLACE INTO audit VALUES (0, x'00', x'00')`,
      'DELETE FROM audit_subtree',
      `UPDATE audit_subtree SET hash = x'00'`,
    ]) {
      assert.throws(() => edit(sql), /cannot be|only be appended/, sql);
    }
  });
});

describe('a store that someone edited', () => {
  const edits: readonly [string, string][] = [
    ['a change is missing', 'DELETE FROM changes WHERE revision = 200'],
    ['the last change is missing', 'DELETE FROM changes WHERE revision = 300'],
    ['a change is doubled', `INSERT INTO changes VALUES (301, 'things', 'x', 0, x'00')`],
    ['a record is renamed', `UPDATE changes SET name = 'x' WHERE revision = 250`],
    ['a compacted change is back', `INSERT INTO changes VALUES (5, 'things', 'n4', 0, x'00')`],
    ['the tree is larger', 'UPDATE head SET tree_size = 301'],
    ['the tree is smaller', 'UPDATE head SET tree_size = 299'],
    ['the frontier is of other rows', 'UPDATE head SET frontier = zeroblob(length(frontier))'],
    ['the head is gone', 'DELETE FROM head'],
    ['rows follow the last one', `INSERT INTO audit VALUES (300, zeroblob(32), x'00')`],
    [
      'rows are replaced behind the back of the triggers',
      `DROP TRIGGER audit_keeps_values; UPDATE audit SET leaf_hash = zeroblob(32) WHERE idx = 299`,
    ],
  ];
  for (const [what, sql] of edits) {
    test(`is refused where ${what}`, async () => {
      await makeStore();
      edit(sql);
      await assert.rejects(open(), withErrorCode('HANSA_STORE_CORRUPT'));
      // The lock is free again.
      await assert.rejects(open(), withErrorCode('HANSA_STORE_CORRUPT'));
    });
  }

  test('is refused where the file is no database, or that of something else', async () => {
    await writeFile(path, 'this is not a database'.repeat(1000));
    await assert.rejects(open(), withErrorCode('HANSA_STORE_CORRUPT'));
    await rm(path);
    edit('CREATE TABLE other (a)');
    await assert.rejects(open(), withErrorCode('HANSA_STORE_CORRUPT'));
  });

  test('is found out at the next write while it is open', async () => {
    const store = await open();
    await store.commit({ put: [put('things', 'a')] });
    edit('UPDATE head SET sequence = sequence + 1');
    await assert.rejects(
      store.commit({ put: [put('things', 'b')] }),
      withErrorCode('HANSA_STORE_CORRUPT'),
    );
    assert.equal(store.get('things', 'b'), undefined);
    await store.close();
  });
});

describe('the schema', () => {
  test('of a newer Hansa is refused and left alone', async () => {
    await makeStore();
    edit(`UPDATE meta SET value = 999 WHERE key = 'schema_version'`);
    await assert.rejects(open(), (error: unknown) => {
      assert.match(String(error), /schema 999/);
      return withErrorCode('HANSA_STORE_NEWER')(error);
    });
    edit(`UPDATE meta SET value = ${schemaSteps.at(-1)?.version} WHERE key = 'schema_version'`);
    const store = await open();
    assert.equal(store.revision, 300);
    await store.close();
  });

  test('moves forward by the steps that the database has not seen, each once', () => {
    const database = new DatabaseSync(path);
    migrate(database);
    const next = { version: 1000, sql: 'CREATE TABLE extra (a); INSERT INTO extra VALUES (1)' };
    migrate(database, [...schemaSteps, next]);
    migrate(database, [...schemaSteps, next]);
    assert.deepEqual({ ...database.prepare('SELECT count(*) AS n FROM extra').get() }, { n: 1 });
    assert.throws(() => migrate(database), withErrorCode('HANSA_STORE_NEWER'));
    database.close();
  });

  test('stays where it was when a step fails', () => {
    const database = new DatabaseSync(path);
    migrate(database);
    const steps = [
      ...schemaSteps,
      { version: 1000, sql: 'CREATE TABLE extra (a)' },
      { version: 1001, sql: 'CREATE TABLE extra (a)' },
    ];
    assert.throws(() => migrate(database, steps), /already exists/);
    migrate(database);
    database.close();
  });
});

describe('the SQLite driver', () => {
  const batchAfter = (base: Head): Batch => ({
    base,
    head: { ...base, sequence: base.sequence + 1 },
    changes: [],
    superseded: [],
    audit: [],
    subtrees: [],
    leases: [{ name: 'work', holder: 'one', epoch: base.sequence + 1, expiresAtMs: 0 }],
    facts: [],
  });

  test('writes batches that overlap in order, and none behind one that failed', async () => {
    const driver = new SqliteDriver(path, systemClock);
    const { head } = await driver.open();
    const first = batchAfter(head);
    const second = batchAfter(first.head);
    await Promise.all([first, second].map((batch) => driver.transact(() => batch)));
    assert.equal(await driver.holds(first), true);
    assert.equal(await driver.holds(second), true);
    const third = batchAfter(second.head);
    const doubled = {
      ...third,
      leases: [],
      facts: [],
      subtrees: [],
      superseded: [],
      changes: [
        { revision: 1, collection: 'a', name: 'a', value: undefined, previous: 0 },
        { revision: 1, collection: 'a', name: 'a', value: undefined, previous: 0 },
      ],
    };
    const behind = batchAfter(third.head);
    const outcomes = await Promise.allSettled(
      [doubled, behind].map((batch) => driver.transact(() => batch)),
    );
    for (const outcome of outcomes) {
      assert.ok(outcome.status === 'rejected' && outcome.reason instanceof TransactionFailed);
      assert.equal(outcome.reason.outcome, 'none');
    }
    assert.equal(await driver.holds(third), false);
    await driver.transact(() => third);
    await driver.close();
  });

  test('reopens the database after a failure, and reports whether the batch was written', async () => {
    const driver = new SqliteDriver(path, systemClock);
    const { head } = await driver.open();
    const first = batchAfter(head);
    await driver.transact(() => first);
    const second = batchAfter(first.head);
    assert.equal(await driver.holds(second), false);
    assert.equal(await driver.holds(first), true);
    await driver.transact(() => second);
    assert.equal(await driver.holds(second), true);
    await assert.rejects(
      driver.transact(() => second),
      (error) => error instanceof TransactionFailed && error.outcome === 'none',
    );
    await driver.close();
    await driver.close();
  });
});

describe('the first rows of a batch', () => {
  const row = (revision: number, collection = 'a'): ChangeRow => ({
    revision,
    collection,
    name: `n${revision}`,
    value: Buffer.from(`value ${revision}`),
    previous: 0,
  });
  const record = (index: number): AuditRecord => ({
    index,
    leafHash: Buffer.alloc(32, index),
    body: Buffer.from(`audit ${index}`),
  });
  const batchOf = (base: Head, rows: FirstRows): Batch => ({
    base,
    head: {
      ...base,
      sequence: base.sequence + 1,
      revision: base.revision + rows.changes.length,
      treeSize: base.treeSize + rows.audit.length,
    },
    ...rows,
    superseded: [],
    subtrees: [],
    leases: [],
    facts: [],
  });
  /** Begins with the first change and record, and writes all of the batch. */
  const written = (driver: SqliteDriver, batch: Batch): Promise<void> =>
    driver.transact(({ writeFirst }) => {
      writeFirst?.({ changes: batch.changes.slice(0, 1), audit: batch.audit.slice(0, 1) });
      return batch;
    });
  const changesIn = async (driver: SqliteDriver): Promise<readonly string[]> =>
    (await driver.readChanges(0)).map(({ name, value }) => `${name} ${value?.toString()}`);

  test('are written once, together with the others', async () => {
    const driver = new SqliteDriver(path, systemClock);
    const { head } = await driver.open();
    const rows = { changes: [row(1), row(2), row(3)], audit: [record(0), record(1)] };
    await written(driver, batchOf(head, rows));
    assert.deepEqual(await changesIn(driver), ['n1 value 1', 'n2 value 2', 'n3 value 3']);
    assert.deepEqual((await driver.readAudit(0, 10, 1000)).map(String), ['audit 0', 'audit 1']);
    await driver.close();
  });

  test('are not written where the rest of the batch is refused', async () => {
    const driver = new SqliteDriver(path, systemClock);
    const { head } = await driver.open();
    const rows = { changes: [row(1), row(2)], audit: [] };
    const elsewhere = batchOf({ ...head, sequence: 7 }, rows);
    const doubled = batchOf(head, { changes: [row(1), row(2), row(2)], audit: [] });
    for (const refused of [elsewhere, doubled]) {
      await assert.rejects(
        written(driver, refused),
        (error) => error instanceof TransactionFailed && error.outcome === 'none',
      );
      assert.deepEqual(await changesIn(driver), []);
    }
    await written(driver, batchOf(head, rows));
    assert.deepEqual(await changesIn(driver), ['n1 value 1', 'n2 value 2']);
    await driver.close();
  });

  test('are not written where no batch follows', async () => {
    const driver = new SqliteDriver(path, systemClock);
    const { head } = await driver.open();
    await assert.rejects(
      driver.transact(({ writeFirst }) => {
        writeFirst?.({ changes: [row(1)], audit: [] });
        throw new Error('planning failed');
      }),
      /planning failed/,
    );
    const rows = { changes: [row(1, 'b')], audit: [] };
    const batch = batchOf(head, rows);
    await driver.transact(() => batch);
    const [change, ...others] = await driver.readChanges(0);
    assert.deepEqual([change?.collection, others], ['b', []]);
    await driver.close();
  });

  test('that cannot be written fail the batch, and say that another process wrote', async () => {
    const driver = new SqliteDriver(path, systemClock);
    const { head } = await driver.open();
    const first = batchOf(head, { changes: [row(1)], audit: [] });
    await driver.transact(() => first);
    const again = batchOf(head, { changes: [row(1), row(2)], audit: [] });
    await assert.rejects(
      written(driver, again),
      (error) =>
        error instanceof TransactionFailed &&
        error.outcome === 'none' &&
        /another process wrote/.test(error.message),
    );
    const next = batchOf(first.head, { changes: [row(1), row(2)], audit: [] });
    await assert.rejects(
      written(driver, next),
      (error) => error instanceof TransactionFailed && /UNIQUE/.test(error.message),
    );
    await written(driver, batchOf(first.head, { changes: [row(2)], audit: [] }));
    assert.deepEqual(await changesIn(driver), ['n1 value 1', 'n2 value 2']);
    await driver.close();
  });

  test('wait for the batch where they contain a sealed value', async () => {
    const driver = new SqliteDriver(path, systemClock);
    const { head } = await driver.open();
    const rows = { changes: [row(1, 'keys.secrets'), row(2)], audit: [] };
    await written(driver, batchOf(head, rows));
    assert.deepEqual(await changesIn(driver), ['n1 value 1', 'n2 value 2']);
    await driver.close();
  });
});

describe('reading the audit log', () => {
  test('goes on beside writing, and sees each row as soon as its commit has resolved', async () => {
    const store = await open();
    for (let at = 0; at < 50; at++) {
      const [rows] = await Promise.all([
        store.auditLog.read(0, 1000),
        store.commit({ audit: [audit(`row ${at}`)] }),
      ]);
      assert.ok(rows.length >= at);
      assert.equal((await store.auditLog.read(at, 1)).toString(), `row ${at}`);
    }
    await store.close();
  });
});

test('leases of a process that is gone are free when the store is opened again', async () => {
  const first = await open();
  const held = await first.leases.acquire('controllers', 'one', 3_600_000);
  await first.close();
  const second = await open();
  const taken = await second.leases.acquire('controllers', 'two', 3_600_000);
  await second.close();
  assert.equal(taken?.epoch, (held?.epoch ?? 0) + 1);
});

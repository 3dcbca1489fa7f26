import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { SeededRandom } from '../../clock/seeded-random.ts';
import { systemClock } from '../../clock/system.ts';
import { put, withErrorCode } from '../conformance/harness.ts';
import { MemoryDatabase } from '../memory/driver.ts';
import { openStore, type StoreLocation } from '../open.ts';
import { isSealed } from './sealed-collections.ts';
import { createSealer } from './sealer.ts';
import { schemaSteps } from '../sqlite/schema.ts';
import type { Change, Store } from '../store.ts';

const collection = 'site.secrets';
let folder: string;
let count = 0;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'hansa-sealed-'));
});
after(() => rm(folder, { recursive: true }));

/** Larger than a page of the database, so that it has pages of its own too. */
const secret = (which: string): Buffer => Buffer.from(`<${which} secret>`.repeat(600));
const open = (location: StoreLocation): Promise<Store> =>
  openStore(location, { clock: systemClock });
const seal = (store: Store, which: string, name = 'authorities') =>
  store.commit({ put: [{ collection, name, encode: () => secret(which) }] });
const newPath = (): string => join(folder, `${count++}.db`);

/** Whether any file of the database holds these bytes, in use or not. */
async function fileHolds(path: string, text: string): Promise<boolean> {
  const names = (await readdir(folder)).filter((name) => join(folder, name).startsWith(path));
  assert.ok(names.length > 0);
  const files = await Promise.all(names.map((name) => readFile(join(folder, name))));
  return files.some((bytes) => bytes.includes(text));
}

describe('a sealed record that was replaced', () => {
  test('is in no file of the database as soon as the commit resolves', async () => {
    const path = newPath();
    const store = await open({ driver: 'sqlite', path });
    await seal(store, 'first');
    assert.ok(await fileHolds(path, '<first secret>'));
    // Others stand around it, and are read meanwhile.
    for (let at = 0; at < 50; at++) await store.commit({ put: [put('things', `n${at}`)] });
    await store.auditLog.read(0, 1);
    await seal(store, 'second');
    assert.ok(!(await fileHolds(path, '<first secret>')));
    assert.ok(await fileHolds(path, '<second secret>'));
    await store.commit({ delete: [{ collection, name: 'authorities' }] });
    assert.ok(!(await fileHolds(path, '<second secret>')));
    await store.close();
  });

  // Without that, each of the commits would wait for five seconds.
  test('delays no later commit while another program reads, and is gone with the first one after that', {
    timeout: 60_000,
  }, async (t) => {
    const path = newPath();
    const store = await open({ driver: 'sqlite', path });
    await seal(store, 'first');
    const backup = new DatabaseSync(path, { readOnly: true });
    t.after(() => {
      if (backup.isOpen) backup.close();
      return store.close();
    });
    backup.exec('BEGIN');
    backup.prepare('SELECT count(*) FROM changes').get();
    await seal(store, 'second');
    for (let at = 0; at < 20; at++) await store.commit({ put: [put('things', `n${at}`)] });
    assert.ok(await fileHolds(path, '<first secret>'));
    backup.close();
    await store.commit({ put: [put('things', 'last')] });
    assert.ok(!(await fileHolds(path, '<first secret>')));
  });

  test('is not there either where one transaction replaced it at once', async () => {
    const path = newPath();
    const store = await open({ driver: 'sqlite', path });
    await Promise.all([seal(store, 'first'), seal(store, 'second'), seal(store, 'third')]);
    assert.ok(!(await fileHolds(path, '<first secret>')));
    assert.ok(!(await fileHolds(path, '<second secret>')));
    assert.deepEqual(store.get(collection, 'authorities')?.value, secret('third'));
    await store.close();
  });

  test('leaves the newest one readable after a restart, with a watch from before', async () => {
    const path = newPath();
    const first = await open({ driver: 'sqlite', path });
    await seal(first, 'first');
    await seal(first, 'second');
    await seal(first, 'other', 'checkpoint-key');
    await first.close();
    const store = await open({ driver: 'sqlite', path });
    assert.deepEqual(store.get(collection, 'authorities')?.value, secret('second'));
    assert.deepEqual(store.get(collection, 'checkpoint-key')?.value, secret('other'));
    await store.compact(store.revision);
    await store.close();
    const again = await open({ driver: 'sqlite', path });
    assert.deepEqual(again.get(collection, 'authorities')?.value, secret('second'));
    await again.close();
  });

  test('is not in the rows of the memory driver', async () => {
    const database = new MemoryDatabase();
    const store = await open({ driver: 'memory', database });
    await seal(store, 'first');
    await seal(store, 'second');
    await Promise.all([seal(store, 'third'), seal(store, 'fourth')]);
    const values = [...database.changes.values()].map(({ value }) => value?.toString() ?? '');
    assert.deepEqual(
      ['first', 'second', 'third', 'fourth'].filter((which) =>
        values.some((value) => value.includes(`<${which} secret>`)),
      ),
      ['fourth'],
    );
    await store.close();
    const again = await open({ driver: 'memory', database });
    assert.deepEqual(again.get(collection, 'authorities')?.value, secret('fourth'));
    await again.close();
  });

  for (const driver of ['memory', 'sqlite'] as const) {
    test(`is named and not shown to a watch that goes on from before (${driver})`, async () => {
      const location: StoreLocation =
        driver === 'memory' ? { driver } : { driver, path: newPath() };
      const store = await open(location);
      await seal(store, 'first');
      await seal(store, 'second');
      const changes: Change[] = [];
      const watch = store.watch(collection, 0, {
        changes: (some) => changes.push(...some),
        ended: () => undefined,
      });
      await store.commit({ put: [put('things', 'a')] });
      watch.stop();
      assert.deepEqual(
        changes.map(({ name }) => name),
        ['authorities', 'authorities'],
      );
      for (const { entry, previous } of changes) {
        assert.equal(entry?.value.byteLength, 0);
        assert.ok(previous === undefined || previous.value.byteLength === 0);
      }
      await store.close();
    });
  }
});

describe('a database from before', () => {
  const oldDatabase = (path: string): void => {
    const database = new DatabaseSync(path);
    database.exec('PRAGMA journal_mode = WAL; PRAGMA application_id = 0x484e5341');
    database.exec(
      'CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID',
    );
    database.exec(schemaSteps[0]?.sql ?? '');
    database.exec(`INSERT INTO meta VALUES ('schema_version', 1)`);
    const insert = database.prepare('INSERT INTO changes VALUES (?, ?, ?, ?, ?)');
    insert.run(1, collection, 'authorities', 0, secret('first'));
    insert.run(2, 'things', 'a', 0, Buffer.from('a'));
    insert.run(3, collection, 'gone', 0, secret('gone'));
    insert.run(4, collection, 'authorities', 1, secret('second'));
    insert.run(5, collection, 'gone', 3, null);
    database.exec('UPDATE head SET revision = 5, sequence = 5');
    // Compacted, and still in a free page.
    insert.run(6, collection, 'older', 0, secret('older'));
    database.exec('DELETE FROM changes WHERE revision = 6');
    database.close();
  };

  test('is cleaned when it is opened, and keeps what is current', async () => {
    const path = newPath();
    oldDatabase(path);
    for (const which of ['first', 'gone', 'older']) {
      assert.ok(await fileHolds(path, `<${which} secret>`), which);
    }
    const store = await open({ driver: 'sqlite', path });
    for (const which of ['first', 'gone', 'older']) {
      assert.ok(!(await fileHolds(path, `<${which} secret>`)), which);
    }
    assert.equal(store.revision, 5);
    assert.deepEqual(store.get(collection, 'authorities')?.value, secret('second'));
    assert.equal(store.get(collection, 'gone'), undefined);
    assert.equal(store.get('things', 'a')?.value.toString(), 'a');
    await store.close();
  });
});

test('a plane names a collection for secrets, and nothing else has to know it', async () => {
  for (const name of ['site.secrets', 'overlay.secrets', 'trust.acme', 'peering.acceptances']) {
    assert.ok(isSealed(name), name);
  }
  for (const name of ['secrets', 'trust.join-secrets', 'overlay.secrets.old', 'things']) {
    assert.ok(!isSealed(name), name);
  }
  const store = await open({ driver: 'memory' });
  const place = { collection: 'overlay.secrets', name: 'key' };
  for (const which of ['first', 'second']) {
    await store.commit({ put: [{ ...place, encode: () => secret(which) }] });
  }
  const seen: Change[] = [];
  store.watch('overlay.secrets', 0, { changes: (changes) => seen.push(...changes), ended() {} });
  await Promise.resolve();
  assert.deepEqual(
    seen.map(({ entry }) => entry?.value.byteLength),
    [0, 0],
  );
  await store.close();
});

test('nothing is sealed for a collection that keeps its history', async () => {
  const sealer = createSealer(Buffer.alloc(32, 7), new SeededRandom('x'));
  const place = { collection: 'things', key: 'a', column: 'value', version: 1 };
  await assert.rejects(sealer.seal(place, Buffer.from('x')), /things .*ends in \.secrets/);
  await assert.rejects(sealer.open(place, Buffer.from('x')), withErrorCode('HANSA_SEAL_BROKEN'));
});

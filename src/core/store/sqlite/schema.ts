// The schema of the SQLite driver, as an append-only list of migration steps: a released step never
// changes. A database stores the number of its last step.

import type { DatabaseSync } from 'node:sqlite';
import { HansaError } from '../../errors/error.ts';

export interface SchemaStep {
  readonly version: number;
  readonly sql: string;
}

/** "HNSA": identifies the database, for example to `file`. */
export const applicationId = 0x484e5341;

export const schemaSteps: readonly SchemaStep[] = [
  {
    version: 1,
    sql: `
      CREATE TABLE head (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        sequence INTEGER NOT NULL,
        revision INTEGER NOT NULL,
        compacted_revision INTEGER NOT NULL,
        tree_size INTEGER NOT NULL,
        frontier BLOB NOT NULL
      ) STRICT;
      INSERT INTO head VALUES (1, 0, 0, 0, 0, x'');

      CREATE TABLE changes (
        revision INTEGER PRIMARY KEY,
        collection TEXT NOT NULL,
        name TEXT NOT NULL,
        previous INTEGER NOT NULL,
        value BLOB
      ) STRICT;

      CREATE TABLE audit (
        idx INTEGER PRIMARY KEY,
        leaf_hash BLOB NOT NULL,
        body BLOB NOT NULL
      ) STRICT;
      CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'audit rows cannot be deleted'); END;
      CREATE TRIGGER audit_keeps_values BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'audit rows cannot be changed'); END;
      -- REPLACE deletes without firing the trigger above.
      CREATE TRIGGER audit_appends BEFORE INSERT ON audit
        WHEN NEW.idx <= (SELECT max(idx) FROM audit)
        BEGIN SELECT RAISE(ABORT, 'audit rows can only be appended'); END;

      CREATE TABLE audit_subtree (
        level INTEGER NOT NULL,
        number INTEGER NOT NULL,
        hash BLOB NOT NULL,
        PRIMARY KEY (level, number)
      ) STRICT, WITHOUT ROWID;
      CREATE TRIGGER audit_subtree_keeps_rows BEFORE DELETE ON audit_subtree
        BEGIN SELECT RAISE(ABORT, 'hashes of the audit log cannot be deleted'); END;
      CREATE TRIGGER audit_subtree_keeps_values BEFORE UPDATE ON audit_subtree
        BEGIN SELECT RAISE(ABORT, 'hashes of the audit log cannot be changed'); END;

      CREATE TABLE lease (
        name TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        expires_at_ms REAL NOT NULL
      ) STRICT, WITHOUT ROWID;

      CREATE TABLE fact (
        collection TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (collection, name)
      ) STRICT, WITHOUT ROWID;
    `,
  },
  {
    // Values of sealed collections (sealed-collections.ts) in pages that hold nothing else, so that
    // erasing one costs other writes nothing. Their rows in changes have an empty value.
    version: 2,
    sql: `
      CREATE TABLE sealed (
        revision INTEGER PRIMARY KEY,
        value BLOB NOT NULL
      ) STRICT;
      INSERT INTO sealed
        SELECT revision, value FROM changes AS one
        WHERE collection IN ('site.secrets', 'trust.acme', 'peering.acceptances')
          AND value IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM changes AS later WHERE later.previous = one.revision);
      UPDATE changes SET value = x''
        WHERE collection IN ('site.secrets', 'trust.acme', 'peering.acceptances')
          AND value IS NOT NULL;
      -- Free pages hold what was erased before: see SqliteDatabase.open.
      INSERT INTO meta SELECT 'vacuum_due', 1 WHERE EXISTS (SELECT 1 FROM changes);
    `,
  },
];

/** Applies the steps that the database has not seen, all in one transaction. */
export function migrate(database: DatabaseSync, steps: readonly SchemaStep[] = schemaSteps): void {
  const newest = steps.at(-1)?.version ?? 0;
  database.exec('BEGIN IMMEDIATE');
  try {
    const present = schemaVersion(database);
    if (present > newest) {
      throw new HansaError(
        'HANSA_STORE_NEWER',
        `Cannot open the store: it has schema ${present}, but this version of Hansa supports up to ${newest}. Start the newer version.`,
      );
    }
    for (const step of steps) if (step.version > present) database.exec(step.sql);
    if (present < newest) {
      database
        .prepare(
          `INSERT INTO meta VALUES ('schema_version', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
        )
        .run(newest);
    }
    database.exec('COMMIT');
  } catch (error) {
    if (database.isTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** 0 for a new, empty file. Throws for a database of another program. */
function schemaVersion(database: DatabaseSync): number {
  const id = readPragma(database, 'application_id');
  if (id === applicationId) {
    const row = database.prepare(`SELECT value FROM meta WHERE key = 'schema_version'`).get();
    return Number(row?.['value']);
  }
  const tables = database.prepare('SELECT count(*) AS count FROM sqlite_schema').get();
  if (id !== 0 || tables?.['count'] !== 0) {
    throw new HansaError(
      'HANSA_STORE_CORRUPT',
      'Cannot open the store: the file is a database of another program.',
    );
  }
  database.exec(`PRAGMA application_id = ${applicationId}`);
  database.exec(
    'CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID',
  );
  return 0;
}

function readPragma(database: DatabaseSync, name: string): unknown {
  return database.prepare(`PRAGMA ${name}`).get()?.[name];
}

// What someone with the files of a stopped site can do to its audit log: remove or change rows in the database,
// compute the hashes again, sign again with the key of the site, or put back an older copy of the data folder.

import { cpSync, lstatSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { signCheckpoint } from '../../src/core/audit/checkpoint.ts';
import { type AuditEvent, parseEvent } from '../../src/core/audit/event.ts';
import type { NoteSigner } from '../../src/core/audit/note.ts';
import { logSigner } from '../../src/core/audit/restore-record.ts';
import { systemClock, systemRandom } from '../../src/core/clock/system.ts';
import { importPkcs8 } from '../../src/core/identity/x509/keys.ts';
import { Frontier, leafHash } from '../../src/core/merkle/tree.ts';
import { storedLevel } from '../../src/core/store/commit/subtree-hashes.ts';
import { openStore } from '../../src/core/store/open.ts';
import { loadOrCreateKey } from '../../src/core/store/sealing/key-file.ts';
import { createSealer } from '../../src/core/store/sealing/sealer.ts';
import type { Store } from '../../src/core/store/store.ts';
import { dataFolderAt } from '../../src/server/data-folder.ts';
import { secretRecord, settleTrustDomain } from '../../src/server/secret-records.ts';

/** Replaces `to` with a copy of the data folder of a stopped site. */
export function copyFolder(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, {
    recursive: true,
    preserveTimestamps: true,
    filter: (path) => !lstatSync(path).isSocket(),
  });
}

/** The store of a stopped site, and the signer of its audit log. */
export async function withStore<T>(
  dataDir: string,
  use: (store: Store, key: ReturnType<typeof importPkcs8>, trustDomain: string) => Promise<T>,
): Promise<T> {
  const folder = dataFolderAt(dataDir);
  const store = await openStore({ driver: 'sqlite', path: folder.store }, { clock: systemClock });
  try {
    const sealer = createSealer(
      await loadOrCreateKey(folder.keyFile, systemRandom, 'the store'),
      systemRandom,
    );
    const secret = await secretRecord(store, sealer, 'checkpoint-key').load();
    if (secret === undefined) throw new Error(`${dataDir} has no key of an audit log`);
    return await use(store, importPkcs8(secret), await settleTrustDomain(store, undefined));
  } finally {
    await store.close();
  }
}

export function signerOf(dataDir: string): Promise<NoteSigner> {
  return withStore(dataDir, async (store, key, trustDomain) => logSigner(store, trustDomain, key));
}

/** The rows of the audit log in the database file of a stopped site. */
export class AuditFile {
  readonly #database: DatabaseSync;
  readonly #triggers: readonly string[];

  /** Drops the triggers that keep rows as they are. `close` puts them back, so that nothing shows the change. */
  constructor(dataDir: string) {
    this.#database = new DatabaseSync(dataFolderAt(dataDir).store);
    const triggers = this.#database
      .prepare(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'`)
      .all();
    this.#triggers = triggers.map(({ sql }) => String(sql));
    for (const { name } of triggers) this.#database.exec(`DROP TRIGGER ${String(name)}`);
  }

  get size(): number {
    return Number(this.#database.prepare('SELECT count(*) AS size FROM audit').get()?.['size']);
  }

  /** Only the rows. */
  cut(size: number): void {
    this.#database.prepare('DELETE FROM audit WHERE idx >= ?').run(size);
  }

  /** Changes the first event for which `change` returns another one, and nothing else. Returns its index. */
  rewrite(change: (event: AuditEvent) => AuditEvent | undefined): number {
    for (const { idx, body } of this.#rows()) {
      const event = change(parseEvent(body));
      if (event === undefined) continue;
      const text = Buffer.from(JSON.stringify(event));
      parseEvent(text);
      this.#database.prepare('UPDATE audit SET body = ? WHERE idx = ?').run(text, idx);
      return idx;
    }
    throw new Error('no event was changed');
  }

  /** Makes all hashes fit the rows. Returns the head of the tree. */
  rehash(): { readonly size: number; readonly rootHash: Buffer } {
    const frontier = Frontier.empty();
    this.#database.exec('DELETE FROM audit_subtree');
    const hash = this.#database.prepare('UPDATE audit SET leaf_hash = ? WHERE idx = ?');
    const subtree = this.#database.prepare('INSERT INTO audit_subtree VALUES (?, ?, ?)');
    for (const { idx, body } of this.#rows()) {
      const leaf = leafHash(body);
      hash.run(leaf, idx);
      frontier.append(leaf, (height, number, root) => {
        const level = storedLevel(height);
        if (level !== undefined) subtree.run(level, number, root);
      });
    }
    this.#database
      .prepare('UPDATE head SET tree_size = ?, frontier = ?')
      .run(frontier.size, frontier.encode());
    return { size: frontier.size, rootHash: frontier.root() };
  }

  /** `rehash`, and then a checkpoint by the key of the site in place of its own. */
  async resign(signer: NoteSigner): Promise<void> {
    const { note } = await signCheckpoint(signer, this.rehash());
    this.#database
      .prepare(
        `UPDATE changes SET value = ? WHERE revision =
          (SELECT max(revision) FROM changes WHERE collection = 'audit.checkpoints' AND name = 'latest')`,
      )
      .run(Buffer.from(note));
  }

  close(): void {
    for (const sql of this.#triggers) this.#database.exec(sql);
    this.#database.close();
  }

  #rows(): readonly { readonly idx: number; readonly body: Uint8Array }[] {
    return this.#database.prepare('SELECT idx, body FROM audit ORDER BY idx').all() as never;
  }
}

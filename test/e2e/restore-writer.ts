// Restores a site from a copy of its data folder, as far as the audit log is concerned: ends the log of the copy,
// opens the next one, and writes the signed record that tells peers so. The product has no command for it yet.

import { signCheckpoint } from '../../src/core/audit/checkpoint.ts';
import { storedCosignatures } from '../../src/core/audit/cosignatures.ts';
import { encodeEvent } from '../../src/core/audit/event.ts';
import { noteSigner } from '../../src/core/audit/note.ts';
import {
  latestRestore,
  logSigner,
  restoreCollection,
  type RestoreRecord,
  signRestore,
} from '../../src/core/audit/restore-record.ts';
import { emptyRoot } from '../../src/core/merkle/tree.ts';
import { AuditFile, withStore } from './tampered-store.ts';

/** For the data folder of a stopped site that was never restored before. */
export async function writeRestore(dataDir: string): Promise<RestoreRecord> {
  const time = new Date().toISOString();
  const record = await withStore(dataDir, (store, key, trustDomain) => {
    const last = storedCosignatures(store)[0]?.checkpoint ?? { size: 0, rootHash: emptyRoot };
    const next = noteSigner(`${trustDomain}/log/2`, key);
    return signRestore(logSigner(store, trustDomain, key), next, last, time);
  });
  const file = new AuditFile(dataDir);
  file.cut(0);
  file.rehash();
  file.close();
  await withStore(dataDir, async (store, key) => {
    const root = record.rootHash.toString('base64');
    await store.commit({
      put: [
        {
          collection: restoreCollection,
          name: latestRestore,
          encode: () => Buffer.from(record.note),
        },
      ],
      audit: [
        {
          encode: ({ index, revision }) =>
            encodeEvent({
              time,
              index,
              revision,
              actor: { user: 'system:restore', groups: [], via: 'controller' },
              verb: 'audit.restored',
              outcome: 'allow',
              reason: `The log ${record.ended} ended. Last cosigned checkpoint: ${record.size} ${root}`,
            }),
        },
      ],
    });
    const { size, rootHash } = store.auditLog;
    const { note } = await signCheckpoint(noteSigner(record.next.name, key), { size, rootHash });
    const place = { collection: 'audit.checkpoints', name: 'latest' };
    await store.commit({ put: [{ ...place, encode: () => Buffer.from(note) }] });
  });
  return record;
}

// Verifies the audit log in the store of a site that does not run. It does not write to the store.

import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseCheckpoint } from '../../core/audit/checkpoint.ts';
import { storedCosignatures } from '../../core/audit/cosignatures.ts';
import { logSigner } from '../../core/audit/restore-record.ts';
import { storedCheckpoint } from '../../core/audit/log.ts';
import type { Verified, VerifyOptions } from '../../core/audit/signed-head.ts';
import { verifyLog } from '../../core/audit/verify.ts';
import { HansaError } from '../../core/errors/error.ts';
import { importPkcs8 } from '../../core/identity/x509/keys.ts';
import { loadOrCreateKey } from '../../core/store/sealing/key-file.ts';
import { openStore } from '../../core/store/open.ts';
import { createSealer } from '../../core/store/sealing/sealer.ts';
import type { Store } from '../../core/store/store.ts';
import { dataFolderAt } from '../../server/data-folder.ts';
import { readRemembered } from '../../server/config/remembered-settings.ts';
import { secretRecord, settleTrustDomain } from '../../server/secret-records.ts';
import type { Io } from '../../core/plane/command-kit.ts';

export interface StoppedLog {
  readonly verified: Verified;
  /** Events after the last checkpoint. The site signs them at its next start. */
  readonly unsigned: number;
}

/** Undefined if there is no store. */
export async function verifyStoppedLog(
  dataDir: string,
  keyFile: string | undefined,
  io: Io,
  options: VerifyOptions,
): Promise<StoppedLog | undefined> {
  const folder = dataFolderAt(dataDir);
  // Without HANSA_KEY_FILE, use the --key-file of the last start, which the data folder keeps.
  const remembered = readRemembered(dataDir)?.values.get('keyFile')?.text;
  const isGiven = keyFile !== undefined && keyFile !== '';
  const keyPath = isGiven
    ? resolve(io.cwd, keyFile)
    : resolve(dataDir, remembered ?? folder.keyFile);
  if (!existsSync(folder.store)) return undefined;
  const store = await openStore({ driver: 'sqlite', path: folder.store }, { clock: io.clock });
  try {
    const note = storedCheckpoint(store);
    if (note === undefined) {
      throw new HansaError('HANSA_AUDIT_INVALID', 'The store has no checkpoint of its audit log.');
    }
    const key = options.key ?? (await ownKey(store, keyPath, io));
    const checkpoint = parseCheckpoint(note);
    const cosigned = storedCosignatures(store);
    const verified = await verifyLog(store.auditLog, checkpoint, { ...options, key }, cosigned);
    return { verified, unsigned: store.auditLog.size - verified.size };
  } finally {
    await store.close();
  }
}

async function ownKey(store: Store, keyPath: string, io: Io) {
  if (!existsSync(keyPath)) {
    const message = `Cannot decrypt the key of the audit log: the key-encryption key ${keyPath} does not exist. Name it with HANSA_KEY_FILE, or give the public key of the log with --key.`;
    throw new HansaError('HANSA_SEAL_BROKEN', message);
  }
  const sealer = createSealer(await loadOrCreateKey(keyPath, io.random, 'the store'), io.random);
  const secret = await secretRecord(store, sealer, 'checkpoint-key').load();
  if (secret === undefined) {
    throw new HansaError('HANSA_AUDIT_INVALID', 'The store has no key of its audit log.');
  }
  const trustDomain = await settleTrustDomain(store, undefined);
  return logSigner(store, trustDomain, importPkcs8(secret)).verifier;
}

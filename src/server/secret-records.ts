// Secrets in the store: sealed records in dotted collections, made once.

import type { KeyObject } from 'node:crypto';
import type { Random } from '../core/clock/clock.ts';
import { HansaError, hasCode } from '../core/errors/error.ts';
import { exportPkcs8, generateEd25519, importPkcs8 } from '../core/identity/x509/keys.ts';
import type { Sealer } from '../core/store/sealing/sealer.ts';
import type { AuditRow, Store, Watch } from '../core/store/store.ts';

const collection = 'site.secrets';
const recordVersion = 1;

export interface SecretRecord {
  load(): Promise<Buffer | undefined>;
  /** False where there is one already. */
  create(secret: Buffer): Promise<boolean>;
  /** In the place of the one that was loaded or created last; HANSA_CONFLICT where that has changed. */
  replace(secret: Buffer, audit: readonly AuditRow[]): Promise<void>;
  /** Calls after every change of the record; returns how to stop that. */
  watch(changed: () => void): () => void;
}

/** `auditRow` tells the log that the secret was made, never what it is. */
export function secretRecord(
  store: Store,
  sealer: Sealer,
  name: string,
  auditRow?: () => AuditRow,
): SecretRecord {
  const place = { collection, key: name, column: 'value', version: recordVersion };
  /** The revision of what was seen last. */
  let seen: number | undefined;
  return {
    load: async () => {
      const entry = store.get(collection, name);
      if (entry === undefined) return undefined;
      seen = entry.revision;
      try {
        return await sealer.open(place, entry.value);
      } catch (error) {
        if (!hasCode(error, 'HANSA_SEAL_BROKEN')) throw error;
        throw new HansaError(
          error,
          `${error.message} Start with the --key-file that this data folder was first started with.`,
          { cause: error },
        );
      }
    },
    create: async (secret) => {
      const sealed = await sealer.seal(place, secret);
      try {
        const { entries } = await store.commit({
          expect: [{ collection, name, at: 'absent' }],
          put: [{ collection, name, encode: () => sealed }],
          ...(auditRow === undefined ? {} : { audit: [auditRow()] }),
        });
        seen = entries[0]?.revision;
        return true;
      } catch (error) {
        if (hasCode(error, 'HANSA_CONFLICT')) return false;
        throw error;
      }
    },
    replace: async (secret, audit) => {
      const sealed = await sealer.seal(place, secret);
      const { entries } = await store.commit({
        expect: [{ collection, name, at: seen ?? 'absent' }],
        put: [{ collection, name, encode: () => sealed }],
        audit,
      });
      seen = entries[0]?.revision;
    },
    watch: (changed) => watchRecord(store, name, changed),
  };
}

function watchRecord(store: Store, name: string, changed: () => void): () => void {
  let watch: Watch | undefined;
  const begin = (): void => {
    watch = store.watch(collection, store.revision, {
      changes: (changes) => {
        if (changes.some((change) => change.name === name)) changed();
      },
      ended: (error) => {
        if (!hasCode(error, 'HANSA_EXPIRED')) return;
        // What happened meanwhile is unknown, so it is looked at.
        begin();
        changed();
      },
    });
  };
  begin();
  return () => watch?.stop();
}

/**
 * A secret that a site is founded upon. It is made at the first start, before the first audit record;
 * where it is missing later somebody took it away, and a new one would hide that.
 */
export function foundingSecret(store: Store, sealer: Sealer, name: string): SecretRecord {
  const record = secretRecord(store, sealer, name);
  return {
    load: () => record.load(),
    replace: (secret, audit) => record.replace(secret, audit),
    watch: (changed) => record.watch(changed),
    create: (secret) => {
      // Where another replica was first, it may have written records since.
      const isThere = store.get(collection, name) !== undefined;
      if (isThere || store.auditLog.size === 0) return record.create(secret);
      throw new HansaError(
        'HANSA_STORE_CORRUPT',
        `Cannot start: the store holds ${store.auditLog.size} audit records, but its secret ${name} is gone. Restore it from a backup.`,
      );
    },
  };
}

/** The key that signs the checkpoints of the audit log. */
export async function checkpointKey(
  store: Store,
  sealer: Sealer,
  random: Random,
): Promise<KeyObject> {
  const record = foundingSecret(store, sealer, 'checkpoint-key');
  for (;;) {
    const known = await record.load();
    if (known !== undefined) return importPkcs8(known);
    const made = await generateEd25519(random);
    if (await record.create(exportPkcs8(made))) return made;
  }
}

const identityCollection = 'site.identity';
const trustDomainName = 'trust-domain';

export function noTrustDomain(): HansaError {
  return new HansaError(
    'HANSA_CONFIG_INVALID',
    'Cannot start: this data folder is new, and no trust domain is given. Choose one that is yours, for example --trust-domain lubeck.example.',
  );
}

/** The trust domain is chosen at the first start and stays: every identity carries it. */
export async function settleTrustDomain(
  store: Store,
  configured: string | undefined,
): Promise<string> {
  const entry = store.get(identityCollection, trustDomainName);
  const known = entry?.value.toString('utf8');
  if (known === undefined) {
    if (configured === undefined) throw noTrustDomain();
    await store.commit({
      expect: [{ collection: identityCollection, name: trustDomainName, at: 'absent' }],
      put: [
        {
          collection: identityCollection,
          name: trustDomainName,
          encode: () => Buffer.from(configured, 'utf8'),
        },
      ],
    });
    return configured;
  }
  if (configured !== undefined && configured !== known) {
    throw new HansaError(
      'HANSA_CONFIG_INVALID',
      `Cannot start as trust domain ${configured}: this data folder belongs to ${known}. Start it with that trust domain, or with another --data-dir.`,
    );
  }
  return known;
}

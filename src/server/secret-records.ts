// Sealed secrets of the site in the store, such as signing keys. A secret is created once, and
// changed only by compare-and-set.

import type { KeyObject } from 'node:crypto';
import type { Random } from '../core/clock/clock.ts';
import { HansaError, hasCode } from '../core/errors/error.ts';
import { exportPkcs8, generateEd25519, importPkcs8 } from '../core/identity/x509/keys.ts';
import { commitFenced } from '../core/lease/current-fence.ts';
import type { Sealer } from '../core/store/sealing/sealer.ts';
import type { AuditRow, Store, Watch } from '../core/store/store.ts';

const collection = 'site.secrets';
const recordVersion = 1;

export interface SecretRecord {
  load(): Promise<Buffer | undefined>;
  /** False if the secret already exists. */
  create(secret: Buffer): Promise<boolean>;
  /** Replaces the last loaded or created secret. HANSA_CONFLICT if it has changed since. */
  replace(secret: Buffer, audit: readonly AuditRow[]): Promise<void>;
  /** Calls `changed` after every change of the record. The result stops it. */
  watch(changed: () => void): () => void;
}

/** `auditRow` records the creation of the secret, without its value. */
export function secretRecord(
  store: Store,
  sealer: Sealer,
  name: string,
  auditRow?: () => AuditRow,
): SecretRecord {
  const place = { collection, key: name, column: 'value', version: recordVersion };
  /** The last seen revision. */
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
        const { entries } = await commitFenced(store, {
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
      const { entries } = await commitFenced(store, {
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
        // Changes in the meantime are unknown, so starts again.
        begin();
        changed();
      },
    });
  };
  begin();
  return () => watch?.stop();
}

/**
 * A secret that the site creates at the first start, before the first audit record. If it is missing
 * later, it was removed, and a new one would hide that.
 */
export function foundingSecret(store: Store, sealer: Sealer, name: string): SecretRecord {
  const record = secretRecord(store, sealer, name);
  return {
    load: () => record.load(),
    replace: (secret, audit) => record.replace(secret, audit),
    watch: (changed) => record.watch(changed),
    create: (secret) => {
      // Another replica may have created it and already written records.
      const isThere = store.get(collection, name) !== undefined;
      if (isThere || store.auditLog.size === 0) return record.create(secret);
      throw new HansaError(
        'HANSA_STORE_CORRUPT',
        `Cannot start: the store has ${store.auditLog.size} audit records, but its secret ${name} is missing. Restore the store from a backup.`,
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
    'Cannot start: this data folder is new and needs a trust domain. Choose a name that you own, for example --trust-domain lubeck.example.',
  );
}

/** The trust domain is fixed at the first start, because every SPIFFE ID contains it. */
export async function settleTrustDomain(
  store: Store,
  configured: string | undefined,
): Promise<string> {
  const entry = store.get(identityCollection, trustDomainName);
  const known = entry?.value.toString('utf8');
  if (known === undefined) {
    if (configured === undefined) throw noTrustDomain();
    await commitFenced(store, {
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
      `Cannot start as trust domain ${configured}: this data folder belongs to ${known}. Use that trust domain or another --data-dir.`,
    );
  }
  return known;
}

// The last good keys of each cluster, in the store. They survive an outage of the issuer together with a restart,
// and tell which cluster proved a key, or published it first. One record for each cluster, deleted with it. Public
// keys only.

import { createHash, type JsonWebKey } from 'node:crypto';
import { clusterKind } from '../../api/kinds/cluster.ts';
import { hasCode } from '../../core/errors/error.ts';
import { spkiOf } from '../../core/identity/x509/keys.ts';
import { commitUnfenced } from '../../core/lease/current-fence.ts';
import type { Log } from '../../core/log/log.ts';
import { recordReader } from '../../core/store/reader.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import type { StoredCluster } from '../clusters/compile-cluster.ts';
import type { KeySet, VerificationKey } from './cluster-keys.ts';
import { jwkOf, readJwks } from './jwks.ts';

export const keysCollection = 'auth.cluster-keys';

/**
 * How much earlier the first publisher of a key must be. Replicas fetch at different times, and a cluster that copies
 * a new key of another may be fetched before it. Longer than several fetches.
 */
export const firstByMs = 3_600_000;

/** Controllers write the status of the Cluster at the same time. */
const maxAttempts = 8;

interface StoredKeys {
  readonly uid: string;
  /** Hash of where the keys came from. */
  readonly origin: string;
  readonly version: string;
  readonly from: KeySet['from'];
  /** When the keys were fetched that differed from those before. */
  readonly changedAtMs: number;
  readonly keys: readonly {
    readonly jwk: JsonWebKey;
    readonly id: string;
    readonly sinceMs: number;
    readonly provenAtMs?: number;
  }[];
}

const reader = recordReader<StoredKeys>(keysCollection);

interface Publisher {
  readonly name: string;
  readonly uid: string;
  readonly sinceMs: number;
  readonly isProven: boolean;
}

export interface KeyMemoryParts {
  readonly store: Pick<Store, 'get' | 'list' | 'commit' | 'facts'>;
  readonly log: Pick<Log, 'warn'>;
  readonly find: (name: string) => StoredCluster | undefined;
}

export class KeyMemory {
  readonly #parts: KeyMemoryParts;
  #index: {
    readonly entries: readonly Entry[];
    readonly byKey: ReadonlyMap<string, readonly Publisher[]>;
  } = { entries: [], byKey: new Map() };

  constructor(parts: KeyMemoryParts) {
    this.#parts = parts;
  }

  /** Another object after each change of what is known. */
  get version(): object {
    return this.#parts.store.list(keysCollection).entries;
  }

  /** The keys that some replica fetched last, from the same place; of a peer, in the same peering. */
  recall(
    cluster: StoredCluster,
    peering?: string,
  ):
    | (Pick<KeySet, 'from' | 'fetchedAtMs'> & { readonly keys: readonly VerificationKey[] })
    | undefined {
    const { store, log } = this.#parts;
    const stored = reader.get(store, cluster.name);
    if (stored === undefined || !isOf(stored, cluster, peering)) return undefined;
    const document = JSON.stringify({ keys: stored.keys.map(({ jwk }) => jwk) });
    let keys: readonly VerificationKey[];
    try {
      ({ keys } = readJwks(Buffer.from(document)));
    } catch (error) {
      // A later version may refuse what an earlier one stored. The site goes on without keys.
      log.warn('cannot read the stored keys of a cluster', { cluster: cluster.name, error });
      return undefined;
    }
    return {
      keys: this.withProofs(cluster, keys),
      from: stored.from,
      fetchedAtMs: this.#fetchedAtMs(cluster.name, stored),
    };
  }

  /** The same keys, with the proofs that the cluster gave to some replica. A key of a peer's cluster has none. */
  withProofs(cluster: StoredCluster, keys: readonly VerificationKey[]): readonly VerificationKey[] {
    const stored = reader.get(this.#parts.store, cluster.name);
    if (stored === undefined || !isOf(stored, cluster, undefined)) return keys;
    const proven = provenIn(stored);
    return keys.map((key) => {
      const provenAtMs = latest(key.provenAtMs, proven.get(idOf(key)));
      return provenAtMs === undefined ? key : { ...key, provenAtMs };
    });
  }

  /**
   * Commits only where the keys or their proofs changed. The time of the fetch is a live fact. `seenAtMs`: when this
   * site got the keys. A peer says how old they are, and could claim that it published a key before others did.
   */
  async keep(
    cluster: StoredCluster,
    keys: KeySet,
    seenAtMs: number,
    peering?: string,
  ): Promise<void> {
    const { store, log } = this.#parts;
    const { name } = cluster;
    for (let attempt = 1; ; attempt += 1) {
      try {
        if (!(await this.#keepOnce(cluster, keys, seenAtMs, peering))) return;
        const { version, fetchedAtMs } = keys;
        store.facts.merge(keysCollection, name, { uid: cluster.uid, version, fetchedAtMs });
        return;
      } catch (error) {
        // Another replica wrote, or the status of the Cluster changed. A proof must count for all replicas soon.
        if (hasCode(error, 'HANSA_CONFLICT') && attempt < maxAttempts) continue;
        log.warn('cannot store the keys of a cluster', { cluster: name, error });
        return;
      }
    }
  }

  /**
   * Whether the cluster signs with another key by now than with that of the token. It may stop to accept the old one
   * soon, so the site renews its own token.
   */
  isSuperseded(
    { name, uid }: { readonly name: string; readonly uid: string },
    keyId: string,
  ): boolean {
    const stored = reader.get(this.#parts.store, name);
    if (stored?.uid !== uid) return false;
    const provenAt = ({ provenAtMs = -1 }: StoredKeys['keys'][number]): number => provenAtMs;
    const newest = stored.keys.reduce((most, key) => Math.max(most, provenAt(key)), -1);
    const own = stored.keys.filter(({ jwk }) => jwk['kid'] === keyId).map(provenAt);
    return newest > Math.max(-1, ...own);
  }

  /** Deletes the keys of a cluster that ended. */
  async forget({ name, uid }: StoredCluster): Promise<void> {
    const { store, log } = this.#parts;
    const entry = store.get(keysCollection, name);
    if (entry === undefined || reader.of(entry).uid !== uid) return;
    try {
      await commitUnfenced(store, {
        expect: [{ collection: keysCollection, name, at: entry.revision }],
        delete: [{ collection: keysCollection, name }],
      });
    } catch (error) {
      // Another replica did the same, or the Cluster was deleted.
      if (!hasCode(error, 'HANSA_CONFLICT'))
        log.warn('cannot delete the stored keys of a cluster', { cluster: name, error });
    }
  }

  /**
   * Another cluster, with another API server, that has the key instead of this one. A cluster that proved it beats
   * those that only publish it. Where none proved it, the one that published it at least an hour before has it. A
   * peer can publish public keys that it saw elsewhere, and proves none, so it never takes a key from a cluster of this
   * site, which takes it from the peer at once, or with a proof if the peer published it at least an hour before.
   * Where two proved it, both sign with it, or one passed a token of the other on. Then neither loses it, and the
   * status of both says so.
   */
  ownerOf(cluster: StoredCluster, key: VerificationKey, seenAtMs: number): string | undefined {
    if (cluster.sharesKeys) return undefined;
    const publishers = this.#publishers().get(idOf(key)) ?? [];
    const own = publishers.find(({ uid }) => uid === cluster.uid);
    const isProven = key.provenAtMs !== undefined || own?.isProven === true;
    return publishers.find((other) => {
      const found = this.#another(other, cluster);
      if (found === undefined) return false;
      const sinceMs = own?.sinceMs ?? seenAtMs;
      if ((found.peer === undefined) !== (cluster.peer === undefined)) {
        if (found.peer !== undefined) return false;
        return other.isProven || other.sinceMs < sinceMs + firstByMs;
      }
      if (isProven || other.isProven) return !isProven;
      return other.sinceMs <= sinceMs - firstByMs;
    })?.name;
  }

  /** Undefined where it is the same cluster, or registered no more. */
  #another({ name, uid }: Publisher, cluster: StoredCluster): StoredCluster | undefined {
    if (uid === cluster.uid) return undefined;
    const found = this.#parts.find(name);
    if (found?.uid !== uid) return undefined;
    const { apiServer, peer } = cluster;
    if (peer !== undefined) return found.peer?.prefix === peer.prefix ? undefined : found;
    return apiServer === undefined || found.apiServer !== apiServer ? found : undefined;
  }

  /** False where another replica stored newer keys. */
  async #keepOnce(
    cluster: StoredCluster,
    keys: KeySet,
    seenAtMs: number,
    peering: string | undefined,
  ): Promise<boolean> {
    const { store, find } = this.#parts;
    const { name, uid } = cluster;
    const object = store.get(clusterKind.plural, name);
    if (object === undefined || find(name)?.uid !== uid) return false;
    const entry = store.get(keysCollection, name);
    const stored = entry && reader.of(entry);
    const before = stored !== undefined && isOf(stored, cluster, peering) ? stored : undefined;
    const proven = before === undefined ? new Map<string, number>() : provenIn(before);
    if (before?.version === keys.version && !provesMore(keys, proven)) return true;
    if (before !== undefined && this.#fetchedAtMs(name, before) > keys.fetchedAtMs) return false;
    const since = new Map(before?.keys.map(({ id, sinceMs }) => [id, sinceMs]));
    const next: StoredKeys = {
      uid,
      origin: originOf(cluster, peering),
      version: keys.version,
      from: keys.from,
      changedAtMs: keys.fetchedAtMs,
      keys: keys.keys.map((key) => {
        const id = idOf(key);
        const provenAtMs = latest(key.provenAtMs, proven.get(id));
        const sinceMs = since.get(id) ?? seenAtMs;
        return {
          jwk: jwkOf(key),
          id,
          sinceMs,
          ...(provenAtMs === undefined ? {} : { provenAtMs }),
        };
      }),
    };
    const bytes = Buffer.from(JSON.stringify(next));
    await commitUnfenced(store, {
      expect: [
        // Deleting the Cluster deletes the record, and must not be overtaken by it.
        { collection: clusterKind.plural, name, at: object.revision },
        { collection: keysCollection, name, at: entry?.revision ?? 'absent' },
      ],
      put: [{ collection: keysCollection, name, encode: () => bytes }],
    });
    return true;
  }

  #fetchedAtMs(name: string, { uid, version, changedAtMs }: StoredKeys): number {
    const facts = this.#parts.store.facts.get(keysCollection, name);
    const isOfThese = facts?.['uid'] === uid && facts['version'] === version;
    const fetchedAtMs = isOfThese ? facts['fetchedAtMs'] : undefined;
    return typeof fetchedAtMs === 'number' ? Math.max(fetchedAtMs, changedAtMs) : changedAtMs;
  }

  #publishers(): ReadonlyMap<string, readonly Publisher[]> {
    const { entries } = this.#parts.store.list(keysCollection);
    if (this.#index.entries === entries) return this.#index.byKey;
    const byKey = new Map<string, Publisher[]>();
    for (const entry of entries) {
      const { uid, keys } = reader.of(entry);
      for (const { id, sinceMs, provenAtMs } of keys) {
        const publisher = { name: entry.name, uid, sinceMs, isProven: provenAtMs !== undefined };
        byKey.set(id, [...(byKey.get(id) ?? []), publisher]);
      }
    }
    this.#index = { entries, byKey };
    return byKey;
  }
}

function provenIn({ keys }: StoredKeys): ReadonlyMap<string, number> {
  return new Map(
    keys.flatMap(({ id, provenAtMs }) => (provenAtMs === undefined ? [] : [[id, provenAtMs]])),
  );
}

/** Whether a key is proven for the first time, or another one was proven last. A repeated proof is no news. */
function provesMore({ keys }: KeySet, before: ReadonlyMap<string, number>): boolean {
  const newest = Math.max(-1, ...before.values());
  return keys.some((key) => {
    const { provenAtMs } = key;
    const known = before.get(idOf(key));
    if (provenAtMs === undefined) return false;
    return known === undefined || (known < newest && provenAtMs > newest);
  });
}

function latest(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || (other !== undefined && other > one) ? other : one;
}

function isOf(
  { uid, origin }: StoredKeys,
  cluster: StoredCluster,
  peering: string | undefined,
): boolean {
  return uid === cluster.uid && origin === originOf(cluster, peering);
}

function originOf({ keyOrigin }: StoredCluster, peering: string | undefined): string {
  const origin = peering === undefined ? keyOrigin : JSON.stringify([keyOrigin, peering]);
  return createHash('sha256').update(origin).digest('base64url');
}

function idOf({ publicKey }: VerificationKey): string {
  return createHash('sha256').update(spkiOf(publicKey)).digest('base64url');
}

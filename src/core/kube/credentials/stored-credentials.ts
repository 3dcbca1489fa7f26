// Credentials of clusters in the store, sealed: those that a command set, and tokens that the site renewed.
// All replicas of the site use them.

import type { AuditRow, Commit, Entry, Expectation, Store } from '../../store/store.ts';
import { HansaError } from '../../errors/error.ts';
import { commitFenced } from '../../lease/current-fence.ts';
import { readSealed } from '../../store/reader.ts';
import type { Sealer } from '../../store/sealing/sealer.ts';
import type { CredentialBinding } from './credential-binding.ts';
import type { KubeCredential } from '../kube-client.ts';

/** By cluster name. */
export const credentialsCollection = 'kube.secrets';
const recordVersion = 1;

export type StoredSecret = Exclude<KubeCredential, { readonly type: 'none' }>;

export interface StoredCredential {
  readonly binding: CredentialBinding;
  /** Where the first token came from: a command, or the file with this path. */
  readonly from: { readonly command: true } | { readonly file: string };
  readonly secret: StoredSecret;
}

/** The parts of a commit that a write relies on. */
export interface StoredWrite extends Pick<Commit, 'fence'> {
  readonly expect: readonly Expectation[];
  readonly audit?: readonly AuditRow[];
}

export class StoredCredentials {
  readonly #store: Pick<Store, 'get' | 'commit'>;
  readonly #sealer: Sealer;

  constructor(store: Pick<Store, 'get' | 'commit'>, sealer: Sealer) {
    this.#store = store;
    this.#sealer = sealer;
  }

  /** The sealed record. A new one with every change. */
  entry(cluster: string): Entry | undefined {
    return this.#store.get(credentialsCollection, cluster);
  }

  async open(entry: Entry): Promise<StoredCredential> {
    const value = await readSealed(this.#sealer, placeOf(entry.name), entry);
    if (!isStored(value)) {
      throw new HansaError(
        'HANSA_STORE_CORRUPT',
        `Cannot read the credential of cluster ${entry.name}: the stored record is damaged. Set it again with: hansa cluster credential set ${entry.name}`,
      );
    }
    return value;
  }

  /** Replaces the record at `at`. HANSA_CONFLICT where an expectation does not hold: the credential was deleted, say. */
  async put(
    cluster: string,
    credential: StoredCredential,
    at: number | 'absent' | 'any',
    write: StoredWrite,
  ): Promise<void> {
    const plain = Buffer.from(JSON.stringify(credential));
    const sealed = await this.#sealer.seal(placeOf(cluster), plain);
    plain.fill(0);
    const place = recordOf(cluster);
    const { expect, ...rest } = write;
    await commitFenced(this.#store, {
      expect: [...expect, ...(at === 'any' ? [] : [{ ...place, at }])],
      put: [{ ...place, encode: () => sealed }],
      ...rest,
    });
  }

  /** False where there is none. */
  async delete(cluster: string, audit: readonly AuditRow[]): Promise<boolean> {
    const entry = this.entry(cluster);
    if (entry === undefined) return false;
    await commitFenced(this.#store, { delete: [recordOf(cluster)], audit });
    return true;
  }
}

/** The place of the record, for the commit that deletes its Cluster. */
export const recordOf = (cluster: string) =>
  ({ collection: credentialsCollection, name: cluster }) as const;

const placeOf = (cluster: string) =>
  ({
    collection: credentialsCollection,
    key: cluster,
    column: 'value',
    version: recordVersion,
  }) as const;

function isStored(value: unknown): value is StoredCredential {
  const { binding, from, secret } = value as Partial<StoredCredential>;
  if (typeof binding !== 'object' || typeof from !== 'object') return false;
  return secret?.type === 'token'
    ? typeof secret.token === 'string'
    : secret?.type === 'certificate' &&
        typeof secret.certificate === 'string' &&
        typeof secret.key === 'string';
}

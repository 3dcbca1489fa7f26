// The bundle that this site publishes: prebuilt bytes, and a sequence number in the store, so that
// the sequence never decreases and all replicas publish the same.

import { hasCode } from '../../errors/error.ts';
import { recordReader } from '../../store/reader.ts';
import type { Entry, Store } from '../../store/store.ts';
import type { Bundle } from './bundle.ts';
import { defaultRefreshHintSeconds } from '../../../api/values/refresh-hint.ts';
import { commitUnfenced } from '../../lease/current-fence.ts';
import { encodeSpiffeBundle } from './spiffe-bundle.ts';

/** Watch this collection to learn of bundle changes. */
export const publishedCollection = 'trust.published-bundle';
const recordName = 'bundle';

export interface PublishedBundle {
  readonly bundle: Bundle;
  readonly sequence: number;
  readonly document: Buffer;
}

interface PublishedRecord {
  readonly hash: string;
  readonly sequence: number;
}

const records = recordReader<PublishedRecord>(publishedCollection);

/** The hash and sequence that were published last, by any replica. */
export function lastPublished(store: Pick<Store, 'get'>): PublishedRecord | undefined {
  return records.get(store, recordName);
}

export class BundlePublisher {
  readonly #store: Pick<Store, 'get' | 'commit'>;
  readonly #authority: { readonly bundle: Bundle };
  #published: PublishedBundle | undefined;
  #publishing: Promise<PublishedBundle> | undefined;
  /** The record as last read. */
  #looked: Entry | undefined;
  readonly #refreshHintSeconds: number;

  constructor(
    store: Pick<Store, 'get' | 'commit'>,
    authority: { readonly bundle: Bundle },
    refreshHintSeconds = defaultRefreshHintSeconds,
  ) {
    this.#store = store;
    this.#authority = authority;
    this.#refreshHintSeconds = refreshHintSeconds;
  }

  /** Returns at once, except the first time and after a change of the authorities, when it first writes the sequence. */
  current(): PublishedBundle | Promise<PublishedBundle> {
    const published = this.#published;
    if (published?.bundle === this.#authority.bundle && this.#stands(published)) return published;
    this.#publishing ??= this.#publishNewest().finally(() => {
      this.#publishing = undefined;
    });
    return this.#publishing;
  }

  /** Not where another replica has published the same again, after something else in between. */
  #stands({ bundle, sequence }: PublishedBundle): boolean {
    const entry = this.#store.get(publishedCollection, recordName);
    if (entry === this.#looked) return true;
    this.#looked = entry;
    const known = lastPublished(this.#store);
    return known?.hash !== bundle.hash || known.sequence === sequence;
  }

  /** The authorities may change while the sequence is written. */
  async #publishNewest(): Promise<PublishedBundle> {
    for (;;) {
      const published = await this.#publish(this.#authority.bundle);
      if (published.bundle === this.#authority.bundle) return published;
    }
  }

  async #publish(bundle: Bundle): Promise<PublishedBundle> {
    const sequence = await this.#sequenceOf(bundle);
    const document = Buffer.from(
      encodeSpiffeBundle(bundle, { sequence, refreshHintSeconds: this.#refreshHintSeconds }),
    );
    this.#published = { bundle, sequence, document };
    return this.#published;
  }

  async #sequenceOf(bundle: Bundle): Promise<number> {
    for (;;) {
      const entry = this.#store.get(publishedCollection, recordName);
      const known = lastPublished(this.#store);
      if (known?.hash === bundle.hash) return known.sequence;
      const next: PublishedRecord = { hash: bundle.hash, sequence: (known?.sequence ?? 0) + 1 };
      try {
        await commitUnfenced(this.#store, {
          expect: [
            { collection: publishedCollection, name: recordName, at: entry?.revision ?? 'absent' },
          ],
          put: [
            {
              collection: publishedCollection,
              name: recordName,
              encode: () => Buffer.from(JSON.stringify(next)),
            },
          ],
        });
        return next.sequence;
      } catch (error) {
        // Another replica published meanwhile.
        if (!hasCode(error, 'HANSA_CONFLICT')) throw error;
      }
    }
  }
}

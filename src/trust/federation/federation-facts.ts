// Facts of a federation: the status fields that change with every fetch (see src/api/live-status.ts),
// and the ETag of the last fetched document.

import { createHash } from 'node:crypto';
import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { Facts, Store } from '../../core/store/store.ts';
import type { FederationStatus } from './federation-status.ts';
import type { Validator } from '../client/fetch-bundle.ts';

const collection = spiffeFederationKind.plural;
const liveFields: readonly string[] = spiffeFederationKind.liveStatus ?? [];

export class FederationFacts {
  readonly #facts: Facts;

  constructor(store: Pick<Store, 'facts'>) {
    this.#facts = store.facts;
  }

  /** The federation with its current facts, as API clients see it. */
  live(federation: SPIFFEFederation): SPIFFEFederation {
    const facts = this.#facts.get(collection, federation.metadata.name);
    return withLiveStatus(spiffeFederationKind, federation, facts);
  }

  /** Returns a function that undoes it, in case the rest of the status cannot be written. */
  keep({ metadata }: SPIFFEFederation, status: FederationStatus): () => void {
    const { name, uid } = metadata;
    const before = this.#facts.get(collection, name);
    const fields = status as Readonly<Record<string, unknown>>;
    this.#facts.merge(collection, name, {
      uid,
      ...Object.fromEntries(liveFields.map((field) => [field, fields[field] ?? null])),
    });
    return () => {
      this.#facts.delete(collection, name);
      if (before !== undefined) this.#facts.merge(collection, name, before);
    };
  }

  /** The ETag of the held document; undefined if the held document is another one. */
  validator(federation: SPIFFEFederation): Validator | undefined {
    const { status, metadata } = federation;
    const facts = this.#facts.get(collection, metadata.name);
    const kept = facts?.['validator'] as (Validator & { readonly of: string }) | undefined;
    if (kept === undefined || facts?.['uid'] !== metadata.uid || status?.bundle === undefined) {
      return undefined;
    }
    return kept.of === digestOf(status.bundle) ? { url: kept.url, etag: kept.etag } : undefined;
  }

  keepValidator(name: string, document: string, validator: Validator | undefined): void {
    this.#facts.merge(collection, name, {
      validator: validator && { ...validator, of: digestOf(document) },
    });
  }
}

/** Whether two statuses differ only in facts, so that there is nothing to write. */
export function sameState(
  left: FederationStatus | undefined,
  right: FederationStatus | undefined,
): boolean {
  return jsonEquals(withoutFacts(left), withoutFacts(right));
}

function withoutFacts(status: FederationStatus | undefined): object {
  return Object.fromEntries(
    Object.entries(status ?? {}).filter(([field]) => !liveFields.includes(field)),
  );
}

function digestOf(document: string): string {
  return createHash('sha256').update(document).digest('hex');
}

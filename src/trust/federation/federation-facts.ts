// Facts of a federation: what moves with every fetch and changes nothing (see src/api/live-status.ts),
// and what the endpoint calls the document that it gave last.

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

  /** The federation as whoever reads it sees it. */
  live(federation: SPIFFEFederation): SPIFFEFederation {
    const facts = this.#facts.get(collection, federation.metadata.name);
    return withLiveStatus(spiffeFederationKind, federation, facts);
  }

  /** Returns how to take it back, for where the rest of the status could not be written. */
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

  /** What the endpoint calls the document that is held; undefined where it is another by now. */
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

/** Whether two differ in nothing but facts: then there is nothing to write. */
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

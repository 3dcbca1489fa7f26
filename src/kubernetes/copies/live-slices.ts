// The slices of a site in the target, by Service and source, as of the last write or event.

import type { Clock } from '../../core/clock/clock.ts';
import type { ObjectChange } from '../../core/kube/reflector/object-cache.ts';
import { serviceNameLabel } from '../names.ts';
import type { EndpointSlice } from '../objects.ts';
import { sourceOfSlice } from '../services/slice-source.ts';
import { RecentWrites } from './recent-writes.ts';
import type { Cached } from './synced-member.ts';

/** Where a slice belongs: the copy as NAMESPACE/NAME, and the source of its endpoints. */
export interface SlicePlace {
  readonly copy: string;
  /** Empty where a user removed the annotation. */
  readonly source: string;
}

export function placeOf({ metadata }: EndpointSlice): SlicePlace {
  const { namespace = '', labels } = metadata;
  return {
    copy: `${namespace}/${labels?.[serviceNameLabel] ?? ''}`,
    source: sourceOfSlice({ metadata }),
  };
}

export interface OwnSlices {
  /** Which slices count. */
  readonly isOwnSlice: (slice: EndpointSlice) => boolean;
  /** Default: by the Service that its label names. */
  readonly placeOf?: (slice: EndpointSlice) => SlicePlace;
}

/** Every operation costs O(1), or O(results). */
export class LiveSlices {
  readonly isOwn: (slice: EndpointSlice) => boolean;
  readonly #placeOf: (slice: EndpointSlice) => SlicePlace;
  readonly #recent: RecentWrites<EndpointSlice>;
  /** Copy → source → keys of slices. */
  readonly #copies = new Map<string, Map<string, Set<string>>>();
  readonly #places = new Map<string, SlicePlace>();

  /** `unheard`: see RecentWrites. */
  constructor(
    clock: Clock,
    cached: Pick<Cached<EndpointSlice>, 'byKey' | 'objects'>,
    rules: OwnSlices,
    unheard: (place: SlicePlace) => void,
  ) {
    this.isOwn = rules.isOwnSlice;
    this.#placeOf = rules.placeOf ?? placeOf;
    this.#recent = new RecentWrites(
      clock,
      (key) => cached.byKey(key),
      (key, written) => {
        this.#index(key, this.get(key));
        unheard(this.#placeOf(written));
      },
    );
    for (const slice of cached.objects()) this.#index(keyOf(slice), slice);
  }

  stop(): void {
    this.#recent.stop();
  }

  get(key: string): EndpointSlice | undefined {
    return this.#recent.live(key);
  }

  sourcesOf(copy: string): readonly string[] {
    return [...(this.#copies.get(copy)?.keys() ?? [])];
  }

  /** All copies that have slices. */
  copies(): Iterable<string> {
    return this.#copies.keys();
  }

  slicesOf({ copy, source }: SlicePlace): readonly EndpointSlice[] {
    return [...(this.#copies.get(copy)?.get(source) ?? [])].flatMap((key) => this.get(key) ?? []);
  }

  wrote(key: string, slice: EndpointSlice, base: EndpointSlice | undefined): void {
    this.#recent.wrote(key, slice, base);
    this.#index(key, this.get(key));
  }

  deletes(key: string, slice: EndpointSlice): void {
    this.#recent.deletes(key, slice);
    this.#index(key, this.get(key));
  }

  forget(key: string): void {
    this.#recent.forget(key);
    this.#index(key, this.get(key));
  }

  /** Follows a change of the cache. Returns whether it is only the echo of a write. */
  heard(change: ObjectChange<EndpointSlice>): boolean {
    const isEcho = this.#recent.isEcho(change);
    this.#index(change.key, this.get(change.key));
    return isEcho;
  }

  #index(key: string, slice: EndpointSlice | undefined): void {
    const old = this.#places.get(key);
    const place = slice !== undefined && this.isOwn(slice) ? this.#placeOf(slice) : undefined;
    if (old?.copy === place?.copy && old?.source === place?.source) return;
    if (old !== undefined) this.#remove(key, old);
    if (place === undefined) return;
    this.#places.set(key, place);
    const sources = this.#copies.get(place.copy) ?? new Map<string, Set<string>>();
    const keys = sources.get(place.source) ?? new Set<string>();
    this.#copies.set(place.copy, sources.set(place.source, keys.add(key)));
  }

  #remove(key: string, { copy, source }: SlicePlace): void {
    this.#places.delete(key);
    const sources = this.#copies.get(copy);
    const keys = sources?.get(source);
    keys?.delete(key);
    if (keys?.size === 0) sources?.delete(source);
    if (sources?.size === 0) this.#copies.delete(copy);
  }
}

export function keyOf({ metadata }: Pick<EndpointSlice, 'metadata'>): string {
  return `${metadata.namespace ?? ''}/${metadata.name}`;
}

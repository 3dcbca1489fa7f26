// Brings one object of a SPIRE server in its cluster to the wanted state. It never touches an object that somebody
// else made, does not overtake a newer write, because replacing and deleting need the version that was read, and
// sends nothing after the term of the process ended.

import { isObject } from '../../api/schema/json.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError, printableText } from '../../core/kube/kube-errors.ts';
import { type Manifest, ownLabels } from '../../core/kube/manifests/manifest.ts';
import { collectionPath, manifestPath } from '../../core/kube/manifests/manifest-path.ts';
import type { WritingTerm } from '../fencing/fenced-writer.ts';
import type { ObjectMeta } from '../objects.ts';
import { differences } from './differences.ts';
import type { UnwatchedObjects } from './unwatched-objects.ts';
import { adoptAnnotation, spireEpochAnnotation, spireSiteAnnotation } from './spire-names.ts';

export interface LiveObject extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly [field: string]: unknown;
}

export type ObjectOutcome =
  | {
      readonly manifest: Manifest;
      readonly state: 'asWanted' | 'created' | 'changed' | 'removed';
      readonly live?: LiveObject;
    }
  /** In create-only mode. Without paths, the object should not exist. */
  | {
      readonly manifest: Manifest;
      readonly state: 'drift';
      readonly paths: readonly string[];
      readonly live?: LiveObject;
    }
  /** Somebody else made it. */
  | { readonly manifest: Manifest; readonly state: 'foreign'; readonly owner: string }
  /** It is being deleted, or will be with its former owner. */
  | { readonly manifest: Manifest; readonly state: 'leaving' }
  /** The API server refused the write. */
  | { readonly manifest: Manifest; readonly state: 'refused'; readonly message: string };

export interface ApplierOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>;
  readonly term: WritingTerm;
  /** The trust domain of the site. */
  readonly site: string;
  /** Of the SpireServer. */
  readonly owner: string;
  readonly createOnly: boolean;
  /** An object of a cache, which may be old. Undefined: ask the API server. */
  readonly cached: (manifest: Manifest) => LiveObject | undefined;
  /** Whether `cached` has every object of this kind that this site made. Default: it has not. */
  readonly isWatched?: (manifest: Manifest) => boolean;
  /** Objects of other kinds, and objects that should not exist, are looked for now and then. Default: each time. */
  readonly unwatched?: UnwatchedObjects;
}

const mostMessageLength = 512;

export class ObjectApplier {
  readonly #options: ApplierOptions;

  constructor(options: ApplierOptions) {
    this.#options = options;
  }

  /** Rejects with HANSA_FENCED where the term is over, and as the client where the cluster cannot be reached. */
  async apply(manifest: Manifest): Promise<ObjectOutcome> {
    return this.#explained(manifest, async () => {
      const wanted = this.#stamped(manifest);
      const cached = this.#options.cached(manifest);
      const isCurrent =
        cached !== undefined &&
        this.#foreignOwner(cached) === undefined &&
        this.#drift(wanted, cached).length === 0;
      if (isCurrent) return { manifest, state: 'asWanted', live: cached };
      if (this.#wasAsWanted(wanted)) return { manifest, state: 'asWanted' };
      const live = await this.#read(manifest);
      const outcome =
        live === undefined
          ? await this.#create(manifest)
          : await this.#update(manifest, wanted, live);
      this.#remember(wanted, outcome);
      return outcome;
    });
  }

  async remove(manifest: Manifest): Promise<ObjectOutcome> {
    return this.#explained(manifest, async () => {
      const { cached, unwatched } = this.#options;
      if (cached(manifest) === undefined && unwatched?.wasAsWanted(manifest) === true) {
        return { manifest, state: 'asWanted' };
      }
      const live = await this.#read(manifest);
      if (live === undefined) {
        unwatched?.remember(manifest);
        return { manifest, state: 'asWanted' };
      }
      // An object of this name that somebody else made is none of ours.
      if (this.#foreignOwner(live) !== undefined) return { manifest, state: 'asWanted' };
      if (live.metadata.deletionTimestamp !== undefined) return { manifest, state: 'leaving' };
      if (this.#options.createOnly) return { manifest, state: 'drift', paths: [] };
      this.#refuseNewer(live);
      const { uid, resourceVersion } = live.metadata;
      await this.#options.client.delete(
        manifestPath(manifest),
        { uid, resourceVersion },
        this.#guard(),
      );
      return { manifest, state: 'removed' };
    });
  }

  #wasAsWanted(wanted: Manifest): boolean {
    const { isWatched, unwatched } = this.#options;
    return isWatched?.(wanted) !== true && unwatched?.wasAsWanted(wanted) === true;
  }

  #remember(wanted: Manifest, { state }: ObjectOutcome): void {
    const { unwatched } = this.#options;
    if (state === 'asWanted' || state === 'created' || state === 'changed') {
      unwatched?.remember(wanted);
    } else unwatched?.forget(wanted);
  }

  async #create(manifest: Manifest): Promise<ObjectOutcome> {
    const { client, term } = this.#options;
    const object = withAnnotations(this.#stamped(manifest), {
      [spireEpochAnnotation]: String(term.epoch),
    });
    const live = await client.create<LiveObject>(collectionPath(manifest), object, this.#guard());
    return { manifest, state: 'created', live };
  }

  async #update(manifest: Manifest, wanted: Manifest, live: LiveObject): Promise<ObjectOutcome> {
    const { client, term, createOnly } = this.#options;
    const owner = this.#foreignOwner(live);
    if (owner !== undefined) return { manifest, state: 'foreign', owner };
    if (live.metadata.deletionTimestamp !== undefined || this.#hasFormerOwner(live)) {
      return { manifest, state: 'leaving' };
    }
    const paths = this.#drift(wanted, live);
    if (paths.length === 0) return { manifest, state: 'asWanted', live };
    if (createOnly) return { manifest, state: 'drift', paths, live };
    this.#refuseNewer(live);
    const merged = merge(live, wanted) as LiveObject;
    const { annotations: { [adoptAnnotation]: _adopt, ...annotations } = {} } = merged.metadata;
    const object = {
      ...merged,
      metadata: {
        ...merged.metadata,
        annotations: { ...annotations, [spireEpochAnnotation]: String(term.epoch) },
      },
    };
    const path = manifestPath(manifest);
    const changed = await client.replace<LiveObject>(path, object, this.#guard());
    return { manifest, state: 'changed', live: changed };
  }

  async #read(manifest: Manifest): Promise<LiveObject | undefined> {
    try {
      return await this.#options.client.get<LiveObject>(manifestPath(manifest));
    } catch (error) {
      if (error instanceof KubeStatusError && error.status === 404) return undefined;
      throw error;
    }
  }

  #stamped(manifest: Manifest): Manifest {
    return withAnnotations(manifest, { [spireSiteAnnotation]: this.#options.site });
  }

  #drift(wanted: Manifest, live: LiveObject): readonly string[] {
    return differences(wanted, live);
  }

  /** Who made the object, if that was not this site for this SpireServer or a former one. */
  #foreignOwner({ metadata }: LiveObject): string | undefined {
    const { labels = {}, annotations = {}, ownerReferences = [] } = metadata;
    const other = ownerReferences.find(({ kind }) => kind !== 'SpireServer');
    if (other !== undefined) return `${other.kind} ${other.name}`;
    const site = annotations[spireSiteAnnotation];
    if (site !== undefined && site !== this.#options.site) return `the Hansa site ${site}`;
    if (site !== undefined || annotations[adoptAnnotation] === 'true') return undefined;
    const manager = labels['app.kubernetes.io/managed-by'];
    return manager === undefined || manager === ownLabels['app.kubernetes.io/managed-by']
      ? 'a user'
      : manager;
  }

  /** The garbage collector deletes it soon. */
  #hasFormerOwner({ metadata: { ownerReferences = [] } }: LiveObject): boolean {
    return (
      ownerReferences.length > 0 && ownerReferences.every(({ uid }) => uid !== this.#options.owner)
    );
  }

  #refuseNewer({ kind, metadata: { name, annotations } }: LiveObject): void {
    const text = annotations?.[spireEpochAnnotation] ?? '';
    const epoch = /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : 0;
    if (epoch <= this.#options.term.epoch) return;
    throw new HansaError(
      'HANSA_FENCED',
      `Cannot change ${kind} ${name}: it was written in term ${epoch}, and this is term ${this.#options.term.epoch}.`,
    );
  }

  /** Asks now, and again right before the request leaves: it may wait for a connection. */
  #guard(): { readonly beforeSend: () => void } {
    const { term } = this.#options;
    const beforeSend = (): void => {
      if (term.mayWrite()) return;
      throw new HansaError('HANSA_FENCED', `Cannot write: term ${term.epoch} is over.`);
    };
    beforeSend();
    return { beforeSend };
  }

  /** What the API server refuses for good is an outcome. A conflict or an outage is an error: try again. */
  async #explained(manifest: Manifest, work: () => Promise<ObjectOutcome>): Promise<ObjectOutcome> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof KubeStatusError)) throw error;
      if (![400, 403, 404, 405, 413, 422].includes(error.status)) throw error;
      const words =
        error.serverMessage === '' ? `HTTP status ${error.status}` : error.serverMessage;
      return { manifest, state: 'refused', message: printableText(words, mostMessageLength) };
    }
  }
}

function withAnnotations(manifest: Manifest, added: Readonly<Record<string, string>>): Manifest {
  const { metadata } = manifest;
  return {
    ...manifest,
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...added } },
  };
}

/** The live value with all wanted fields. Lists are replaced as a whole. */
function merge(live: unknown, wanted: unknown): unknown {
  if (!isObject(live) || !isObject(wanted)) return wanted;
  const merged: Record<string, unknown> = { ...live };
  for (const [key, value] of Object.entries(wanted)) merged[key] = merge(live[key], value);
  return merged;
}

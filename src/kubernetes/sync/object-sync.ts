// Brings one object of a marked cluster to the site, or a deletion of it, and the verdict and status of the site
// to the cluster.

import type { Kind } from '../../api/kind.ts';
import type { Resource } from '../../api/object.ts';
import { originOf } from '../../core/access/origin.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { SyncedResources } from '../../core/plane/synced-resources.ts';
import { valueOf } from '../../core/store/reader.ts';
import type { Commit, Store } from '../../core/store/store.ts';
import { claimOf, claimText } from './claim.ts';
import type { Definitions } from './definitions.ts';
import { judgeAbsence } from './judge-absence.ts';
import { mirroredStatus, statusChange, type Verdict } from './mirrored-status.ts';
import type { ClusterObject } from './read-cluster-object.ts';
import type { StatusWriter } from './status-writer.ts';
import type { SyncedCollection } from './synced-collection.ts';
import { acceptedBy, pending, refusalBy } from './verdict.ts';

/** What became of an object. `kept`: it is at the site only. */
export interface Outcome {
  readonly state: 'accepted' | 'refused' | 'kept';
  readonly reason: string;
}

export interface Synced {
  /** Undefined where neither the cluster nor the site has the object. */
  readonly outcome: Outcome | undefined;
  readonly againMs?: number;
}

export interface ObjectSyncParts {
  readonly cluster: string;
  readonly trustDomain: string;
  readonly site: SyncedResources;
  readonly store: Pick<Store, 'get'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly definitions: Pick<Definitions, 'read' | 'recent'>;
  readonly statuses: StatusWriter;
  /** Whether the site syncs objects of this kind from the Cluster of this name. */
  readonly isMarked: (cluster: string, kind: Kind) => boolean;
}

/** Of labels and spec. A bundle has at most 256 KiB. */
const maxBytes = 512 * 1024;
/** Something else may have changed, such as another object that a validation looks at. */
const refusedAgainMs = 5 * 60_000;
/** While the CRD is being deleted, its objects come to nothing. */
const deletingAgainMs = 10_000;
const unfitAgainMs = 60_000;
/** Fields of the status that change with every fetch. */
const liveAgainMs = 10 * 60_000;

export class ObjectSync {
  readonly #parts: ObjectSyncParts;

  constructor(parts: ObjectSyncParts) {
    this.#parts = parts;
  }

  /** The reflector must be synced. */
  async sync(collection: SyncedCollection, name: string, fence: Commit['fence']): Promise<Synced> {
    const object = collection.reflector.byKey(name);
    if (object !== undefined) return this.#present(collection.kind, object, fence);
    this.#parts.statuses.forget(collection.kind, name);
    return this.#absent(collection, name, fence);
  }

  async #present(kind: Kind, object: ClusterObject, fence: Commit['fence']): Promise<Synced> {
    const { cluster, trustDomain, definitions, isMarked } = this.#parts;
    const claim = claimOf(object, trustDomain, cluster, (other) => isMarked(other, kind));
    if (claim === 'other') {
      return { outcome: { state: 'refused', reason: 'OtherSite' }, againMs: refusedAgainMs };
    }
    const definition = await definitions.recent(kind);
    if (definition.state !== 'served') return { outcome: undefined, againMs: deletingAgainMs };
    // Before the site has the object: of two sites, only one gets it.
    const claimed = claim === 'own' ? { object } : await this.#claim(kind, object);
    if (claimed === 'gone' || claimed === 'refused') return unfit;
    if ('waitMs' in claimed) return { outcome: undefined, againMs: claimed.waitMs };
    // A CRD without this field drops it. Without a claim, two sites would write in turns for ever.
    if (claimed.object.status['syncedTo'] !== claimText(trustDomain, cluster)) return unfit;
    return this.#apply(kind, claimed.object, definition.uid, fence);
  }

  #claim(kind: Kind, object: ClusterObject) {
    const { statuses } = this.#parts;
    return statuses.write(kind, object, this.#statusOf(object, pending, undefined), true);
  }

  async #apply(
    kind: Kind,
    object: ClusterObject,
    definition: string,
    fence: Commit['fence'],
  ): Promise<Synced> {
    const { site, trustDomain } = this.#parts;
    const { name, labels, uid, resourceVersion: version } = object.metadata;
    let verdict: Verdict;
    let resource: Resource | undefined;
    try {
      refuseLarge(object);
      const source = { uid, definition, version };
      resource = await site.apply({ kind, name, labels, spec: object.spec, source }, fence);
      verdict = acceptedBy(trustDomain);
    } catch (error) {
      const waitMs = waitOf(error);
      if (waitMs !== undefined) {
        return { outcome: { state: 'refused', reason: 'TooManyRequests' }, againMs: waitMs };
      }
      const refusal = refusalBy(trustDomain, error);
      if (refusal === undefined) throw error;
      verdict = refusal;
      resource = this.#atSite(kind, name, uid);
    }
    const againMs = await this.#report(kind, object, verdict, resource);
    const isAccepted = verdict.status === 'True';
    const outcome = { state: isAccepted ? 'accepted' : 'refused', reason: verdict.reason } as const;
    const laterMs = againMs ?? (isAccepted ? undefined : refusedAgainMs);
    return { outcome, ...(laterMs === undefined ? {} : { againMs: laterMs }) };
  }

  /** Returns when to try again. */
  async #report(
    kind: Kind,
    object: ClusterObject,
    verdict: Verdict,
    resource: Resource | undefined,
  ): Promise<number | undefined> {
    const { statuses } = this.#parts;
    const wanted = this.#statusOf(object, verdict, resource);
    const change = statusChange(kind, object.status, wanted);
    if (change === 'none') return undefined;
    const ageMs = statuses.ageMs(kind, object.metadata.name);
    if (change === 'later' && ageMs !== undefined && ageMs < liveAgainMs)
      return liveAgainMs - ageMs;
    const written = await statuses.write(kind, object, wanted);
    if (written === 'refused') {
      // The verdict always fits.
      await statuses.write(kind, object, this.#statusOf(object, verdict, undefined), true);
      return refusedAgainMs;
    }
    return written !== 'gone' && 'waitMs' in written ? written.waitMs : undefined;
  }

  #statusOf(object: ClusterObject, verdict: Verdict, resource: Resource | undefined) {
    const { trustDomain, cluster, clock } = this.#parts;
    const syncedTo = claimText(trustDomain, cluster);
    return mirroredStatus({ object, verdict, resource, syncedTo, nowMs: clock.now() });
  }

  /** An earlier version of the same object. */
  #atSite(kind: Kind, name: string, uid: string): Resource | undefined {
    const entry = this.#parts.store.get(kind.plural, name);
    if (entry === undefined) return undefined;
    const resource = valueOf(entry) as Resource;
    const origin = originOf(resource.metadata);
    return origin?.cluster === this.#parts.cluster && origin.source?.uid === uid
      ? resource
      : undefined;
  }

  async #absent(
    collection: SyncedCollection,
    name: string,
    fence: Commit['fence'],
  ): Promise<Synced> {
    const { store, site, definitions, trustDomain } = this.#parts;
    const { kind, reflector } = collection;
    const entry = store.get(kind.plural, name);
    const origin = entry && collection.originOf(entry);
    if (origin === undefined) return { outcome: undefined };
    if (origin.source === undefined) return kept('Kept');
    const definition = await definitions.read(kind);
    // It may be back.
    if (reflector.byKey(name) !== undefined) return { outcome: undefined, againMs: 0 };
    const { uid } = origin.source;
    switch (judgeAbsence(origin.source, definition, reflector.status().version)) {
      case 'unknown':
        return kept('NotServed');
      case 'kept':
        await site.keep(kind, name, uid, fence);
        return kept('Kept');
      case 'deleted':
        break;
    }
    try {
      await site.remove(kind, name, uid, fence);
      return { outcome: undefined };
    } catch (error) {
      const waitMs = waitOf(error);
      if (waitMs !== undefined) return { ...kept('TooManyRequests'), againMs: waitMs };
      const refusal = refusalBy(trustDomain, error);
      if (refusal === undefined) throw error;
      return { ...kept(refusal.reason), againMs: refusedAgainMs };
    }
  }
}

/** The CRD in the cluster is not the one that `hansa cluster sync` installs, or the object has just gone. */
const unfit: Synced = {
  outcome: { state: 'refused', reason: 'UnfitDefinition' },
  againMs: unfitAgainMs,
};

function kept(reason: string): Synced {
  return { outcome: { state: 'kept', reason } };
}

function refuseLarge({ bytes, metadata: { uid } }: ClusterObject): void {
  if (uid === '') throw new HansaError('HANSA_BAD_REQUEST', 'the object has no UID');
  if (bytes <= maxBytes) return;
  throw new HansaError(
    'HANSA_TOO_LARGE',
    `its labels and spec have ${bytes} bytes, and the limit is ${maxBytes}`,
  );
}

/** How long the site asks the cluster to wait. */
function waitOf(error: unknown): number | undefined {
  if (!hasCode(error, 'HANSA_TOO_MANY_REQUESTS')) return undefined;
  return (error.details?.retryAfterSeconds ?? 60) * 1000;
}

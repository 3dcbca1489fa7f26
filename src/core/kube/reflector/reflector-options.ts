// The options and the status of a reflector.

import type { Clock, Random } from '../../clock/clock.ts';
import type { Log } from '../../log/log.ts';
import type { CollectionPath, KubeClient, KubeObject } from '../kube-client.ts';
import type { CacheBudget } from './cache-budget.ts';
import type { ReflectorLimits } from './collection-requests.ts';
import type { IndexFunction, ObjectChange } from './object-cache.ts';
import type { Failure, FailureReason } from './reflector-failure.ts';

/** For metrics. None may throw. */
export interface ReflectorHooks {
  /** The cache was filled or compared with a whole list. */
  listed?(objects: number): void;
  /** So many objects changed. */
  changed?(count: number): void;
  /** A list or a watch failed, or a watch ended. */
  failed?(reason: FailureReason): void;
  /** The server accepted a list or a watch, or one failed: `isSynced` and `failure` may have changed. */
  statusChanged?(): void;
}

export interface ReflectorOptions<T extends KubeObject, I extends string> {
  readonly client: KubeClient;
  /** The name of the cluster, for messages. */
  readonly cluster: string;
  /** Of the whole cluster, or of one namespace. */
  readonly path: CollectionPath;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /**
   * Gets each object before it is cached, as the only holder, and may change it. Default: drops
   * `metadata.managedFields`, which is often more than half of an object.
   */
  readonly transform?: ((object: T) => T) | undefined;
  /** Named functions from an object to the values under which `byIndex` finds it. */
  readonly indexes?: Readonly<Record<I, IndexFunction<T>>> | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly limits?: Partial<ReflectorLimits> | undefined;
  /** What it may hold together with others. */
  readonly budget?: CacheBudget | undefined;
  /** Default true: asks for initial events, and lists where the server does not send them. */
  readonly usesInitialEvents?: boolean | undefined;
  readonly hooks?: ReflectorHooks | undefined;
}

/** `waiting`: for the next attempt after a failure. */
export type ReflectorState = 'stopped' | 'listing' | 'watching' | 'checking' | 'waiting';

export interface ReflectorStatus {
  readonly state: ReflectorState;
  /** Wall time, as all times here. */
  readonly sinceMs: number;
  /** Whether the cache has held the whole collection since the start. */
  readonly isSynced: boolean;
  readonly objects: number;
  /** Of all objects as they are kept, about as JSON. */
  readonly bytes: number;
  /** The last version seen; empty before the first list. */
  readonly version: string;
  /** Of the last event or bookmark. */
  readonly lastEventMs: number | undefined;
  /** Lists after the first one. */
  readonly relists: number;
  /** Undefined once the server accepted a list or a watch again. */
  readonly failure: (Failure & { readonly atMs: number }) | undefined;
}

/**
 * `isSeen`: the change happened just now, because the watch that sent it has no gap before it. Otherwise it
 * happened at any time since the reflector last followed the collection.
 */
export type ChangeListener<T> = (change: ObjectChange<T>, isSeen: boolean) => void;

// Writes the status of objects in a marked cluster, at a limited rate.

import type { Kind } from '../../api/kind.ts';
import type { JsonObject } from '../../api/object.ts';
import type { Clock } from '../../core/clock/clock.ts';
import type { KubeClient, KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import { TokenBuckets } from '../../core/limits/token-buckets.ts';
import { clusterSidePath } from './cluster-side-kind.ts';
import { type ClusterObject, readClusterObject } from './read-cluster-object.ts';

/** Of all objects of one cluster: the first sync of 1,000 objects takes less than a minute. */
const rate = { perSecond: 50, burst: 200 } as const;
/** Between two writes of one object. Controllers of the site often change a status several times in a row. */
const pauseMs = 2000;
/** After a conflict: the watch brings the new version meanwhile. */
const conflictMs = 1000;

export type StatusWrite =
  /** The object with its new version. */
  | { readonly object: ClusterObject }
  /** The write must wait. */
  | { readonly waitMs: number }
  /** The object is gone. */
  | 'gone'
  /** The API server does not accept this status: it is too large, or does not fit the CRD there. */
  | 'refused';

export class StatusWriter {
  readonly #client: Pick<KubeClient, 'replace'>;
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #buckets: TokenBuckets;
  /** When each object was last written, by kind and name. */
  readonly #writtenMs = new Map<string, number>();

  constructor(client: Pick<KubeClient, 'replace'>, clock: Pick<Clock, 'monotonic'>) {
    this.#client = client;
    this.#clock = clock;
    this.#buckets = new TokenBuckets({ clock, ...rate, maxKeys: 1 });
  }

  /** Undefined where this process has not written it yet. */
  ageMs(kind: Kind, name: string): number | undefined {
    const writtenMs = this.#writtenMs.get(keyOf(kind, name));
    return writtenMs === undefined ? undefined : this.#clock.monotonic() - writtenMs;
  }

  forget(kind: Kind, name: string): void {
    this.#writtenMs.delete(keyOf(kind, name));
  }

  /** `isUrgent`: without a pause since the last write. Rejects with other failures than those of `StatusWrite`. */
  async write(
    kind: Kind,
    object: ClusterObject,
    status: JsonObject,
    isUrgent = false,
  ): Promise<StatusWrite> {
    const { name } = object.metadata;
    const ageMs = this.ageMs(kind, name);
    if (!isUrgent && ageMs !== undefined && ageMs < pauseMs) return { waitMs: pauseMs - ageMs };
    const waitSeconds = this.#buckets.take('');
    if (waitSeconds !== undefined) return { waitMs: waitSeconds * 1000 };
    if (!isUrgent) this.#writtenMs.set(keyOf(kind, name), this.#clock.monotonic());
    return this.#send(kind, object, status);
  }

  async #send(kind: Kind, object: ClusterObject, status: JsonObject): Promise<StatusWrite> {
    const { apiVersion, kind: kindName, spec } = object;
    const { name, uid, resourceVersion } = object.metadata;
    try {
      const written = await this.#client.replace<KubeObject>(
        `${clusterSidePath(kind)}${kubePath`/${name}/status`}`,
        { apiVersion, kind: kindName, metadata: { name, uid, resourceVersion }, spec, status },
      );
      return { object: readClusterObject(written) };
    } catch (error) {
      if (!(error instanceof KubeStatusError)) throw error;
      switch (error.status) {
        case 404:
          return 'gone';
        case 409:
          return { waitMs: conflictMs };
        case 400:
        case 413:
        case 422:
          return 'refused';
        default:
          throw error;
      }
    }
  }
}

const keyOf = (kind: Kind, name: string): string => `${kind.kind}/${name}`;

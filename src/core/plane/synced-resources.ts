// How a plane writes objects that come from a Kubernetes cluster: as the user `cluster:NAME`, with the rights of
// that user only.

import type { Kind } from '../../api/kind.ts';
import type { JsonObject, Resource } from '../../api/object.ts';
import type { OriginSource } from '../access/origin.ts';
import type { Commit } from '../store/store.ts';

/** An object as the cluster has it. */
export interface SyncedObject {
  readonly kind: Kind;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: JsonObject | undefined;
  readonly source: OriginSource;
}

/**
 * The write path of one cluster. Every write is authorized, validated, admitted and audited like a request of the
 * user `cluster:NAME` to the API, and counts against its limit of audit records. All of them are idempotent, and
 * reject with the errors of the API: HANSA_FORBIDDEN, HANSA_INVALID, HANSA_TOO_MANY_REQUESTS, HANSA_FENCED, ….
 */
export interface SyncedResources {
  /** Whether the site serves objects of the kind. */
  serves(kind: Kind): boolean;
  /**
   * Server-side apply of labels and spec with force. Creates the object if it is missing. Writes nothing if
   * nothing changes. Resolves to the object with its status. Rejects with HANSA_ALREADY_EXISTS where there is an
   * object of this name that did not come from this cluster.
   */
  apply(object: SyncedObject, fence: Commit['fence']): Promise<Resource>;
  /** Deletes the object if it came from this object of this cluster, and nothing otherwise. */
  remove(kind: Kind, name: string, sourceUid: string, fence: Commit['fence']): Promise<void>;
  /**
   * Forgets which object of the cluster it came from, so that its absence there is no deletion. The object stays
   * with the cluster: `apply` changes it again.
   */
  keep(kind: Kind, name: string, sourceUid: string, fence: Commit['fence']): Promise<void>;
}

// The client through which controllers read and write resources. The server implements it on the
// write path of the resource API, so that changes of controllers are validated, versioned, audited
// and watched like all others.

import type { Resource } from '../../api/object.ts';
import type { Origin } from '../access/audit-draft.ts';
import type { Caller } from '../access/identity.ts';
import type { SpentApproval } from '../approvals/approval-gate.ts';
import type { Commit, Expectation } from '../store/store.ts';

/** The identity with which a controller writes. */
export interface WriteAs {
  /** The controller's name: field manager, and actor in the audit log. */
  readonly controller: string;
  /** The caller that requested this write; the audit log names it instead of the controller. */
  readonly caller?: Caller;
  /** The id of the caller's request. */
  readonly origin?: Origin;
  /** Default: the lease of the controller that runs. The store rejects a write with an older epoch (HANSA_FENCED). */
  readonly fence?: { readonly lease: string; readonly epoch: number };
  /** Records that the write relies on. It is rejected with HANSA_CONFLICT where one of them has changed. */
  readonly expect?: readonly Expectation[];
  /** Records and audit rows of the same commit. A write that changes nothing writes none of them. */
  readonly also?: Pick<Commit, 'put' | 'audit'>;
  /** The Approval that this write spends. A write that changes nothing does not spend it. */
  readonly spent?: SpentApproval;
}

export interface NewResource<Spec> {
  readonly name: string;
  readonly spec: Spec;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The owner: this object is deleted with it. */
  readonly owner?: Resource;
  readonly finalizers?: readonly string[];
}

/**
 * The resources of one kind. Reads show every write that was acknowledged before them. Writes are
 * durable when they resolve, and the client retries them on HANSA_CONFLICT where they are a function of the
 * current object. The caller handles other errors.
 */
export interface ResourceClient<R extends Resource = Resource> {
  /** With live facts in its status (src/api/live-status.ts); the functions below get the stored object. */
  get(name: string): Promise<R | undefined>;
  /** In order of names. */
  list(options?: { readonly labels?: Readonly<Record<string, string>> }): Promise<readonly R[]>;
  /** Rejects with HANSA_ALREADY_EXISTS where there is one of this name. */
  create(object: NewResource<R['spec']>, as: WriteAs): Promise<R>;
  /**
   * Replaces the status with the result of `next`, which must be pure, as it runs again on a conflict.
   * Writes nothing where the status stays the same (deeply). Resolves to undefined where the object
   * is gone.
   */
  patchStatus(
    name: string,
    next: (current: R) => NonNullable<R['status']>,
    as: WriteAs,
    /**
     * Set for a transition that the audit log should record. `verb` is its verb in the record, such as
     * `peer.activate`. Default: `update`.
     */
    transition?: { readonly reason: string; readonly verb?: string },
  ): Promise<R | undefined>;
  /** Replaces the spec, like `patchStatus`, for fields that a controller owns. */
  patchSpec(
    name: string,
    next: (current: R) => R['spec'],
    as: WriteAs,
    transition?: { readonly reason: string; readonly verb?: string },
  ): Promise<R | undefined>;
  /** Marks it deleted where finalizers hold it. `uid` prevents the deletion of a new object with the same name. Idempotent. */
  delete(name: string, as: WriteAs, options?: { readonly uid?: string }): Promise<void>;
  /** Adds the finalizer if it is not there. Resolves to undefined where the object is gone or being deleted. */
  ensureFinalizer(name: string, finalizer: string, as: WriteAs): Promise<R | undefined>;
  /** Removes it; the object disappears with the last one if it was being deleted. */
  removeFinalizer(name: string, finalizer: string, as: WriteAs): Promise<R | undefined>;
}

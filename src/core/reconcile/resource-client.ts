// How controllers read and write resources: the contract only. The server implements it on the
// resource API's own write path, so that a controller's change is validated, versioned, audited and
// watched like anybody's.

import type { Resource } from '../../api/object.ts';
import type { Origin } from '../access/audit-draft.ts';
import type { Caller } from '../access/identity.ts';

/** With whose authority a controller writes. */
export interface WriteAs {
  /** The controller's name: field manager, and actor in the audit log. */
  readonly controller: string;
  /** Whoever asked for this very write: the actor in the controller's place. */
  readonly caller?: Caller;
  /** The request with which the caller asked. */
  readonly origin?: Origin;
  /** Where the controller runs under a lease: a write with an older epoch is refused with HANSA_FENCED. */
  readonly fence?: { readonly lease: string; readonly epoch: number };
}

export interface NewResource<Spec> {
  readonly name: string;
  readonly spec: Spec;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** The object that this one is deleted with. */
  readonly owner?: Resource;
  readonly finalizers?: readonly string[];
}

/**
 * The resources of one kind. Reads show every write that was acknowledged before them. Writes are
 * durable when they resolve, and retried by the client on HANSA_CONFLICT where they are given as a
 * function of the current object; other errors are the caller's.
 */
export interface ResourceClient<R extends Resource = Resource> {
  /** With live facts in its status (src/api/live-status.ts); the functions below get what is stored. */
  get(name: string): Promise<R | undefined>;
  /** In order of names. */
  list(options?: { readonly labels?: Readonly<Record<string, string>> }): Promise<readonly R[]>;
  /** Rejects with HANSA_ALREADY_EXISTS where there is one of this name. */
  create(object: NewResource<R['spec']>, as: WriteAs): Promise<R>;
  /**
   * Replaces the status by what `next` makes of the object; may call it again on a conflict, so it
   * must be pure. Where the status stays the same (deeply), nothing is written. Resolves to
   * undefined where the object is gone.
   */
  patchStatus(
    name: string,
    next: (current: R) => NonNullable<R['status']>,
    as: WriteAs,
    /**
     * Given where this is a transition worth a record in the audit log; `verb` is what the record
     * calls it (`peer.activate`), `update` unless told.
     */
    transition?: { readonly reason: string; readonly verb?: string },
  ): Promise<R | undefined>;
  /** Replaces the spec, like `patchStatus`: for what a controller owns of it. */
  patchSpec(
    name: string,
    next: (current: R) => R['spec'],
    as: WriteAs,
    transition?: { readonly reason: string; readonly verb?: string },
  ): Promise<R | undefined>;
  /** Marks it deleted where finalizers hold it. `uid` guards against deleting a namesake. Deleting what is gone does nothing. */
  delete(name: string, as: WriteAs, options?: { readonly uid?: string }): Promise<void>;
  /** Adds the finalizer if it is not there. Resolves to undefined where the object is gone or being deleted. */
  ensureFinalizer(name: string, finalizer: string, as: WriteAs): Promise<R | undefined>;
  /** Removes it; the object disappears with the last one if it was being deleted. */
  removeFinalizer(name: string, finalizer: string, as: WriteAs): Promise<R | undefined>;
}

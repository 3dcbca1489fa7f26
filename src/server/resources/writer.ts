// The only way to change a resource, for users and controllers: validates, checks admission, and writes
// the audit record in the same commit.

import { keepTimesIfUnchanged, recordUpdate } from '../../api/fields/ownership.ts';
import type { Kind } from '../../api/kind.ts';
import { apiVersion, group, type Json, type JsonObject, timestamp } from '../../api/object.ts';
import { finalizerWarnings } from '../../api/metadata/metadata-rules.ts';
import { objectSchema } from '../../api/resource-schema.ts';
import { invalid, invalidObject } from '../../api/schema/field-error.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import type { Requester } from '../../core/access/audit-draft.ts';
import type { SpentApproval } from '../../core/approvals/approval-gate.ts';
import type { Decided } from '../../core/approvals/decide-approval.ts';
import type { WriteOperation } from '../../core/approvals/policy.ts';
import type { Caller } from '../../core/access/identity.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import { commitFenced } from '../../core/lease/current-fence.ts';
import type { Accompaniment } from '../../core/plane/plane.ts';
import type {
  AuditRow,
  Commit,
  Committed,
  Entry,
  Expectation,
  Store,
} from '../../core/store/store.ts';
import { alreadyExists, badRequest, conflict, modifiedSince, notFound } from './errors.ts';
import { type ObjectDraft, encodeObject, objectOf, withRevision } from './object-of.ts';
import type { DeleteOptions } from './delete-options.ts';
import type { WriteOptions } from './options.ts';
import {
  generateName,
  isDeletionDue,
  markDeleted,
  prepareForCreate,
  prepareForUpdate,
  wipeSystemFields,
} from './prepare.ts';
import {
  checkPreconditions,
  refuseInvalid,
  refuseUnreadable,
  versionProblem,
} from './write-checks.ts';

/** Describes a write, for the audit log. */
export interface WriteRecord {
  readonly caller: Caller;
  readonly verb: 'create' | 'update' | 'patch' | 'apply' | 'delete';
  readonly kind: Kind;
  readonly subresource: 'status' | undefined;
  readonly before: ObjectDraft | undefined;
  readonly after: ObjectDraft | undefined;
  readonly transition: WriteContext['transition'];
  /** The meaning of the change, if the plane of the kind provides it. */
  readonly meaning?: string | undefined;
  readonly context: RequestContext;
}

export interface RequestContext {
  readonly requestId: string;
  readonly address: string | undefined;
}

/** Checks beyond the schema, such as who may grant what. Throws to reject. The result must still hold at the commit. */
export type Admission = (
  caller: Caller,
  kind: Kind,
  next: ObjectDraft | undefined,
  live: ObjectDraft | undefined,
  /** Sends a warning to the caller. */
  warn?: (text: string) => void,
) => readonly Expectation[];

/** A valid and admitted write, before its commit. */
export interface ProposedWrite {
  readonly by: Requester;
  readonly kind: Kind;
  readonly operation: WriteOperation;
  /** Undefined for a deletion. */
  readonly next: ObjectDraft | undefined;
  readonly live: ObjectDraft | undefined;
  readonly dryRun: boolean;
  readonly warn: ((text: string) => void) | undefined;
}

export interface WriterParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly admit: Admission;
  /** The writes that the plane of the kind adds to the commit. */
  readonly accompany?: (
    kind: Kind,
    next: ObjectDraft | undefined,
    live: ObjectDraft | undefined,
    by: Requester,
    approval?: string,
  ) => Accompaniment | undefined;
  /**
   * Asks for approval of a write that needs one. Undefined if it needs none. Rejects with
   * HANSA_APPROVAL_REQUIRED. Only warns for a dry run.
   */
  readonly approve?: (write: ProposedWrite) => Promise<SpentApproval | undefined> | undefined;
  /** The decision that a write of an Approval contains, and the status that it leads to. Throws to reject the write. */
  readonly decide?: (
    caller: Caller,
    kind: Kind,
    next: ObjectDraft | undefined,
    live: ObjectDraft | undefined,
  ) => Decided | undefined;
  /** Undefined if the write gets no record, such as a status write without a transition. */
  readonly auditRow: (record: WriteRecord) => AuditRow | undefined;
}

export interface WriteContext extends RequestContext {
  readonly caller: Caller;
  readonly verb: WriteRecord['verb'];
  readonly options: WriteOptions;
  readonly fence?: Commit['fence'];
  /** Records that the writer relies on. */
  readonly expect?: readonly Expectation[];
  /** Records and audit rows of the same commit. */
  readonly also?: Pick<Commit, 'put' | 'audit'>;
  /** The Approval of an action that this write is part of. */
  readonly spent?: SpentApproval;
  /** Sends a warning to the caller. */
  readonly warn?: (text: string) => void;
  /** The verb and reason of a status write for the audit log. Default: the transitions of its conditions. */
  readonly transition?: { readonly reason: string; readonly verb?: string } | undefined;
}

export interface Written {
  readonly object: ObjectDraft;
  /** Undefined for a dry run and for a deleted object. */
  readonly entry: Entry | undefined;
  readonly created: boolean;
}

export interface Deleted {
  /** The object that still has finalizers, or undefined. */
  readonly pending: Written | undefined;
  readonly uid: string;
  /** The last state of the deleted object. */
  readonly last: ObjectDraft;
}

/** Retries after a conflict. More contention on one object indicates a fault. */
const maxAttempts = 32;
const maxNameAttempts = 8;

/** A precondition of this write changed before its commit: read again and retry. */
class Overtaken extends HansaError {
  constructor(cause: HansaError) {
    super('HANSA_CONFLICT', cause.message, { cause });
  }
}

export class ResourceWriter {
  readonly #parts: WriterParts;

  constructor(parts: WriterParts) {
    this.#parts = parts;
  }

  /** `object` is decoded: pruned and defaulted. */
  async create(kind: Kind, object: ObjectDraft, context: WriteContext): Promise<Written> {
    const wiped = wipeSystemFields(object);
    // An unparsable version counts as none, as in kube-apiserver.
    const given = wiped.metadata.resourceVersion ?? '';
    if (versionProblem(given) === undefined && /[1-9]/.test(given)) {
      throw badRequest('resourceVersion should not be set on objects to be created');
    }
    const owned = recordUpdate({
      ...this.#ownership(kind, context),
      live: undefined,
      next: wiped as JsonObject,
    }) as ObjectDraft;
    const generated =
      (wiped.metadata.name ?? '') === '' && (wiped.metadata.generateName ?? '') !== '';
    for (let attempt = 1; ; attempt += 1) {
      const name = generated
        ? generateName(wiped.metadata.generateName as string, () => this.#parts.random.unit())
        : (wiped.metadata.name ?? '');
      try {
        return await this.#insert(kind, owned, name, context);
      } catch (error) {
        if (error instanceof Overtaken && attempt < maxAttempts) continue;
        if (!(generated && hasCode(error, 'HANSA_ALREADY_EXISTS') && attempt < maxNameAttempts))
          throw error;
      }
    }
  }

  async #insert(
    kind: Kind,
    object: ObjectDraft,
    name: string,
    context: WriteContext,
  ): Promise<Written> {
    const next = prepareForCreate(kind, object, {
      name,
      uid: this.#parts.random.uuid(),
      nowMs: this.#parts.clock.now(),
    });
    refuseInvalid(kind, next, undefined);
    for (const warning of finalizerWarnings(next.metadata)) context.warn?.(warning);
    const expectations = this.#parts.admit(context.caller, kind, next, undefined, context.warn);
    const existing = this.#parts.store.get(kind.plural, name);
    if (existing !== undefined) {
      throw alreadyExists(kind, name, objectOf(existing).metadata.deletionTimestamp !== undefined);
    }
    this.#parts.decide?.(context.caller, kind, next, undefined);
    const { dryRun } = context.options;
    const asked = this.#approve(kind, 'create', next, undefined, dryRun, context);
    const spent = asked && (await asked);
    if (dryRun) return { object: next, entry: undefined, created: true };
    const written = await this.#commit(
      kind,
      undefined,
      next,
      undefined,
      expectations,
      context,
      spent,
    );
    return { ...written, created: true };
  }

  /**
   * Changes an existing object. `change` gets the live object and returns the next one with its field
   * ownership. It runs again after a conflict. With `mayCreate`, which throws if the caller may not
   * create, it gets undefined for a missing object and creates one (apply).
   */
  async update(
    kind: Kind,
    name: string,
    subresource: 'status' | undefined,
    context: WriteContext,
    change: (live: ObjectDraft | undefined) => ObjectDraft,
    mayCreate?: () => void,
  ): Promise<Written> {
    for (let attempt = 1; ; attempt += 1) {
      const entry = this.#parts.store.get(kind.plural, name);
      if (entry === undefined) {
        if (mayCreate === undefined || subresource !== undefined) throw notFound(kind, name);
        mayCreate();
      }
      try {
        return await (entry === undefined
          ? this.#insert(kind, madeBy(kind, name, change), name, context)
          : this.#replace(kind, subresource, entry, context, change));
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
        if (attempt >= maxAttempts) throw conflict(kind, name, modifiedSince);
      }
    }
  }

  async #replace(
    kind: Kind,
    subresource: 'status' | undefined,
    entry: Entry,
    context: WriteContext,
    change: (live: ObjectDraft | undefined) => ObjectDraft,
  ): Promise<Written> {
    const { name } = entry;
    const live = objectOf(entry);
    const changed = change(live);
    if (changed === live) return { object: live, entry, created: false };
    // The uid of a PUT is a precondition. A patch cannot change the uid.
    const uid = changed.metadata.uid ?? '';
    if (context.verb === 'update' && uid !== '' && uid !== live.metadata.uid) {
      throw conflict(
        kind,
        name,
        `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${live.metadata.uid}`,
      );
    }
    const resourceVersion = changed.metadata.resourceVersion ?? '';
    if (resourceVersion === '' || resourceVersion === '0') {
      throw invalidObject({ group, kind: kind.plural, name }, [
        invalid('metadata.resourceVersion', 0, 'must be specified for an update'),
      ]);
    }
    refuseUnreadable(resourceVersion);
    if (resourceVersion !== live.metadata.resourceVersion)
      throw conflict(kind, name, modifiedSince);
    const prepared = keepTimesIfUnchanged(
      live as JsonObject,
      prepareForUpdate(kind, subresource, changed, live) as JsonObject,
    ) as ObjectDraft;
    refuseInvalid(kind, prepared, live, subresource);
    for (const warning of finalizerWarnings(prepared.metadata, live.metadata))
      context.warn?.(warning);
    const expectations = this.#parts.admit(context.caller, kind, prepared, live, context.warn);
    const isOfSpec = subresource === undefined;
    const decided = isOfSpec
      ? this.#parts.decide?.(context.caller, kind, prepared, live)
      : undefined;
    const next = decided === undefined ? prepared : { ...prepared, status: decided.status as Json };
    const { dryRun } = context.options;
    if (isDeletionDue(next)) {
      if (!dryRun) await this.#commit(kind, subresource, undefined, entry, expectations, context);
      return { object: next, entry: undefined, created: false };
    }
    if (jsonEquals(next, live)) return { object: live, entry, created: false };
    const asked = isOfSpec ? this.#approve(kind, 'update', next, live, dryRun, context) : undefined;
    const spent = asked && (await asked);
    if (dryRun) return { object: next, entry: undefined, created: false };
    const as = decided === undefined ? context : { ...context, transition: decided };
    return this.#commit(kind, subresource, next, entry, expectations, as, spent);
  }

  /** Undefined where the write needs no approval, so that it goes on without a pause. */
  #approve(
    kind: Kind,
    operation: WriteOperation,
    next: ObjectDraft | undefined,
    live: ObjectDraft | undefined,
    dryRun: boolean,
    context: WriteContext,
  ): Promise<SpentApproval | undefined> | undefined {
    const { warn } = context;
    const by = requesterOf(context);
    return this.#parts.approve?.({ by, kind, operation, next, live, dryRun, warn });
  }

  async delete(
    kind: Kind,
    name: string,
    options: DeleteOptions,
    context: WriteContext,
  ): Promise<Deleted> {
    for (let attempt = 1; ; attempt += 1) {
      const entry = this.#parts.store.get(kind.plural, name);
      if (entry === undefined) throw notFound(kind, name);
      const live = objectOf(entry);
      checkPreconditions(kind, live, options);
      const expectations = this.#parts.admit(context.caller, kind, undefined, live);
      this.#parts.decide?.(context.caller, kind, undefined, live);
      const uid = live.metadata.uid as string;
      const marked = live.metadata.deletionTimestamp !== undefined;
      const asked = marked
        ? undefined
        : this.#approve(kind, 'delete', undefined, live, options.dryRun, context);
      const spent = asked && (await asked);
      try {
        if ((live.metadata.finalizers ?? []).length > 0) {
          const next = marked ? live : markDeleted(live, this.#parts.clock.now());
          const pending =
            marked || options.dryRun
              ? { object: next, entry: marked ? entry : undefined, created: false }
              : await this.#commit(kind, undefined, next, entry, expectations, context, spent);
          return { pending, uid, last: live };
        }
        if (!options.dryRun)
          await this.#commit(kind, undefined, undefined, entry, expectations, context, spent);
        return { pending: undefined, uid, last: live };
      } catch (error) {
        if (!(error instanceof Overtaken)) throw error;
        if (attempt >= maxAttempts) throw conflict(kind, name, modifiedSince);
      }
    }
  }

  async #commit(
    kind: Kind,
    subresource: 'status' | undefined,
    next: ObjectDraft | undefined,
    before: Entry | undefined,
    expectations: readonly Expectation[],
    context: WriteContext,
    spent: SpentApproval | undefined = context.spent,
  ): Promise<Written> {
    const name = next?.metadata.name ?? (before as Entry).name;
    const live = before === undefined ? undefined : objectOf(before);
    const beside =
      subresource === undefined
        ? this.#parts.accompany?.(kind, next, live, requesterOf(context), spent?.uid)
        : undefined;
    const row = this.#parts.auditRow({
      caller: context.caller,
      verb: context.verb,
      kind,
      subresource,
      before: live,
      after: next,
      transition: context.transition,
      meaning: beside?.meaning,
      context,
    });
    const rows = [
      ...(row === undefined ? [] : [row]),
      ...(context.also?.audit ?? []),
      ...(spent?.audit ?? []),
    ];
    const { entries } = await this.#commitUnlessOvertaken({
      expect: [
        { collection: kind.plural, name, at: before?.revision ?? 'absent' },
        ...expectations,
        ...(context.expect ?? []),
        ...(spent?.expect ?? []),
      ],
      put: [
        ...(next === undefined
          ? []
          : [
              {
                collection: kind.plural,
                name,
                encode: (revision: number) => encodeObject(next, revision),
              },
            ]),
        ...(beside?.put ?? []),
        ...(context.also?.put ?? []),
        ...(spent?.put ?? []),
      ],
      delete: [
        ...(next === undefined ? [{ collection: kind.plural, name }] : []),
        ...(beside?.delete ?? []),
      ],
      ...(rows.length === 0 ? {} : { audit: rows }),
      ...(context.fence === undefined ? {} : { fence: context.fence }),
    });
    const entry = next === undefined ? undefined : entries[0];
    const object =
      entry === undefined
        ? (next ?? objectOf(before as Entry))
        : withRevision(next as ObjectDraft, entry.revision);
    return { object, entry, created: false };
  }

  async #commitUnlessOvertaken(commit: Commit): Promise<Committed> {
    try {
      return await commitFenced(this.#parts.store, commit);
    } catch (error) {
      if (hasCode(error, 'HANSA_CONFLICT')) throw new Overtaken(error);
      throw error;
    }
  }

  #ownership(kind: Kind, context: WriteContext) {
    return {
      kind: kind.kind,
      schema: objectSchema(kind),
      manager: context.options.manager,
      timeIso: timestamp(this.#parts.clock.now()),
      apiVersion,
    };
  }
}

function requesterOf({ caller, requestId, address }: WriteContext): Requester {
  return {
    caller,
    origin: {
      ...(requestId === '' ? {} : { requestId }),
      ...(address === undefined ? {} : { address }),
    },
  };
}

/** An apply that creates the object. */
function madeBy(
  kind: Kind,
  name: string,
  change: (live: ObjectDraft | undefined) => ObjectDraft,
): ObjectDraft {
  const made = change(undefined);
  const uid = made.metadata.uid ?? '';
  if (uid !== '') {
    throw conflict(
      kind,
      name,
      `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`,
    );
  }
  refuseUnreadable(made.metadata.resourceVersion ?? '');
  return wipeSystemFields(made);
}

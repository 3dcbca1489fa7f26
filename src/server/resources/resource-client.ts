// The resource API for controllers: the same write path as for users, without HTTP.

import { recordUpdate } from '../../api/fields/ownership.ts';
import type { Kind } from '../../api/kind.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import {
  apiVersion,
  type Json,
  type JsonObject,
  type Resource,
  timestamp,
} from '../../api/object.ts';
import { defaultObject, objectSchema, pruneObject } from '../../api/resource-schema.ts';
import { jsonEquals } from '../../api/schema/json.ts';
import { controllerCaller } from '../../core/access/identity.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { NewResource, ResourceClient, WriteAs } from '../../core/reconcile/resource-client.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { type ObjectDraft, objectOf } from './object-of.ts';
import type { ResourceWriter, WriteContext, Written } from './writer.ts';

export interface ResourceClientParts {
  readonly store: Store;
  readonly writer: ResourceWriter;
  readonly clock: Clock;
}

export function resourceClient<R extends Resource>(
  kind: Kind,
  parts: ResourceClientParts,
): ResourceClient<R> {
  const { store, writer, clock } = parts;

  /** The object with its current facts, as users read it. */
  const live = (entry: Entry): ObjectDraft =>
    withLiveStatus(kind, objectOf(entry), store.facts.get(kind.plural, entry.name));

  const change = (
    name: string,
    subresource: 'status' | undefined,
    as: WriteAs,
    next: (current: ObjectDraft) => ObjectDraft,
    transition?: Transition,
  ): Promise<R | undefined> =>
    unlessGone(
      writer.update(kind, name, subresource, contextOf(as, 'update', transition), (stored) => {
        // Without allowCreate, the writer calls this only for an existing object.
        const current = stored as ObjectDraft;
        const wanted = next(current);
        if (wanted === current) return current;
        return recordUpdate({
          schema: objectSchema(kind),
          apiVersion,
          kind: kind.kind,
          live: current as JsonObject,
          manager: as.controller,
          timeIso: timestamp(clock.now()),
          next: wanted as JsonObject,
          ...(subresource === undefined ? {} : { subresource }),
        }) as ObjectDraft;
      }),
    );

  const changeFinalizers = (
    name: string,
    as: WriteAs,
    next: (current: readonly string[]) => readonly string[],
  ): Promise<R | undefined> =>
    change(name, undefined, as, (current) => {
      const before = current.metadata.finalizers ?? [];
      const after = next(before);
      return jsonEquals(before, after)
        ? current
        : { ...current, metadata: { ...current.metadata, finalizers: after } };
    });

  return {
    get: async (name) => {
      const entry = store.get(kind.plural, name);
      return entry && (live(entry) as unknown as R);
    },
    list: async (options) =>
      store
        .list(kind.plural)
        .entries.map(live)
        .filter((object) => hasLabels(object, options?.labels))
        .map((object) => object as unknown as R),
    create: async (object, as) => {
      const draft = pruneObject(kind, draftOf(kind, object)).object;
      const { object: made } = await writer.create(
        kind,
        defaultObject(kind, draft) as ObjectDraft,
        contextOf(as, 'create'),
      );
      return made as unknown as R;
    },
    patchStatus: (name, next, as, transition) =>
      change(
        name,
        'status',
        as,
        (current) => {
          const status = next(current as unknown as R) as Json;
          return jsonEquals(status, current.status) ? current : { ...current, status };
        },
        transition,
      ),
    patchSpec: (name, next, as, transition) =>
      change(
        name,
        undefined,
        as,
        (current) => {
          const spec = next(current as unknown as R) as Json;
          return jsonEquals(spec, current.spec) ? current : { ...current, spec };
        },
        transition,
      ),
    delete: async (name, as, options) => {
      const asked = { dryRun: false, uid: options?.uid, resourceVersion: undefined };
      await unlessGone(
        writer.delete(kind, name, asked, contextOf(as, 'delete')).then(() => undefined),
      );
    },
    ensureFinalizer: async (name, finalizer, as) => {
      const entry = store.get(kind.plural, name);
      if (entry === undefined || objectOf(entry).metadata.deletionTimestamp !== undefined)
        return undefined;
      return changeFinalizers(name, as, (current) =>
        current.includes(finalizer) ? current : [...current, finalizer],
      );
    },
    removeFinalizer: (name, finalizer, as) =>
      changeFinalizers(name, as, (current) => current.filter((each) => each !== finalizer)),
  };
}

type Transition = NonNullable<WriteContext['transition']>;

function contextOf(as: WriteAs, verb: WriteContext['verb'], transition?: Transition): WriteContext {
  return {
    caller: as.caller ?? controllerCaller(as.controller),
    verb,
    options: { dryRun: false, manager: as.controller, fieldValidation: 'Ignore', force: false },
    requestId: as.origin?.requestId ?? '',
    address: as.origin?.address,
    ...(as.fence === undefined ? {} : { fence: as.fence }),
    ...(as.expect === undefined ? {} : { expect: as.expect }),
    ...(as.also === undefined ? {} : { also: as.also }),
    ...(as.spent === undefined ? {} : { spent: as.spent }),
    ...(transition === undefined ? {} : { transition }),
  };
}

function draftOf(
  kind: Kind,
  { name, spec, labels, annotations, owner, finalizers }: NewResource<unknown>,
): ObjectDraft {
  return {
    apiVersion,
    kind: kind.kind,
    metadata: {
      name,
      ...(labels === undefined ? {} : { labels }),
      ...(annotations === undefined ? {} : { annotations }),
      ...(finalizers === undefined ? {} : { finalizers }),
      ...(owner === undefined
        ? {}
        : {
            ownerReferences: [
              {
                apiVersion: owner.apiVersion,
                kind: owner.kind,
                name: owner.metadata.name,
                uid: owner.metadata.uid,
                controller: true,
                blockOwnerDeletion: true,
              },
            ],
          }),
    },
    spec: spec as Json,
  };
}

function hasLabels(
  object: ObjectDraft,
  labels: Readonly<Record<string, string>> | undefined,
): boolean {
  return Object.entries(labels ?? {}).every(
    ([key, value]) => object.metadata.labels?.[key] === value,
  );
}

async function unlessGone<R>(write: Promise<Written | undefined>): Promise<R | undefined> {
  try {
    const written = await write;
    return written && (written.object as unknown as R);
  } catch (error) {
    if (hasCode(error, 'HANSA_NOT_FOUND')) return undefined;
    throw error;
  }
}

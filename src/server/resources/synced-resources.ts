// The write path for objects that come from a Kubernetes cluster. It authorizes the user `cluster:NAME` and then
// uses the writer of the API, so that a cluster can do what its roles say and nothing else.

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
import type { Registry } from '../../api/registry.ts';
import { objectSchema } from '../../api/resource-schema.ts';
import { actorOf } from '../../core/access/audit-draft.ts';
import type { Authorizer } from '../../core/access/authorizer.ts';
import { forbidden } from '../../core/access/denial.ts';
import { type Caller, clusterCaller } from '../../core/access/identity.ts';
import {
  encodeSource,
  clusterOriginKey,
  originOf,
  type OriginSource,
} from '../../core/access/origin.ts';
import type { Audit } from '../../core/audit/log.ts';
import type { Clock } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { SyncedObject, SyncedResources } from '../../core/plane/synced-resources.ts';
import type { Commit, Store } from '../../core/store/store.ts';
import type { RecordBudget } from '../audit/record-budget.ts';
import { patchWith } from './changes.ts';
import { resourceName } from './errors.ts';
import { type ObjectDraft, objectOf } from './object-of.ts';
import type { ResourceWriter, WriteContext } from './writer.ts';

export interface SyncedResourcesParts {
  readonly registry: Pick<Registry, 'byKind'>;
  readonly store: Store;
  readonly writer: ResourceWriter;
  readonly clock: Clock;
  readonly authorizer: Pick<Authorizer, 'authorize'>;
  readonly budget: Pick<RecordBudget, 'check'>;
  readonly audit: Pick<Audit, 'deny'>;
}

type Fence = Commit['fence'];
type Verb = 'create' | 'patch' | 'delete';

/** `cluster` is the name of a Cluster of the site, which the plane has found marked. */
export function syncedResources(cluster: string, parts: SyncedResourcesParts): SyncedResources {
  const { registry, store, writer, clock, budget, audit } = parts;
  const caller = clusterCaller(cluster);

  const authorize = (verb: Verb, kind: Kind, name: string): void => {
    const { plural } = kind;
    const may = (asked: Verb): boolean =>
      parts.authorizer.authorize(caller, { verb: asked, plural, name }).allowed;
    if (may(verb)) return;
    // The verb must not tell a cluster without any right whether the object exists.
    const named = verb === 'patch' && !may('create') ? 'create' : verb;
    throw forbidden(caller, { verb: named, plural, name });
  };
  const contextOf = (verb: WriteContext['verb'], fence: Fence): WriteContext => ({
    caller,
    verb,
    options: { dryRun: false, manager: caller.user, fieldValidation: 'Strict', force: true },
    requestId: '',
    address: undefined,
    ...(fence === undefined ? {} : { fence }),
  });
  /** As for a request: a caller over its limit is refused, and a denial is recorded. */
  const attempt = async <T>(verb: Verb, kind: Kind, work: () => Promise<T>): Promise<T> => {
    budget.check(caller);
    try {
      return await work();
    } catch (error) {
      if (hasCode(error, 'HANSA_FORBIDDEN')) audit.deny(denial(caller, verb, kind, error));
      throw error;
    }
  };
  /** An apply of this configuration, as a PATCH would do it. */
  const change = (kind: Kind, name: string, applied: Json) =>
    patchWith(
      {
        kind,
        name,
        subresource: undefined,
        options: contextOf('apply', undefined).options,
        timeIso: timestamp(clock.now()),
        warn: () => undefined,
      },
      'application/apply-patch+yaml',
      Buffer.from(JSON.stringify(applied)),
    );

  return {
    serves: (kind) => registry.byKind(kind.kind) === kind && kind.singleton === undefined,
    apply: (object, fence) => {
      const { kind, name } = object;
      return attempt('patch', kind, async () => {
        const written = await writer.update(
          kind,
          name,
          undefined,
          contextOf('apply', fence),
          (live) => {
            if (live !== undefined) {
              authorize('patch', kind, name);
              refuseForeign(cluster, kind, live);
            }
            return change(kind, name, appliedOf(cluster, object, live))(live);
          },
          () => authorize('create', kind, name),
        );
        const facts = store.facts.get(kind.plural, name);
        return withLiveStatus(kind, written.object, facts) as unknown as Resource;
      });
    },
    remove: (kind, name, sourceUid, fence) =>
      attempt('delete', kind, async () => {
        const entry = store.get(kind.plural, name);
        const live = entry && objectOf(entry);
        if (live === undefined || !isFrom(cluster, sourceUid, live)) return;
        // It waits for finalizers of the site.
        if (live.metadata.deletionTimestamp !== undefined) return;
        authorize('delete', kind, name);
        const { uid, resourceVersion } = live.metadata;
        const options = { dryRun: false, uid, resourceVersion };
        await writer.delete(kind, name, options, contextOf('delete', fence));
      }),
    keep: (kind, name, sourceUid, fence) =>
      attempt('patch', kind, async () => {
        if (store.get(kind.plural, name) === undefined) return;
        await writer.update(kind, name, undefined, contextOf('patch', fence), (found) => {
          const live = found as ObjectDraft;
          if (!isFrom(cluster, sourceUid, live)) return live;
          const annotations: Record<string, string> = { ...live.metadata.annotations };
          delete annotations[clusterOriginKey];
          const next: ObjectDraft = { ...live, metadata: { ...live.metadata, annotations } };
          return recordUpdate({
            schema: objectSchema(kind),
            apiVersion,
            kind: kind.kind,
            live: live as JsonObject,
            manager: caller.user,
            timeIso: timestamp(clock.now()),
            next: next as JsonObject,
          }) as ObjectDraft;
        });
      }),
  };
}

/** What the cluster wants, with its origin. The source of an object that did not change stays as it is. */
function appliedOf(
  cluster: string,
  { kind, name, labels, spec, source }: SyncedObject,
  live: ObjectDraft | undefined,
): Json {
  const known = live && originOf(live.metadata)?.source;
  return {
    apiVersion,
    kind: kind.kind,
    metadata: {
      name,
      labels: { ...labels, [clusterOriginKey]: cluster },
      annotations: { [clusterOriginKey]: encodeSource(isSame(known, source) ? known : source) },
    },
    ...(spec === undefined ? {} : { spec }),
  };
}

/** The version is not compared: it changes with each write of a status. */
function isSame(known: OriginSource | undefined, source: OriginSource): known is OriginSource {
  return known?.uid === source.uid && known.definition === source.definition;
}

function isFrom(cluster: string, sourceUid: string, live: ObjectDraft): boolean {
  const origin = originOf(live.metadata);
  return origin?.cluster === cluster && origin.source?.uid === sourceUid;
}

/** Says nothing about the object: users of the cluster may not have the right to read it. */
function refuseForeign(cluster: string, kind: Kind, live: ObjectDraft): void {
  if (originOf(live.metadata)?.cluster === cluster) return;
  const { name = '' } = live.metadata;
  throw new HansaError(
    'HANSA_ALREADY_EXISTS',
    `${resourceName(kind)} "${name}" exists at the site, and did not come from this cluster. Choose another name, or ask an operator of the site to delete it.`,
    { details: { name, kind: kind.plural } },
  );
}

function denial(caller: Caller, verb: Verb, kind: Kind, error: HansaError) {
  const { name } = error.details ?? {};
  return {
    actor: actorOf(caller),
    verb,
    kind: kind.kind,
    ...(name === undefined ? {} : { name }),
    outcome: 'deny',
    code: error.code,
    reason: error.message,
  } as const;
}

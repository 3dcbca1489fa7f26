// Test fixture: the write path of a site with access control and all kinds that come from clusters, on a memory
// store.

import type { Kind } from '../../api/kind.ts';
import { clusterKind } from '../../api/kinds/cluster.ts';
import { roleKind } from '../../api/kinds/role.ts';
import { roleBindingKind } from '../../api/kinds/role-binding.ts';
import { siteKind } from '../../api/kinds/site.ts';
import { syncedKinds } from '../../api/kinds/synced-kinds.ts';
import type { Resource } from '../../api/object.ts';
import { createRegistry } from '../../api/registry.ts';
import { Authorizer } from '../../core/access/authorizer.ts';
import { checkEscalation } from '../../core/access/escalation.ts';
import { checkGuardedFields } from '../../core/access/guarded-fields.ts';
import { clusterUser } from '../../core/access/identity.ts';
import { checkOrigin } from '../../core/access/origin.ts';
import type { Rule } from '../../core/access/rules.ts';
import { type AuditDraft, encodeEvent } from '../../core/audit/event.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { SyncedResources } from '../../core/plane/synced-resources.ts';
import type { NewResource, ResourceClient } from '../../core/reconcile/resource-client.ts';
import { openStore } from '../../core/store/open.ts';
import type { Entry } from '../../core/store/store.ts';
import { auditWrites } from '../audit/audit-writes.ts';
import { RecordBudget } from '../audit/record-budget.ts';
import { objectOf } from './object-of.ts';
import { resourceClient } from './resource-client.ts';
import { syncedResources } from './synced-resources.ts';
import { type Admission, ResourceWriter } from './writer.ts';

const as = { controller: 'test' };

export type SyncedSite = Awaited<ReturnType<typeof syncedSite>>;

export interface SyncedSiteOptions {
  readonly clock?: VirtualClock;
  readonly recordsPerSecond?: number;
  /** The admission of planes. */
  readonly admit?: (kind: Kind, next: unknown) => void;
}

export async function syncedSite(options: SyncedSiteOptions = {}) {
  const { clock = new VirtualClock(), recordsPerSecond = 100 } = options;
  const random = new SeededRandom('synced');
  const store = await openStore({ driver: 'memory' }, { clock });
  const kinds = [siteKind, clusterKind, ...Object.values(syncedKinds)];
  const registry = createRegistry(kinds);
  const authorizer = new Authorizer({ store, kinds });
  const budget = new RecordBudget(recordsPerSecond, clock);
  const drafts: AuditDraft[] = [];
  const audit = budget.counting({
    record: (draft) => {
      drafts.push(draft);
      const time = new Date(clock.now()).toISOString();
      return { encode: ({ index, revision }) => encodeEvent({ ...draft, time, index, revision }) };
    },
    deny: (draft) => void drafts.push(draft),
    later: (draft) => void drafts.push(draft),
  });
  const admit: Admission = (caller, kind, next, live) => {
    checkGuardedFields(authorizer, caller, kind, next, live);
    checkOrigin((asked) => authorizer.isUnlimited(asked), caller, kind.plural, next, live);
    if (next !== undefined) options.admit?.(kind, next);
    return checkEscalation(authorizer, caller, kind.kind, next, live);
  };
  const writer = new ResourceWriter({
    store,
    clock,
    random,
    admit,
    auditRow: auditWrites(audit),
  });
  const resources = <R extends Resource>(kind: Kind): ResourceClient<R> =>
    resourceClient<R>(kind, { store, writer, clock });
  const synced = (cluster: string): SyncedResources =>
    syncedResources(cluster, { registry, store, writer, clock, authorizer, budget, audit });
  const put = (kind: Kind, object: NewResource<unknown>): Promise<Resource> =>
    resources(kind).create(object, as);

  /** Gives the cluster these rights, with a role of its own. Replaces those that it had. */
  const allow = async (cluster: string, ...rules: readonly Rule[]): Promise<void> => {
    const name = `of-${cluster}`;
    if (store.get(roleKind.plural, name) !== undefined) {
      await resources(roleKind).patchSpec(name, () => ({ rules }), as);
      return;
    }
    await put(roleKind, { name, spec: { rules } });
    const subjects = [{ kind: 'User', name: clusterUser(cluster) }];
    await put(roleBindingKind, { name, spec: { role: name, subjects } });
  };

  const find = (kind: Kind, name: string): Entry | undefined => store.get(kind.plural, name);
  const get = (kind: Kind, name: string) => {
    const entry = find(kind, name);
    return entry && objectOf(entry);
  };
  /** Deletes as the site itself. */
  const drop = async (kind: Kind, name: string): Promise<void> => resources(kind).delete(name, as);

  return {
    clock,
    random,
    store,
    writer,
    authorizer,
    drafts,
    resources,
    synced,
    allow,
    put,
    get,
    drop,
  };
}

/** The code of the error, or undefined if there was none. */
export async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (error instanceof HansaError) return error.code;
    throw error;
  }
}

// Carries out a plan at the SPIRE server. What happens to one trust domain does not depend on the others. Records
// are stored before the server changes, so that a sidecar that ends in between can go on.

import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { type Bundle, BundleSchema } from '../../../proto/gen/spire_server_pb.ts';
import { rpcStatus } from '../../core/rpc/status.ts';
import type { Relationship } from '../spire/relationships.ts';
import { bundleMessage, misfitOf } from './bundle-message.ts';
import { type Exclusions, mayFederate, type Namespaces, withExcluded } from './excluded-entries.ts';
import type { PlannedRelationship, RelationshipPlan, Staleness } from './plan-relationships.ts';
import { bundleDigest, type SidecarRecord, type SidecarRecords } from './sidecar-record.ts';
import { isNotFound, type Result, type SpireApi } from './spire-api.ts';

export interface RecordStore {
  records(): SidecarRecords;
  /** Resolves when it is stored. */
  save(record: SidecarRecord): Promise<void>;
  /** Entries that lost trust domains, because their namespace may not federate. */
  exclusions(): Exclusions;
  /** Resolves when they are stored, or cannot be: that trust ends is more important than that it comes back. */
  saveExclusions(exclusions: Exclusions): Promise<void>;
}

export interface ApplyContext {
  readonly spire: SpireApi;
  readonly store: RecordStore;
  /** The namespaces whose entries may federate. */
  readonly namespaces: Namespaces;
  readonly now: () => number;
  /** Why something of this trust domain failed. */
  readonly failed: (trustDomain: string, why: string) => void;
}

/** SPIRE ends the fetch of a removed relationship first. One that hangs must not hold up the others. */
const fetchEndsWithinMs = 5000;

export async function applyRelationships(
  context: ApplyContext,
  plan: RelationshipPlan,
): Promise<void> {
  // What ends trust comes first.
  await Promise.all(plan.remove.map((record) => removeOne(context, record)));
  for (const relationship of plan.adopt) {
    await context.store.save(recordOf(context, relationship, {}));
  }
  await createAll(context, plan.create);
  await report(context, plan.update, (items) => context.spire.updateRelationships(items));
  for (const relationship of plan.update) {
    await context.store.save(recordOf(context, relationship, {}));
  }
  await setBundles(context, plan.setBundle);
}

async function createAll(
  context: ApplyContext,
  planned: readonly PlannedRelationship[],
): Promise<void> {
  const ready = planned.flatMap(({ relationship, bundle: origin }) => {
    const bundle = bundleOf(context, relationship, origin);
    return bundle === 'unusable' ? [] : [{ relationship, origin, bundle }];
  });
  for (const { relationship, origin } of ready) {
    const before = context.store.records().get(relationship.trustDomain);
    await context.store.save({
      ...recordOf(context, relationship, { bootstrap: digestOf(relationship, origin) }),
      ...(before?.owned !== true && { since: timeOf(context) }),
    });
  }
  const results = await context.spire.createRelationships(
    ready.map(({ relationship, bundle }) => ({ endpoint: relationship, bundle })),
  );
  for (const [index, { relationship }] of ready.entries()) {
    const result = results[index];
    if (result === undefined) continue;
    const { trustDomain } = relationship;
    context.failed(trustDomain, result.message);
    // Somebody else was faster: it is not ours.
    const record = context.store.records().get(trustDomain);
    if (result.code === rpcStatus.alreadyExists && record !== undefined) {
      await context.store.save({ ...record, owned: false });
    }
  }
}

async function setBundles(
  context: ApplyContext,
  planned: readonly PlannedRelationship[],
): Promise<void> {
  const ready = planned.flatMap(({ relationship, bundle: origin }) => {
    const bundle = bundleOf(context, relationship, origin);
    return bundle === 'unusable' || bundle === undefined ? [] : [{ relationship, origin, bundle }];
  });
  const results = await context.spire.setBundles(ready.map(({ bundle }) => bundle));
  for (const [index, { relationship, origin }] of ready.entries()) {
    const result = results[index];
    if (result !== undefined) context.failed(relationship.trustDomain, result.message);
    else {
      const bootstrap = digestOf(relationship, origin);
      await context.store.save(recordOf(context, relationship, { bootstrap }));
    }
  }
}

/**
 * Deletes the relationship and the bundle, and takes the trust domain from all entries: deleting the relationship
 * alone would leave the trust. A copy of the bundle and the IDs of the entries are kept.
 */
async function removeOne(context: ApplyContext, record: SidecarRecord): Promise<void> {
  const { spire, store, failed } = context;
  const { trustDomain } = record;
  try {
    const bundle = await spire.bundle(trustDomain);
    const entries = await spire.entries([trustDomain]);
    const ids = new Set([...(record.entries ?? []), ...entries.map(({ id }) => id)]);
    const { withheld: _, ...rest } = record;
    const kept: SidecarRecord = {
      ...rest,
      ...(bundle !== undefined &&
        misfitOf(bundle, trustDomain) === undefined && { bundle: encodeBundle(bundle) }),
      ...(ids.size > 0 && { entries: [...ids] }),
    };
    // Still owned: a sidecar that ends now removes it at its next start.
    await store.save(kept);
    const [deleted] = await spire.deleteRelationships([trustDomain]);
    if (deleted !== undefined && !isNotFound(deleted)) throw deleted;
    await deleteBundle(spire, trustDomain);
    // SPIRE may be fetching the bundle, and would store it again. This call waits for that: it fails, as there
    // is no relationship any more.
    await spire.refresh(trustDomain, fetchEndsWithinMs).catch(() => undefined);
    await deleteBundle(spire, trustDomain);
    await store.save({ ...kept, owned: false, since: timeOf(context) });
  } catch (error) {
    failed(trustDomain, `it could not be removed: ${messageOf(error)}`);
  }
}

async function deleteBundle(spire: SpireApi, trustDomain: string): Promise<void> {
  const deleted = await spire.deleteBundle(trustDomain);
  if (deleted !== undefined && !isNotFound(deleted)) throw deleted;
}

/** Takes stale trust domains from entries, and gives them back. The bundle stays at SPIRE, which needs it to refresh. */
export async function applyWithholding(
  context: ApplyContext,
  { withhold, release }: Staleness,
): Promise<void> {
  const { spire, store, failed } = context;
  for (const record of withhold) {
    const { trustDomain } = record;
    try {
      const entries = await spire.entries([trustDomain]);
      if (entries.length === 0 && record.withheld === true) continue;
      const ids = new Set([...(record.entries ?? []), ...entries.map(({ id }) => id)]);
      await store.save({ ...record, withheld: true, entries: [...ids] });
      const without = entries.map(({ federatesWith, ...entry }) => ({
        ...entry,
        federatesWith: federatesWith.filter((name) => name !== trustDomain),
      }));
      throwFirst(await spire.setFederatesWith(without));
    } catch (error) {
      failed(trustDomain, `its bundle could not be withheld: ${messageOf(error)}`);
    }
  }
  for (const record of release) {
    try {
      // SPIRE refuses entries that federate with a trust domain without a bundle.
      if ((await spire.bundle(record.trustDomain)) === undefined) continue;
      await restoreEntries(context, record);
    } catch (error) {
      failed(record.trustDomain, `its entries could not be restored: ${messageOf(error)}`);
    }
  }
}

async function restoreEntries(
  { spire, store, namespaces }: ApplyContext,
  record: SidecarRecord,
): Promise<void> {
  const { trustDomain, entries = [] } = record;
  const ids = new Set(entries);
  if (ids.size > 0) {
    // Entries may be gone since, or may have been changed by hand.
    const found = (await spire.entries()).filter(
      ({ id, federatesWith }) => ids.has(id) && !federatesWith.includes(trustDomain),
    );
    const outside = found.filter((entry) => !mayFederate(namespaces, entry));
    if (outside.length > 0) {
      const lost = outside.map((entry) => ({ ...entry, federatesWith: [trustDomain] }));
      await store.saveExclusions(withExcluded(store.exclusions(), lost));
    }
    const changed = found
      .filter((entry) => mayFederate(namespaces, entry))
      .map((entry) => ({ ...entry, federatesWith: [...entry.federatesWith, trustDomain] }));
    throwFirst((await spire.setFederatesWith(changed)).filter((result) => !isNotFound(result)));
  }
  const { entries: _entries, withheld: _withheld, bundle: _bundle, ...rest } = record;
  await store.save(rest);
}

/** 'unusable' was reported. */
function bundleOf(
  { store, failed }: ApplyContext,
  { trustDomain, bundle }: Relationship,
  origin: PlannedRelationship['bundle'],
): Bundle | undefined | 'unusable' {
  if (origin === undefined) return undefined;
  try {
    if (origin === 'bootstrap') return bundleMessage(bundle ?? '', trustDomain);
    const kept = store.records().get(trustDomain)?.bundle ?? '';
    return fromBinary(BundleSchema, Buffer.from(kept, 'base64'));
  } catch (error) {
    failed(trustDomain, `its ${origin} bundle cannot be used: ${messageOf(error)}`);
    return 'unusable';
  }
}

const digestOf = (
  { bundle }: Relationship,
  origin: PlannedRelationship['bundle'],
): string | undefined =>
  origin === 'bootstrap' && bundle !== undefined ? bundleDigest(bundle) : undefined;

/** The record of a relationship that is ours from now on. */
function recordOf(
  context: ApplyContext,
  { trustDomain, bundleEndpointURL, profile }: Relationship,
  { bootstrap }: { readonly bootstrap?: string | undefined },
): SidecarRecord {
  const before = context.store.records().get(trustDomain);
  return {
    since: timeOf(context),
    ...before,
    trustDomain,
    bundleEndpointURL,
    profile,
    owned: true,
    ...(bootstrap !== undefined && { bootstrap }),
  };
}

const encodeBundle = (bundle: Bundle): string =>
  Buffer.from(toBinary(BundleSchema, bundle)).toString('base64');

const timeOf = ({ now }: ApplyContext): string => new Date(now()).toISOString();

async function report(
  context: ApplyContext,
  items: readonly Relationship[],
  send: (items: readonly Relationship[]) => Promise<readonly Result[]>,
): Promise<void> {
  const results = await send(items);
  for (const [index, { trustDomain }] of items.entries()) {
    const result = results[index];
    if (result !== undefined) context.failed(trustDomain, result.message);
  }
}

export function throwFirst(results: readonly Result[]): void {
  for (const result of results) if (result !== undefined) throw result;
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

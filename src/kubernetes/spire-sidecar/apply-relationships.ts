// Carries out a plan at the SPIRE server. What happens to one trust domain does not depend on the others. Records
// are stored before the server changes, so that a sidecar that ends in between can go on.

import { fromBinary } from '@bufbuild/protobuf';
import { type Bundle, BundleSchema } from '../../../proto/gen/spire_server_pb.ts';
import { rpcStatus } from '../../core/rpc/status.ts';
import type { Relationship } from '../spire-relationships/parse-relationship.ts';
import { type ApplyContext, messageOf, throwFirst, timeOf } from './apply-context.ts';
import { bundleMessage } from './bundle-message.ts';
import { mayFederate, withExcluded } from './excluded-entries.ts';
import type { PlannedRelationship, RelationshipPlan, Staleness } from './plan-relationships.ts';
import { endTrust, removeOne } from './remove-relationship.ts';
import { bundleDigest, type SidecarRecord } from './sidecar-record.ts';
import { isNotFound, type Result } from './spire-api.ts';

export async function applyRelationships(
  context: ApplyContext,
  plan: RelationshipPlan,
): Promise<void> {
  // What ends trust comes first. A silent endpoint of a removed relationship holds up no other.
  const ended = await Promise.all(plan.remove.map((record) => endTrust(context, record)));
  const removed = Promise.all(
    ended.flatMap((record) => (record === undefined ? [] : [removeOne(context, record)])),
  );
  try {
    await changeAll(context, plan);
  } finally {
    await removed;
  }
}

async function changeAll(context: ApplyContext, plan: RelationshipPlan): Promise<void> {
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

// Writes copies of the preset roles to the store, so that kubectl and `hansa get roles` show them
// like other roles. The authorizer does not read these copies and the API rejects changes to them, so
// one write at start is enough. It also corrects copies that another version of Hansa left.

import type { JsonObject } from '../../api/object.ts';
import type { Clock, Random } from '../clock/clock.ts';
import { hasCode } from '../errors/error.ts';
import { commitFenced } from '../lease/current-fence.ts';
import { valueOf } from '../store/reader.ts';
import type { AuditRow, Expectation, Put, Store } from '../store/store.ts';
import { type AccessAudit, changeDraft } from './audit-draft.ts';
import { type NewObject, putObject } from './granting-object.ts';
import { controllerCaller } from './identity.ts';
import { bindingsCollection, rolesCollection } from './policy.ts';
import {
  type KindName,
  type PresetAdditions,
  presetBindings,
  presetRoles,
  tokenKind,
} from './presets.ts';

const presetLabel = 'hansa.dev/preset';
const descriptionAnnotation = 'hansa.dev/description';
const caller = controllerCaller('presets');

type Wanted = Pick<NewObject, 'kind' | 'collection' | 'name' | 'spec' | 'labels' | 'annotations'>;

function wantedObjects({ kinds, presets }: Pick<PresetParts, 'kinds' | 'presets'>): Wanted[] {
  const labels = { [presetLabel]: 'true' };
  return [
    ...presetRoles([...kinds, tokenKind], presets).map(
      ({ name, description, rules }): Wanted => ({
        kind: 'Role',
        collection: rolesCollection,
        name,
        labels,
        annotations: { [descriptionAnnotation]: description },
        spec: { rules: rules as unknown as readonly JsonObject[] },
      }),
    ),
    ...presetBindings(presets).map(
      ({ name, role, subjects }): Wanted => ({
        kind: 'RoleBinding',
        collection: bindingsCollection,
        name,
        labels,
        spec: { role, subjects },
      }),
    ),
  ];
}

export interface PresetParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly audit: AccessAudit;
  readonly kinds: readonly KindName[];
  readonly presets?: readonly PresetAdditions[];
}

/** Attempts on conflict: replicas may start at the same time. */
const maxAttempts = 8;

/** Idempotent: a second call finds nothing to do and commits nothing. */
export async function writePresetObjects(parts: PresetParts): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await writeMissing(parts);
      return;
    } catch (error) {
      if (!hasCode(error, 'HANSA_CONFLICT') || attempt >= maxAttempts) throw error;
    }
  }
}

async function writeMissing(parts: PresetParts): Promise<void> {
  const put: Put[] = [];
  const expect: Expectation[] = [];
  const audit: AuditRow[] = [];
  for (const wanted of wantedObjects(parts)) {
    const entry = parts.store.get(wanted.collection, wanted.name);
    const known = entry && (valueOf(entry) as StoredObject);
    if (known !== undefined && isImageOf(known, wanted)) continue;
    const createdAtMs = Date.parse(known?.metadata.creationTimestamp ?? '');
    expect.push({
      collection: wanted.collection,
      name: wanted.name,
      at: entry?.revision ?? 'absent',
    });
    put.push(
      putObject({
        ...wanted,
        uid: known?.metadata.uid ?? parts.random.uuid(),
        createdAtMs: Number.isNaN(createdAtMs) ? parts.clock.now() : createdAtMs,
        generation: (known?.metadata.generation ?? 0) + 1,
      }),
    );
    audit.push(
      parts.audit.record(
        changeDraft(
          caller,
          {},
          {
            verb: known === undefined ? 'create' : 'update',
            kind: wanted.kind,
            name: wanted.name,
            reason: 'built in',
          },
        ),
      ),
    );
  }
  if (put.length > 0) await commitFenced(parts.store, { expect, put, audit });
}

interface StoredObject {
  readonly metadata: {
    readonly uid?: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
    readonly generation?: number;
    readonly labels?: unknown;
    readonly annotations?: unknown;
  };
  readonly spec?: unknown;
}

function isImageOf({ metadata, spec }: StoredObject, wanted: Wanted): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    JSON.stringify([metadata.labels, metadata.annotations, spec]) ===
      JSON.stringify([wanted.labels, wanted.annotations, wanted.spec])
  );
}

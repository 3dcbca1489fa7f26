// The Site resource: there is one, made at the first start, and its status says what runs.

import { recordUpdate } from '../api/fields/ownership.ts';
import type { Kind } from '../api/kind.ts';
import { siteKind } from '../api/kinds/site.ts';
import { apiVersion, type JsonObject } from '../api/object.ts';
import { objectSchema } from '../api/resource-schema.ts';
import { controllerCaller } from '../core/access/identity.ts';
import type { Clock } from '../core/clock/clock.ts';
import { hasCode } from '../core/errors/error.ts';
import { setCondition } from '../core/reconcile/conditions.ts';
import type { Draft } from './resources/object-of.ts';
import { timestamp } from './resources/prepare.ts';
import type { ResourceWriter, WriteContext } from './resources/writer.ts';

export interface SiteFacts {
  readonly trustDomain: string;
  readonly version: string;
  readonly startedAtMs: number;
  readonly advertiseURL: string;
  readonly listeners: readonly { readonly name: string; readonly address: string }[];
  readonly authorities: readonly { readonly fingerprint: string; readonly notAfter: string }[];
}

const kind = siteKind as Kind;
const manager = 'hansa';

const context: WriteContext = {
  caller: controllerCaller('site'),
  verb: 'update',
  options: { dryRun: false, manager, fieldValidation: 'Ignore', force: false },
  requestId: 'start',
  address: undefined,
};

/** Idempotent: makes the object where it is missing, and brings its status up to date. */
export async function reportSite(
  writer: ResourceWriter,
  clock: Clock,
  facts: SiteFacts,
): Promise<void> {
  try {
    await writer.create(
      kind,
      { apiVersion, kind: kind.kind, metadata: { name: siteKind.singleton as string }, spec: {} },
      { ...context, verb: 'create' },
    );
  } catch (error) {
    if (!hasCode(error, 'HANSA_ALREADY_EXISTS')) throw error;
  }
  await writer.update(kind, siteKind.singleton as string, 'status', context, (live) => {
    const current = live as Draft;
    const nowMs = clock.now();
    const status = statusOf(facts, current, nowMs);
    return recordUpdate({
      schema: objectSchema(kind),
      apiVersion,
      kind: kind.kind,
      live: current as JsonObject,
      manager,
      timeIso: timestamp(nowMs),
      subresource: 'status',
      next: { ...current, status } as JsonObject,
    }) as Draft;
  });
}

function statusOf(facts: SiteFacts, site: Draft, nowMs: number): JsonObject {
  const before = (site.status ?? {}) as {
    readonly conditions?: Parameters<typeof setCondition>[0];
  };
  const { startedAtMs, ...shown } = facts;
  const advertised = (site.spec as { readonly advertiseURL?: string } | undefined)?.advertiseURL;
  const conditions = setCondition(
    before.conditions ?? [],
    {
      type: 'Ready',
      status: 'True',
      reason: 'Started',
      message: 'Every part of the site is running.',
      observedGeneration: site.metadata.generation ?? 1,
    },
    nowMs,
  );
  return {
    ...shown,
    advertiseURL: advertised ?? facts.advertiseURL,
    startedAt: timestamp(startedAtMs),
    conditions: conditions as unknown as JsonObject[],
  };
}

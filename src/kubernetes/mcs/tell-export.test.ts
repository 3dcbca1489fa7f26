import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import type { ImportWrites } from './apply-import.ts';
import type { ExportOutcomes } from './export-conditions.ts';
import type { ServiceExport } from './mcs-objects.ts';
import { tellExport } from './tell-export.ts';

const outcome = { status: 'True', reason: 'R', message: 'M' } as const;
const outcomes: ExportOutcomes = { Valid: outcome, Ready: outcome, Conflict: outcome };

/** How often the status is written, where these managers have its conditions. */
async function writesWith(...managers: readonly string[]): Promise<number> {
  const fieldsV1 = { 'f:status': { 'f:conditions': {} } };
  const managedFields = [
    { manager: 'kubectl', fieldsV1: { 'f:metadata': {} } },
    ...managers.map((manager) => ({ manager, subresource: 'status', fieldsV1 })),
  ];
  const live = {
    apiVersion: 'multicluster.x-k8s.io/v1alpha1',
    kind: 'ServiceExport',
    metadata: { name: 'web', namespace: 'shop', uid: 'u', resourceVersion: '7', managedFields },
  } as ServiceExport;
  let written = 0;
  const writes = {
    term: {
      client: {
        get: () => Promise.resolve(live),
        replace: (_: string, object: unknown) => {
          written++;
          return Promise.resolve(object);
        },
      },
      options: { clock: new VirtualClock() },
    },
    mcs: { exports: { live: () => live, wrote: () => undefined }, toldMs: new Map() },
    context: { epoch: 3, signal: new AbortController().signal },
    pace: () => undefined,
  } as unknown as ImportWrites;
  await tellExport(writes, 'shop/web', outcomes);
  return written;
}

test('the status that another program writes stays, and that of an earlier leader does not', async () => {
  assert.equal(await writesWith(), 1);
  assert.equal(await writesWith('hansa-term-2'), 1);
  assert.equal(await writesWith('other-controller'), 0);
  assert.equal(await writesWith('hansa-term-2', 'other-controller'), 0);
});

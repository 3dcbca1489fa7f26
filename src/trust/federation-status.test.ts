import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SPIFFEFederation } from '../api/kinds/spiffe-federation.ts';
import { findCondition } from '../core/reconcile/conditions.ts';
import { restingStatus } from './federation-status.ts';

test('a bundle that goes stale says nothing of a spec that came meanwhile: that is still to be looked at', () => {
  const syncedAt = '2026-01-01T00:00:00Z';
  const federation = {
    metadata: { name: 'bruges.example', generation: 2 },
    spec: { bundleSource: { httpsWeb: { bundleEndpointURL: 'https://bruges.example/' } } },
    status: {
      bundle: '{}',
      source: 'https_web',
      syncedAt,
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'BundleAccepted',
          message: '',
          lastTransitionTime: syncedAt,
          observedGeneration: 1,
        },
      ],
    },
  } as unknown as SPIFFEFederation;
  const { conditions } = restingStatus(federation, Date.parse('2026-01-02T00:00:00Z'));
  const ready = findCondition(conditions, 'Ready');
  assert.deepEqual([ready?.reason, ready?.observedGeneration], ['Stale', 1]);
});

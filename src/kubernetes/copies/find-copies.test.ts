import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { memberCondition, namedCondition } from '../names.ts';
import type { Service } from '../objects.ts';
import { findCopies, otherConditions } from './find-copies.ts';

const told = (name: string, ...types: readonly string[]): Service => ({
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name, namespace: 'shop' },
  spec: {},
  status: {
    conditions: types.map((type) => ({
      type,
      status: 'True',
      reason: 'R',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    })),
  },
});

test('each of our conditions is found and goes, and those of others stay', async () => {
  const services = [
    told('federated', memberCondition),
    told('named', 'Other', namedCondition),
    told('plain', 'Other'),
  ];
  const list = async <T extends KubeObject>(path: string): Promise<readonly T[]> =>
    (path.endsWith('/services') ? services : []) as unknown as readonly T[];
  const request = (): Promise<never> => Promise.reject(new Error('nothing is asked'));
  const { members, takenOver } = await findCopies({ list, request });
  assert.deepEqual(
    members.map(({ metadata }) => metadata.name),
    ['federated', 'named'],
  );
  assert.deepEqual(takenOver, []);
  assert.deepEqual(
    members.map((service) => otherConditions(service).map(({ type }) => type)),
    [[], ['Other']],
  );
});

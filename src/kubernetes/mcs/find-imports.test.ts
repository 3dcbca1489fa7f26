import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { findMcsObjects, otherExportConditions } from './find-imports.ts';
import { exportsPath, type ServiceExport } from './mcs-objects.ts';

const told = (name: string, manager: string, ...types: readonly string[]): ServiceExport =>
  ({
    apiVersion: 'multicluster.x-k8s.io/v1alpha1',
    kind: 'ServiceExport',
    metadata: { name, namespace: 'shop', managedFields: [{ manager, subresource: 'status' }] },
    status: { conditions: types.map((type) => ({ type, status: 'True' })) },
  }) as unknown as ServiceExport;

const answer = (status: number, body: object = {}) => ({
  status,
  headers: {},
  body: Buffer.from(JSON.stringify(body)),
});
/** Of a cluster that does not serve them. */
const request = async () => answer(404);

const listing =
  (objects: Readonly<Record<string, readonly KubeObject[]>>) =>
  async <T extends KubeObject>(path: string): Promise<readonly T[]> =>
    (objects[path] ?? []) as readonly T[];

test('conditions that a site wrote are found, and those of other programs stay', async () => {
  const exports = [
    told('ours', 'hansa-term-7', 'Valid', 'Other'),
    told('empty', 'hansa-term-7', 'Other'),
    told('theirs', 'other-controller', 'Valid'),
  ];
  const found = await findMcsObjects({ list: listing({ [exportsPath]: exports }), request });
  assert.deepEqual(
    found.exports.map(({ metadata }) => metadata.name),
    ['ours'],
  );
  assert.deepEqual(
    found.exports.flatMap(otherExportConditions).map(({ type }) => type),
    ['Other'],
  );
});

test('a cluster without the API has nothing of ours, and one that shows none has perhaps some', async () => {
  for (const status of [403, 404]) {
    const list = (): Promise<never> =>
      Promise.reject(
        new KubeStatusError('north', 'list', { status, headers: {}, body: Buffer.alloc(0) }),
      );
    const nothing = { imports: [], exports: [], forbidden: undefined };
    assert.deepEqual(await findMcsObjects({ list, request }), nothing);
    const served = async () => answer(200, { resources: [{ name: 'serviceexports' }] });
    const found = await findMcsObjects({ list, request: served });
    assert.equal(found.forbidden?.status, status === 403 ? 403 : undefined);
  }
  const list = (): Promise<never> =>
    Promise.reject(
      new KubeStatusError('north', 'list', { status: 500, headers: {}, body: Buffer.alloc(0) }),
    );
  await assert.rejects(findMcsObjects({ list, request }), KubeStatusError);
});

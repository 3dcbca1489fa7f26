import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject } from '../../core/kube/kube-client.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { epochAnnotation } from '../names.ts';
import { allEntities } from './compile-external-entities.ts';
import { findEntities } from './find-entities.ts';

const failing = (status: number) => (): Promise<never> =>
  Promise.reject(
    new KubeStatusError('north', 'list', { status, headers: {}, body: Buffer.alloc(0) }),
  );

test('ExternalEntities of sites are found, and those of users stay', async () => {
  const entities = [
    { metadata: { name: 'ours', annotations: { [epochAnnotation]: '3' } } },
    { metadata: { name: 'theirs', annotations: { other: '3' } } },
    { metadata: { name: 'bare' } },
  ];
  const list = async <T extends KubeObject>(path: string): Promise<readonly T[]> =>
    (path === allEntities ? entities : []) as unknown as readonly T[];
  assert.deepEqual(
    (await findEntities({ list })).map(({ metadata }) => metadata.name),
    ['ours'],
  );
});

test('a cluster without Antrea, or without rights to its kinds, has none of ours', async () => {
  for (const status of [403, 404]) {
    assert.deepEqual(await findEntities({ list: failing(status) }), []);
  }
  await assert.rejects(findEntities({ list: failing(500) }), KubeStatusError);
});

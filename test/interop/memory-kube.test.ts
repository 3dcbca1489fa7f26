// The in-memory API server gives the same answers as a real kube-apiserver, so that tests and simulation on
// it can be trusted.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { crdOf } from '../../src/api/documents/crd.ts';
import type { Kind } from '../../src/api/kind.ts';
import { clusterClaimKind } from '../../src/api/kinds/cluster-claim.ts';
import { federationKind } from '../../src/api/kinds/federation.ts';
import { nativeServiceKind } from '../../src/api/kinds/native-service.ts';
import { systemClock } from '../../src/core/clock/system.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import { objectCases } from '../fakes/memory-kube/conformance-cases.ts';
import { readCases } from '../fakes/memory-kube/conformance-reads.ts';
import { playConformance } from '../fakes/memory-kube/kube-conformance.ts';
import { memorySubject } from '../fakes/memory-kube/memory-subject.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import {
  type CustomResourceDefinition,
  type KubeApiserver,
  startKubeApiserver,
} from './kube-apiserver.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('kube-apiserver', 'etcd');
const cases = [...objectCases, ...readCases];
const kinds = [clusterClaimKind, federationKind, nativeServiceKind] as readonly unknown[];

describe('the in-memory API server answers as kube-apiserver', { skip }, () => {
  let etcd: Etcd;
  let kube: KubeApiserver;
  let client: HttpKubeClient;
  let real: Awaited<ReturnType<typeof playConformance>>;
  let memory: Awaited<ReturnType<typeof playConformance>>;

  before(async () => {
    etcd = await startEtcd();
    const definitions = kinds.map(
      (kind) => crdOf(kind as Kind) as unknown as CustomResourceDefinition,
    );
    kube = await startKubeApiserver(definitions, { etcd });
    client = new HttpKubeClient({
      endpoint: { server: new URL(kube.url), caBundle: kube.ca },
      credentials: { current: () => ({ type: 'token', token: kube.token }) },
      clock: systemClock,
    });
    real = await playConformance({ client, compact: () => compact(etcd.url) }, cases);
    memory = await playConformance(memorySubject(systemClock), cases);
  });
  after(async () => {
    client?.close();
    await kube?.stop();
    await etcd?.stop();
  });

  for (const { name } of cases) {
    it(name, () => {
      assert.deepEqual(memory.get(name), real.get(name));
    });
  }
});

/** Up to the current revision, over the JSON gateway of etcd. */
async function compact(url: string): Promise<void> {
  const post = async (path: string, body: object): Promise<{ header: { revision: string } }> => {
    const response = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body) });
    assert.equal(response.status, 200, path);
    return (await response.json()) as { header: { revision: string } };
  };
  const { header } = await post('/v3/kv/range', { key: 'AA==' });
  await post('/v3/kv/compaction', { revision: header.revision, physical: true });
}

// The kubelet of the tests runs Pods of a StatefulSet as processes: with their mounts, their credential and their
// restarts, and reports what the processes do.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { whyNoHosts } from '../e2e/separate-host.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type KubeCluster, startKubeCluster } from './kube-cluster.ts';
import { TestKubelet } from './test-kubelet.ts';
import { missingTools } from './tool.ts';

const skip =
  whyNoHosts() || (await missingTools('etcd', 'kube-apiserver', 'kube-controller-manager'));

const ns = '/api/v1/namespaces/default';
const pod = 'box-0';

interface PodObject {
  readonly metadata: { readonly uid: string };
  readonly status: {
    readonly containerStatuses?: readonly {
      readonly name: string;
      readonly ready: boolean;
      readonly restartCount: number;
    }[];
  };
}

suite('the test kubelet', { skip }, () => {
  let etcd: Etcd;
  let cluster: KubeCluster;
  let kubelet: TestKubelet;

  const podObject = (): Promise<PodObject> => cluster.get<PodObject>(`${ns}/pods/${pod}`);
  const isReady = async (): Promise<boolean> => {
    const found = await podObject().catch(() => undefined);
    const { containerStatuses = [] } = found?.status ?? {};
    return containerStatuses.length === 2 && containerStatuses.every(({ ready }) => ready);
  };

  before(async () => {
    etcd = await startEtcd();
    cluster = await startKubeCluster('boxes', { etcd, controllers: ['statefulset-controller'] });
    kubelet = await TestKubelet.start({ cluster, images: { shell: ['sh', '-c'] } });
    await cluster.create('/api/v1/namespaces/default/serviceaccounts', {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'box' },
    });
    await cluster.create(`${ns}/configmaps`, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'box' },
      data: { word: 'hello' },
    });
    const data = { name: 'data', mountPath: '/run/data' };
    const shared = { name: 'shared', mountPath: '/run/shared' };
    await cluster.create('/apis/apps/v1/namespaces/default/statefulsets', {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: { name: 'box' },
      spec: {
        serviceName: 'box',
        selector: { matchLabels: { app: 'box' } },
        template: {
          metadata: { labels: { app: 'box' } },
          spec: {
            serviceAccountName: 'box',
            containers: [
              {
                name: 'writer',
                image: 'shell',
                args: [
                  'cat /run/config/word > /run/shared/word; date +%N >> /run/data/starts; ls /run > /run/shared/run; exec sleep 1000',
                ],
                volumeMounts: [{ name: 'config', mountPath: '/run/config' }, data, shared],
              },
              {
                name: 'reader',
                image: 'shell',
                args: [
                  'cp /var/run/secrets/kubernetes.io/serviceaccount/namespace /run/shared/; until test -e /run/shared/end; do sleep 0.1; done; rm /run/shared/end; exit 3',
                ],
                volumeMounts: [shared],
              },
            ],
            volumes: [
              { name: 'config', configMap: { name: 'box' } },
              { name: 'shared', emptyDir: {} },
            ],
          },
        },
        volumeClaimTemplates: [
          {
            metadata: { name: 'data' },
            spec: {
              accessModes: ['ReadWriteOnce'],
              resources: { requests: { storage: '1Gi' } },
            },
          },
        ],
      },
    });
    await until(isReady, 'the Pod is ready');
  });
  after(async () => {
    await kubelet?.stop();
    await cluster?.stop();
    await etcd?.stop();
  });

  const read = (name: string): string =>
    readFileSync(join(kubelet.volume(pod, 'shared'), name), 'utf8');
  const starts = (): number =>
    readFileSync(join(kubelet.volume(pod, 'data'), 'starts'), 'utf8')
      .trim()
      .split('\n').length;

  test('mounts ConfigMaps, empty folders and the credential, and nothing of this machine', async () => {
    // The last file of the reader, and of the writer.
    for (const last of ['namespace', 'run']) {
      const file = join(kubelet.volume(pod, 'shared'), last);
      await until(() => existsSync(file) && readFileSync(file).length > 0, `there is ${last}`);
    }
    assert.equal(read('word'), 'hello');
    assert.equal(read('namespace'), 'default');
    // `mount` is of the program mount itself.
    const names = read('run').trim().split('\n');
    const own = ['config', 'data', 'secrets', 'shared'];
    assert.deepEqual(
      names.filter((name) => name !== 'mount'),
      own,
    );
  });

  test('counts the restarts of a container that ends, and of no other', async () => {
    const first = kubelet.pid(pod, 'reader');
    writeFileSync(join(kubelet.volume(pod, 'shared'), 'end'), '');
    await until(async () => {
      const statuses = (await podObject()).status.containerStatuses ?? [];
      return statuses.some((each) => each.name === 'reader' && each.restartCount === 1);
    }, 'the restart is counted');
    assert.equal(kubelet.restarts(pod, 'writer'), 0);
    await until(isReady);
    assert.notEqual(kubelet.pid(pod, 'reader'), first);
  });

  test('ends the processes of a deleted Pod, and keeps its claims for the next one', async () => {
    const { uid } = (await podObject()).metadata;
    const pid = kubelet.pid(pod, 'writer');
    await cluster.send('DELETE', `${ns}/pods/${pod}`);
    await until(async () => {
      const isOther = ![undefined, uid].includes(kubelet.uid(pod));
      return isOther && (await isReady());
    }, 'there is another Pod');
    assert.equal(existsSync(`/proc/${pid}`), false);
    assert.notEqual((await podObject()).metadata.uid, uid);
    assert.equal(kubelet.restarts(pod, 'reader'), 0);
    await until(() => starts() === 2);
  });
});

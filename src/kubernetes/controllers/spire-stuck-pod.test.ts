// A Pod of the SPIRE server that a broken template left behind. The StatefulSet controller would wait for it for ever.
// On clusters in memory; test/interop/spire-serving-certificate.test.ts has a real StatefulSet controller.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, suite, test } from 'node:test';
import {
  operatedScene,
  type SpireScene,
  type TestSpireCluster,
} from '../spire/test-spire-scene.ts';
import { federations } from '../spire/test-spire-servers.ts';

const spiffe = {
  ...federations['https_spiffe by default'],
  exposure: { host: 'federation.a.example' },
};
const name = 'spire-server-0';

interface PodParts {
  readonly revision?: string;
  readonly isReady?: boolean;
  readonly podName?: string;
}

suite('a Pod of another revision', () => {
  let scene: SpireScene;
  let app1: TestSpireCluster;
  beforeEach(async () => {
    ({ scene, app1 } = await operatedScene());
    await app1.apply(spiffe);
    await scene.settle();
  });
  afterEach(() => scene.stop());

  const addPod = async ({ revision = 'broken', isReady = false, podName = name }: PodParts) => {
    await app1.user.create('/api/v1/namespaces/spire/pods', {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: podName, labels: { 'controller-revision-hash': revision } },
    });
    app1.edit('pods', podName, (object) => ({
      ...object,
      status: { conditions: [{ type: 'Ready', status: isReady ? 'True' : 'False' }] },
    }));
  };
  /** What the StatefulSet controller reports. */
  const report = (status: object, spec: object = {}): void =>
    app1.edit('statefulsets', 'spire-server', (object) => ({
      ...object,
      spec: { ...(object['spec'] as object), ...spec },
      status: { observedGeneration: 99, updateRevision: 'good', ...status },
    }));

  test('that is not ready is deleted, so that the StatefulSet makes a new one', async () => {
    await addPod({});
    report({ currentRevision: 'good' });
    await scene.settle();
    assert.deepEqual(app1.names('pods'), []);
  });

  test('that is not ready is named, with what to do, where the site may not delete it', async () => {
    app1.forbidden.add('delete pods');
    await addPod({});
    report({});
    await scene.settle();
    assert.equal(app1.verdict('FederationWarnings'), 'True StuckPod');
    assert.match(
      app1.condition('FederationWarnings')?.message ?? '',
      /kubectl delete pod spire-server-0 -n spire/,
    );
  });

  for (const [what, pod, status, spec] of [
    ['that is ready', { isReady: true }, {}, {}],
    ['that is of the newest revision', { revision: 'good' }, {}, {}],
    ['of a server that is ready', {}, { readyReplicas: 1 }, {}],
    ['of another name', { podName: 'spire-server-1' }, {}, {}],
    ['whose StatefulSet is not observed yet', {}, { observedGeneration: 0 }, {}],
    ['that users replace themselves', {}, {}, { updateStrategy: { type: 'OnDelete' } }],
  ] as const) {
    test(`${what} stays`, async () => {
      await addPod(pod);
      app1.edit('statefulsets', 'spire-server', (object) => ({
        ...object,
        metadata: { ...object.metadata, generation: 2 },
      }));
      report(status, spec);
      await scene.settle(2 * 60_000);
      assert.equal(app1.names('pods').length, 1);
    });
  }

  test('stays with createOnly while the template is not as wanted', async () => {
    await app1.apply(spiffe, { createOnly: true });
    await addPod({});
    report({}, { replicas: 2 });
    await scene.settle();
    assert.equal(app1.names('pods').length, 1);
  });
});

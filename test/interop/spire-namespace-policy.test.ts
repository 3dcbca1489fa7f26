// The admission policy that holds ClusterSPIFFEIDs to `federation.namespaceSelector` of a SpireServer, judged by a
// real kube-apiserver with the CRDs of spire-controller-manager. It agrees with what the controller reports.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { crdOf } from '../../src/api/documents/crd.ts';
import { spireServerKind } from '../../src/api/kinds/spire-server.ts';
import { spireNamespacePolicy } from '../../src/kubernetes/manifests/spire-namespace-policy.ts';
import { objectsOutside } from '../../src/kubernetes/spire-relationships/federation-namespaces.ts';
import {
  limitedFederation,
  namespaceSelector,
  spireServer,
} from '../../src/kubernetes/spire/test-spire-servers.ts';
import { until } from '../e2e/until.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { Kubectl } from './kubectl.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip = (await missingTools('etcd', 'kube-apiserver', 'kubectl')) || whyNoCrds('spire');

type Fields = Readonly<Record<string, unknown>>;

const className = 'hansa';
const federatesWith = ['b.example'];
const { matchLabels, matchExpressions } = namespaceSelector;

const clusterSpiffeId = (spec: Fields) => ({
  apiVersion: 'spire.spiffe.io/v1alpha1',
  kind: 'ClusterSPIFFEID',
  metadata: { name: 'web' },
  spec: { spiffeIDTemplate: 'spiffe://a.example/web', ...spec },
});
const staticEntry = (spec: Fields) => ({
  apiVersion: 'spire.spiffe.io/v1alpha1',
  kind: 'ClusterStaticEntry',
  metadata: { name: 'web' },
  spec: {
    spiffeID: 'spiffe://a.example/web',
    parentID: 'spiffe://a.example/agent',
    selectors: ['k8s:ns:web'],
    ...spec,
  },
});

const objects: readonly (readonly [what: string, object: Fields & { readonly spec: Fields }])[] = [
  ['a ClusterSPIFFEID without federatesWith', clusterSpiffeId({ className })],
  ['one without a selector', clusterSpiffeId({ className, federatesWith })],
  ['one of no class', clusterSpiffeId({ federatesWith })],
  ['one of another class', clusterSpiffeId({ className: 'other', federatesWith })],
  ['one with the same selector', clusterSpiffeId({ className, federatesWith, namespaceSelector })],
  [
    'one with a narrower selector',
    clusterSpiffeId({
      className,
      federatesWith,
      namespaceSelector: {
        matchLabels: { ...matchLabels, more: 'x' },
        matchExpressions: [...matchExpressions, { key: 'y', operator: 'Exists' }],
      },
    }),
  ],
  [
    'one with labels only',
    clusterSpiffeId({ className, federatesWith, namespaceSelector: { matchLabels } }),
  ],
  [
    'one with expressions only',
    clusterSpiffeId({ className, federatesWith, namespaceSelector: { matchExpressions } }),
  ],
  [
    'one with another value',
    clusterSpiffeId({
      className,
      federatesWith,
      namespaceSelector: { matchExpressions, matchLabels: { ...matchLabels, federate: 'no' } },
    }),
  ],
  [
    'one without a label whose value is empty',
    clusterSpiffeId({
      className,
      federatesWith,
      namespaceSelector: { matchExpressions, matchLabels: { federate: 'yes' } },
    }),
  ],
  ['a ClusterStaticEntry without federatesWith', staticEntry({ className })],
  ['a ClusterStaticEntry that federates', staticEntry({ className, federatesWith })],
];

suite('the admission policy for federation.namespaceSelector', { skip }, () => {
  let kube: KubeApiserver;
  let kubectl: Kubectl;

  const apply = (object: object) =>
    kubectl.ok(['apply', '-f', '-'], { input: JSON.stringify(object) });
  const tryApply = (object: object) =>
    kubectl.run(['apply', '--dry-run=server', '-f', '-'], { input: JSON.stringify(object) });
  /** The API server learns of a policy and of its parameter a moment later. */
  const untilRefused = (object: object, isRefused: boolean): Promise<void> =>
    until(
      async () => ((await tryApply(object)).code !== 0) === isRefused,
      `it is ${isRefused ? 'refused' : 'accepted'}`,
    );
  const wide = clusterSpiffeId({ className, federatesWith });

  before(async () => {
    kube = await startKubeApiserver([crdOf(spireServerKind()), ...moduleCrds('spire')]);
    kubectl = await Kubectl.with(kube.kubeconfig);
    await apply({ apiVersion: 'v1', kind: 'List', items: spireNamespacePolicy() });
    await apply(spireServer(limitedFederation, { className }));
    await untilRefused(wide, true);
  });
  after(async () => {
    await kubectl?.close();
    await kube?.stop();
  });

  for (const [what, object] of objects) {
    const isOutside = objectsOutside([object], namespaceSelector, className).length > 0;
    test(`${isOutside ? 'refuses' : 'accepts'} ${what}`, async () => {
      const { code, stderr } = await tryApply(object);
      assert.equal(code !== 0, isOutside, stderr);
      if (isOutside) assert.match(stderr, /federatesWith is (not )?allowed/);
    });
  }

  test('follows the SpireServer', async () => {
    await apply(spireServer({ ...limitedFederation, enabled: false }, { className }));
    await untilRefused(wide, false);
    await apply(spireServer(limitedFederation, { className }));
    await untilRefused(wide, true);
    await apply(spireServer({ bundleEndpoint: {} }, { className }));
    await untilRefused(wide, false);
    await apply(wide);
    await apply(spireServer(limitedFederation, { className }));
    await untilRefused({ ...wide, metadata: { name: 'new' } }, true);
    // An object of before can still get labels and lose finalizers.
    await kubectl.ok(['label', 'clusterspiffeid/web', 'checked=yes']);
    const more = { federatesWith: ['b.example', 'c.example'] };
    const patch = ['patch', 'clusterspiffeid/web', '--type=merge', '-p'];
    const { code } = await kubectl.run([...patch, JSON.stringify({ spec: more })]);
    assert.notEqual(code, 0);
    await kubectl.ok([...patch, '{"spec":{"federatesWith":[]}}']);
    await kubectl.ok(['delete', 'spireserver/cluster']);
    await untilRefused(wide, false);
  });
});

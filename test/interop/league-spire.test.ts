// The admission policies of a cluster set beside the SPIRE operator, on a real kube-apiserver: the site that leads
// the cluster also writes the objects of its SPIRE server, and nothing else that the policies refuse.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import type { Manifest } from '../../src/core/kube/manifests/manifest.ts';
import { termOf } from '../../src/kubernetes/fencing/test-term.ts';
import { spireManifests } from '../../src/kubernetes/manifests/spire-manifests.ts';
import { epochAnnotation, policyAnnotation } from '../../src/kubernetes/names.ts';
import { compileObjects } from '../../src/kubernetes/spire/compile-objects.ts';
import { ObjectApplier } from '../../src/kubernetes/spire/object-applier.ts';
import { adoptAnnotation, spireSiteAnnotation } from '../../src/kubernetes/spire/spire-names.ts';
import { namespace, serverFacts, specOf } from '../../src/kubernetes/spire/test-spire-servers.ts';
import { until } from '../e2e/until.ts';
import { type Json, MemberCluster, systemNamespace, withoutPolicies } from './member-cluster.ts';
import { annotated, serviceOf, services as shopServices } from './member-objects.ts';
import { missingTools } from './tool.ts';

const skip = (await missingTools('etcd', 'kube-apiserver', 'kubectl')) || withoutPolicies;

const services = `/api/v1/namespaces/${namespace}/services`;
const policies = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`;
const name = 'spire-server-federation';
const federation = { bundleEndpoint: {}, networkPolicy: { fromCIDRs: ['10.0.0.0/8'] } };
const objects = compileObjects(specOf(federation), serverFacts(new Set()));

/** As the operator sends it, apart from the owner, which does not exist here. */
const sent = (kind: string): Json => {
  const found = objects.wanted.find((each) => each.kind === kind && each.metadata.name === name);
  assert.ok(found);
  const { ownerReferences: _, ...metadata } = found.metadata as Json['metadata'];
  return annotated(
    { ...found, metadata },
    {
      [spireSiteAnnotation]: 'lubeck.example',
    },
  );
};
const service = sent('Service');
const policy = sent('NetworkPolicy');
const withSpec = (object: Json, spec: object): Json => ({
  ...object,
  spec: { ...object.spec, ...spec },
});
/** Two admission policies refuse a Service with a selector and without an epoch. Either answers first. */
const refusedService = /epoch of its term|of type ClusterIP/;
const called = (object: Json, other: string): Json => ({
  ...object,
  metadata: { ...object.metadata, name: other },
});

suite('a SPIRE server in a member of a cluster set', { skip }, () => {
  let cluster: MemberCluster;
  before(async () => {
    cluster = await MemberCluster.start();
    await cluster.kubectl.ok(['create', 'namespace', 'shop']);
    await cluster.kubectl.ok(['create', 'namespace', namespace]);
    const probe = serviceOf('probe');
    await cluster.untilRefused('hansa-league-copies', 'site', 'POST', shopServices, probe);
    await cluster.untilRefused('hansa-league-policies', 'site', 'POST', policies, policy);
  });
  after(() => cluster?.stop());

  const applier = (epoch: number): ObjectApplier =>
    new ObjectApplier({
      client: cluster.site,
      term: termOf(epoch),
      site: 'lubeck.example',
      owner: serverFacts(new Set()).uid,
      createOnly: false,
      cached: () => undefined,
    });

  test('is refused to a site that does not operate it', async () => {
    await cluster.refuses('site', 'POST', services, service, refusedService);
    await cluster.refuses('site', 'POST', policies, policy, /epoch of its term/);
  });

  test('gets all its objects from a site that does', async () => {
    const manifests = spireManifests({
      trustDomain: 'lubeck.example',
      subject: { kind: 'ServiceAccount', namespace: systemNamespace, name: 'hansa' },
      namespace,
      maxFederatedClusters: 50,
      secrets: [],
      hasOwnCrd: true,
      hasOwnNamespace: false,
      hasPolicies: true,
    });
    await cluster.kubectl.ok(['apply', '--server-side', '-f', '-'], {
      input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items: manifests }),
    });
    // The API server learns of the rights a moment later.
    await until(
      async () =>
        (await cluster.send('site', 'POST', services, service, { dryRun: 'All' })).status === 201,
      'the site may write the Service',
    );
    for (const manifest of objects.wanted) {
      const { state } = await applier(1).apply(manifest);
      assert.equal(state, 'created', `${manifest.kind} ${manifest.metadata.name}`);
    }
    await cluster.accepts('admin', 'PATCH', `${services}/${name}`, {
      spec: { selector: { 'app.kubernetes.io/name': 'other' } },
    });
    const federationOnly: readonly Manifest[] = objects.wanted.filter(
      ({ kind, metadata }) => metadata.name === name && /Service$|Policy$/.test(kind),
    );
    assert.equal(federationOnly.length, 2);
    const repaired = await Promise.all(federationOnly.map((each) => applier(2).apply(each)));
    assert.deepEqual(repaired.map(({ state }) => state).toSorted(), ['asWanted', 'changed']);
    for (const manifest of federationOnly) {
      assert.equal((await applier(2).remove(manifest)).state, 'removed');
    }
  });

  test('opens no port of a node, and selects no other Pods', async () => {
    for (const spec of [
      { type: 'NodePort' },
      { type: 'LoadBalancer' },
      { externalIPs: ['192.0.2.1'] },
      { selector: { app: 'web' } },
      { selector: {} },
      { selector: { 'app.kubernetes.io/name': 'spire-server' } },
    ]) {
      const bad = withSpec(service, spec);
      await cluster.refuses('site', 'POST', services, bad, refusedService);
    }
    for (const podSelector of [{}, { matchLabels: { app: 'web' } }]) {
      const bad = withSpec(policy, { podSelector });
      await cluster.refuses('site', 'POST', policies, bad, /epoch of its term/);
    }
  });

  test('lends its marks to no other object', async () => {
    const bare = annotated(service, { [spireSiteAnnotation]: undefined });
    for (const bad of [called(service, 'web'), bare]) {
      await cluster.refuses('site', 'POST', services, bad, refusedService);
    }
    // An epoch makes it a copy, and a copy has other rules.
    const epoch = annotated(service, { [epochAnnotation]: '9' });
    await cluster.refuses('site', 'POST', services, epoch, /a copy/);
    const elsewhere = { ...service, metadata: { ...service.metadata, namespace: 'shop' } };
    await cluster.refuses('site', 'POST', shopServices, elsewhere, refusedService);
    const federated = annotated(policy, { [policyAnnotation]: 'true' });
    for (const bad of [called(policy, 'web'), federated]) {
      await cluster.refuses('site', 'POST', policies, bad, /epoch of its term/);
    }
  });

  test('does not take a Service of a user, unless the user hands it over', async () => {
    const path = `${services}/${name}`;
    const plain = annotated(service, { [spireSiteAnnotation]: undefined });
    await cluster.accepts('admin', 'POST', services, plain);
    await cluster.refuses('site', 'PUT', path, service, /epoch of its term|only copies/);
    await cluster.refuses('site', 'DELETE', path, undefined, /only copies/);
    await cluster.accepts('admin', 'PATCH', path, {
      metadata: { annotations: { [adoptAnnotation]: 'true' } },
    });
    await cluster.refuses('site', 'DELETE', path, undefined, /only copies/);
    await cluster.accepts('site', 'PUT', path, service);
    await cluster.accepts('site', 'DELETE', path);
  });
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { KubeStatusError } from '../../../src/core/kube/kube-errors.ts';
import { FencedWriter, type Written } from '../../../src/kubernetes/fencing/fenced-writer.ts';
import { termOf } from '../../../src/kubernetes/fencing/test-term.ts';
import {
  copyAnnotation,
  deletingAnnotation,
  epochAnnotation,
  leaseName,
  managedByLabel,
  manager,
  memberCondition,
  namedCondition,
  vmAnnotation,
  vmManager,
} from '../../../src/kubernetes/names.ts';
import { fencingRules } from './fencing-rules.ts';
import { MemoryKube } from './memory-kube.ts';
import { MemoryKubeClient } from './memory-kube-client.ts';

const services = '/api/v1/namespaces/app/services';
const copy = (metadata: object = {}, spec: object = {}): Written =>
  ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: 'shop',
      labels: { [managedByLabel]: manager },
      annotations: { [copyAnnotation]: 'shop' },
      ...metadata,
    },
    spec: { ports: [{ port: 80 }], ...spec },
  }) as Written;

function setUp() {
  const cluster: MemoryKube = new MemoryKube({
    admit: fencingRules(
      (user) => user.startsWith('site'),
      () => cluster,
    ),
  });
  for (const name of ['app', 'hansa-system']) cluster.put('namespaces', '', name, { metadata: {} });
  const clientOf = (user: string) => new MemoryKubeClient({ cluster, user });
  return { cluster, site: clientOf('site'), user: clientOf('user') };
}

const isRefused = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => false,
    (error: unknown) => {
      assert.ok(error instanceof KubeStatusError && error.status === 422, String(error));
      return true;
    },
  );

suite('the fencing rules', () => {
  test('let a leader create, change and delete its copies', async () => {
    const { cluster, site } = setUp();
    const writer = new FencedWriter(site, termOf(3));
    const made = await writer.create(services, copy());
    const changed = await writer.replace(`${services}/shop`, copy({ labels: {} }), made);
    await writer.remove(`${services}/shop`, changed);
    assert.equal(cluster.objects('services').length, 0);
  });

  test('refuse a leader of an older term, also where it does not look itself', async () => {
    const { site } = setUp();
    const made = await new FencedWriter(site, termOf(3)).create(services, copy());
    const old = { ...made.metadata.annotations, [epochAnnotation]: '2' };
    const stale = { ...made, metadata: { ...made.metadata, annotations: old } };
    assert.ok(await isRefused(site.replace(`${services}/shop`, stale)));
    const marked = { ...old, [deletingAnnotation]: '2' };
    const staleMark = { ...made, metadata: { ...made.metadata, annotations: marked } };
    assert.ok(await isRefused(site.replace(`${services}/shop`, staleMark)));
    assert.ok(await isRefused(site.delete(`${services}/shop`)));
  });

  test('refuse a leader whose Lease another one took, also where that one wrote nothing', async () => {
    const { cluster, site, user } = setUp();
    const old = new FencedWriter(site, termOf(3));
    const made = await old.create(services, copy());
    const marked = await old.replace(`${services}/shop`, made, made);
    const ofUser = await user.create<Written>(services, copy({ name: 'a', annotations: {} }));
    cluster.put('leases', 'hansa-system', leaseName, {
      metadata: { annotations: { [epochAnnotation]: '4' } },
    });
    assert.ok(await isRefused(old.replace(`${services}/shop`, copy(), marked)));
    assert.ok(await isRefused(old.remove(`${services}/shop`, marked)));
    assert.ok(await isRefused(old.create(services, copy({ name: 'other' }))));
    assert.ok(await isRefused(old.replaceStatus(`${services}/a`, ofUser)));
    const next = new FencedWriter(site, termOf(4));
    assert.ok(!(await isRefused(next.replaceStatus(`${services}/a`, ofUser))));
    assert.ok(!(await isRefused(next.remove(`${services}/shop`, marked))));
  });

  test('let a leader write what belongs to machines, with its own marks', async () => {
    const { site } = setUp();
    const writer = new FencedWriter(site, termOf(3));
    const labels = { [managedByLabel]: vmManager };
    const annotations = { [vmAnnotation]: 'shop' };
    await writer.create(services, copy({ labels, annotations }));
    const other = { ...copy({ name: 'other', labels }) };
    assert.ok(await isRefused(writer.create(services, other)), 'with the annotation of a copy');
    const mixed = copy({ name: 'other', annotations });
    assert.ok(await isRefused(writer.create(services, mixed)), 'with the label of a copy');
  });

  test('refuse copies that open ports, select pods, or lack their marks', async () => {
    const { site } = setUp();
    const writer = new FencedWriter(site, termOf(3));
    for (const spec of [
      { type: 'NodePort' },
      { externalIPs: ['192.0.2.1'] },
      { selector: { app: 'x' } },
    ]) {
      assert.ok(await isRefused(writer.create(services, copy({}, spec))));
    }
    assert.ok(await isRefused(writer.create(services, copy({ labels: {} }))));
    assert.ok(await isRefused(writer.create(services, copy({ annotations: {} }))));
    assert.ok(await isRefused(site.create(services, copy())));
  });

  test('keep sites away from what users made, but for two conditions', async () => {
    const { site, user } = setUp();
    const made = await user.create<Written>(services, copy({ labels: {}, annotations: {} }));
    assert.ok(
      await isRefused(new FencedWriter(site, termOf(3)).replace(`${services}/shop`, copy(), made)),
    );
    assert.ok(await isRefused(site.delete(`${services}/shop`)));
    const condition = {
      type: memberCondition,
      status: 'True',
      reason: 'Federated',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    };
    const conditions = [condition, { ...condition, type: namedCondition }];
    const status = { loadBalancer: {}, conditions };
    assert.ok(!(await isRefused(site.replace(`${services}/shop/status`, { ...made, status }))));
    const other = { ...status, conditions: [{ ...condition, type: 'example.com/Other' }] };
    const latest = await site.get<Written>(`${services}/shop`);
    assert.ok(
      await isRefused(site.replace(`${services}/shop/status`, { ...latest, status: other })),
    );
    const metadata = { ...latest.metadata, labels: { a: 'b' } };
    assert.ok(await isRefused(site.replace(`${services}/shop/status`, { ...latest, metadata })));
  });

  test('let users edit and delete copies, but not write epochs', async () => {
    const { site, user } = setUp();
    await new FencedWriter(site, termOf(3)).create(services, copy());
    const at = `${services}/shop`;
    assert.ok(
      await isRefused(user.patch(at, { metadata: { annotations: { [epochAnnotation]: '9' } } })),
    );
    assert.ok(await isRefused(user.patch(at, { metadata: { annotations: null } })));
    assert.ok(!(await isRefused(user.patch(at, { metadata: { labels: null } }))));
    assert.ok(!(await isRefused(user.delete(at))));
    const forged = copy({ name: 'forged', annotations: { [epochAnnotation]: '9' } });
    assert.ok(await isRefused(user.create(services, forged)));
  });

  test('let the epoch of the Lease only grow', async () => {
    const { site, user } = setUp();
    const path = '/apis/coordination.k8s.io/v1/namespaces/app/leases';
    const lease = (epoch: string, version?: string, name = leaseName) => ({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, resourceVersion: version, annotations: { [epochAnnotation]: epoch } },
      spec: {},
    });
    const made = await site.create<Written>(path, lease('4'));
    const { resourceVersion } = made.metadata;
    assert.ok(await isRefused(site.replace(`${path}/${leaseName}`, lease('3', resourceVersion))));
    assert.ok(await isRefused(user.replace(`${path}/${leaseName}`, lease('5', resourceVersion))));
    assert.ok(
      !(await isRefused(site.replace(`${path}/${leaseName}`, lease('5', resourceVersion)))),
    );
    assert.ok(!(await isRefused(user.create(path, lease('9', undefined, 'other')))));
  });
});

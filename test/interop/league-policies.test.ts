// The admission policies and RBAC of a member on a real kube-apiserver: a leader of an old term changes nothing, a
// site changes only its copies, only sites write epochs, and users keep all other freedom. Kubernetes below 1.30
// has no such policies; there, only the suites about RBAC and CRDs run.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { FencedWriter } from '../../src/kubernetes/fencing/fenced-writer.ts';
import { termOf } from '../../src/kubernetes/fencing/test-term.ts';
import {
  deletingAnnotation,
  epochAnnotation,
  epochFloorAnnotation,
  leaseName,
  managedByLabel,
  manager,
  memberCondition,
  namedCondition,
  originKey,
  termManager,
  vmAnnotation,
  vmManager,
} from '../../src/kubernetes/names.ts';
import { until } from '../e2e/until.ts';
import { rbacTests } from './league-rbac.ts';
import { ruleTests } from './league-rules.ts';
import { type Json, MemberCluster, secondSite, withoutPolicies } from './member-cluster.ts';
import {
  annotated,
  asPatch,
  balanced,
  claimOf,
  claims,
  copyOf,
  federationOf,
  federations,
  leaseOf,
  leases,
  marks,
  serviceOf,
  services,
  sliceOf,
  slices,
} from './member-objects.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl');

let cluster: MemberCluster;

before(async () => {
  if (skip !== false) return;
  cluster = await MemberCluster.start();
  await cluster.kubectl.ok(['create', 'namespace', 'shop']);
});
after(() => cluster?.stop());

rbacTests(() => cluster, skip);
ruleTests(() => cluster, skip);

suite('fencing by admission', { skip: skip || withoutPolicies }, () => {
  before(async () => {
    await cluster.untilRefused('hansa-league-copies', 'site', 'POST', services, serviceOf('probe'));
    await cluster.untilRefused(
      'hansa-league-services',
      'site',
      'POST',
      services,
      copyOf('probe', '1', { type: 'NodePort' }),
    );
    const epoch = { annotations: { [epochAnnotation]: '1' } };
    await cluster.untilRefused(
      'hansa-league-epochs',
      'admin',
      'POST',
      services,
      serviceOf('probe', epoch),
    );
    const probe = await cluster.accepts('admin', 'POST', services, balanced('probe'));
    await cluster.untilRefused(
      'hansa-league-service-status',
      'site',
      'PUT',
      `${services}/probe/status`,
      { ...probe, status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } } },
    );
    const lease = await cluster.accepts(
      'site',
      'POST',
      leases,
      leaseOf({ [epochAnnotation]: '5', [epochFloorAnnotation]: '3' }),
    );
    await cluster.untilRefused(
      'hansa-league-lease',
      'site',
      'PUT',
      `${leases}/${leaseName}`,
      annotated(lease, { [epochAnnotation]: '4' }),
    );
  });

  test('a site creates copies with an epoch and our marks', async () => {
    await cluster.accepts('site', 'POST', services, copyOf('new', '7'));
    await cluster.accepts('site', 'POST', slices, sliceOf('new', '7'));
    await cluster.accepts({ user: secondSite }, 'POST', services, copyOf('newer', '8'));
  });

  test('a site creates what belongs to machines with the marks for it, and no others', async () => {
    const own = {
      labels: { [managedByLabel]: vmManager },
      annotations: { [vmAnnotation]: 'press', [epochAnnotation]: '7' },
    };
    await cluster.accepts('site', 'POST', services, serviceOf('press', own));
    const slice = sliceOf('press', '7');
    const labels = { ...slice.metadata.labels, ...own.labels };
    const metadata = { ...slice.metadata, labels, annotations: own.annotations };
    await cluster.accepts('site', 'POST', slices, { ...slice, metadata });
    for (const mixed of [
      { ...own, labels: { [managedByLabel]: manager } },
      { ...own, annotations: { [epochAnnotation]: '7' } },
      { ...marks('7'), labels: own.labels },
    ]) {
      const object = serviceOf('bad', mixed);
      await cluster.refuses('site', 'POST', services, object, /a copy needs the label/);
    }
    const open = serviceOf('bad', own, { type: 'NodePort' });
    await cluster.refuses('site', 'POST', services, open, /of type ClusterIP/);
    const late = annotated(serviceOf('press', own), { [epochAnnotation]: '6' });
    await cluster.refuses('site', 'PUT', `${services}/press`, late, /another leader/);
  });

  test('a site creates nothing without an epoch', async () => {
    for (const epoch of ['', '0', '007', '-1', '1.5', 'seven', '1000000000000000', ' 7', '7\n']) {
      await cluster.refuses('site', 'POST', services, copyOf('bad', epoch), /epoch of its term/);
      await cluster.refuses('site', 'POST', slices, sliceOf('bad', epoch), /epoch of its term/);
    }
    const bare = annotated(copyOf('bad', '7'), { [epochAnnotation]: undefined });
    await cluster.refuses('site', 'POST', services, bare, /epoch of its term/);
    const withoutAny = serviceOf('bad');
    await cluster.refuses({ user: secondSite }, 'POST', services, withoutAny, /epoch of its term/);
  });

  test('a site creates nothing without our marks', async () => {
    const epoch = { annotations: { [epochAnnotation]: '7' } };
    for (const object of [
      serviceOf('bad', epoch),
      serviceOf('bad', { ...epoch, labels: { [managedByLabel]: manager } }),
      serviceOf('bad', { ...marks('7'), labels: { [managedByLabel]: 'another' } }),
      serviceOf('bad', { ...marks('7'), labels: {} }),
    ]) {
      await cluster.refuses('site', 'POST', services, object, /a copy needs the label/);
    }
    const slice = annotated(sliceOf('bad', '7'), { [originKey]: undefined });
    await cluster.refuses('site', 'POST', slices, slice, /a copy needs the label/);
  });

  test('a copy opens no port of a node, claims no external address and selects no Pods', async () => {
    for (const spec of [
      { type: 'NodePort' },
      { type: 'LoadBalancer' },
      { type: 'ExternalName', externalName: 'example.com' },
      { externalIPs: ['192.0.2.1'] },
      { selector: { app: 'web' } },
    ]) {
      await cluster.refuses(
        'site',
        'POST',
        services,
        copyOf('bad', '7', spec),
        /of type ClusterIP/,
      );
    }
  });

  for (const [what, collection, make] of [
    ['Service', services, copyOf],
    ['EndpointSlice', slices, sliceOf],
  ] as const) {
    const path = (name: string): string => `${collection}/${name}`;

    test(`a leader of an old term cannot change a ${what}`, async () => {
      const name = 'terms';
      await cluster.accepts('site', 'POST', collection, make(name, '7'));
      await cluster.accepts('site', 'PUT', path(name), make(name, '7'));
      await cluster.accepts('site', 'PUT', path(name), make(name, '10'));
      for (const by of ['site', { user: secondSite }] as const) {
        await cluster.refuses(by, 'PUT', path(name), make(name, '9'), /epoch 10.* epoch 9$/);
      }
      const bare = annotated(make(name, '10'), { [epochAnnotation]: undefined });
      await cluster.refuses('site', 'PUT', path(name), bare, /epoch/);
      const { metadata } = await cluster.accepts('site', 'GET', path(name));
      assert.equal(metadata.annotations?.[epochAnnotation], '10');
    });

    test(`a ${what} is deleted only with a mark of its epoch`, async () => {
      const name = 'gone';
      await cluster.accepts('site', 'POST', collection, make(name, '7'));
      await cluster.refuses('site', 'DELETE', path(name), undefined, /before a Hansa site deletes/);
      const marked = annotated(make(name, '7'), { [deletingAnnotation]: '7' });
      await cluster.accepts('site', 'PUT', path(name), marked);
      // The next leader wants to keep it: the deletion of the old one must not succeed.
      const taken = annotated(make(name, '8'), { [deletingAnnotation]: '7' });
      await cluster.accepts('site', 'PUT', path(name), taken);
      await cluster.refuses('site', 'DELETE', path(name), undefined, /before a Hansa site deletes/);
      const old = annotated(make(name, '7'), { [deletingAnnotation]: '7' });
      await cluster.refuses('site', 'PUT', path(name), old, /another leader/);
      const again = annotated(make(name, '8'), { [deletingAnnotation]: '8' });
      await cluster.accepts('site', 'PUT', path(name), again);
      await cluster.accepts('site', 'DELETE', path(name));
    });

    test(`a site cannot touch a ${what} of a user`, async () => {
      const name = 'users';
      const plain = { ...make(name, ''), metadata: { name } };
      await cluster.accepts('admin', 'POST', collection, plain);
      await cluster.refuses('site', 'PUT', path(name), make(name, '7'), /only copies/);
      await cluster.refuses('site', 'PUT', path(name), plain, /epoch of its term|only copies/);
      await cluster.refuses('site', 'DELETE', path(name), undefined, /only copies/);
      // A user can write all our marks but the epoch.
      const posing = annotated(make(name, '7'), { [epochAnnotation]: undefined });
      await cluster.accepts('admin', 'PUT', path(name), posing);
      await cluster.refuses('site', 'PUT', path(name), make(name, '7'), /only copies/);
      await cluster.refuses('site', 'DELETE', path(name), undefined, /only copies/);
    });

    test(`users edit and delete a copied ${what}, but not its epoch`, async () => {
      const name = 'edited';
      await cluster.accepts('site', 'POST', collection, make(name, '7'));
      const live = await cluster.accepts('admin', 'GET', path(name));
      for (const change of [
        { [epochAnnotation]: '999' },
        { [epochAnnotation]: '6' },
        { [epochAnnotation]: undefined },
        { [deletingAnnotation]: '7' },
        { [deletingAnnotation]: '' },
        { [epochFloorAnnotation]: '999' },
      ]) {
        const object = annotated(live, change);
        await cluster.refuses('admin', 'PUT', path(name), object, /only Hansa sites/);
        const patch = { metadata: { annotations: asPatch(change) } };
        const { status, message } = await cluster.send('admin', 'PATCH', path(name), patch);
        assert.equal(status, 422, message);
      }
      const { metadata } = annotated(live, { mine: 'yes' });
      const edited = { ...live, metadata: { ...metadata, labels: { mine: 'yes' } } };
      await cluster.accepts('admin', 'PUT', path(name), edited);
      // The copy lost our label, and is still ours: a repair is possible.
      await cluster.accepts('site', 'PUT', path(name), make(name, '7'));
      await cluster.accepts('admin', 'DELETE', path(name));
    });

    test(`users create no ${what} with an epoch`, async () => {
      const object = make('stolen', '7');
      await cluster.refuses('admin', 'POST', collection, object, /only Hansa sites/);
      await cluster.accepts('admin', 'POST', collection, {
        ...object,
        metadata: { name: 'stolen' },
      });
    });
  }

  test('a copy with a change of a user can be marked and deleted', async () => {
    const path = `${services}/changed`;
    await cluster.accepts('site', 'POST', services, copyOf('changed', '7'));
    const live = await cluster.accepts('admin', 'GET', path);
    const changed = await cluster.accepts('admin', 'PUT', path, {
      ...live,
      spec: { ...live.spec, selector: { app: 'web' }, externalIPs: ['192.0.2.1'] },
    });
    const spec = { ...changed.spec, ports: [{ port: 81 }] };
    await cluster.refuses('site', 'PUT', path, { ...changed, spec }, /of type ClusterIP/);
    const writer = new FencedWriter(cluster.site, termOf(8));
    await writer.remove(path, changed);
    assert.equal((await cluster.send('admin', 'GET', path)).status, 404);
  });

  test('a site changes only its conditions in the status of a Service', async () => {
    const path = `${services}/status-of-user`;
    const inTerm = { fieldManager: `${termManager}7` };
    const own = { type: memberCondition, status: 'True', reason: 'Federated', message: 'it is' };
    const other = { type: 'Other', status: 'True', reason: 'Other', message: '' };
    const at = { lastTransitionTime: '2026-01-01T00:00:00Z' };
    await cluster.accepts('admin', 'POST', services, balanced('status-of-user'));
    const put = async (status: Json['status'], metadata: object = {}): Promise<object> => {
      const live = await cluster.accepts('admin', 'GET', path);
      return { ...live, metadata: { ...live.metadata, ...metadata }, status };
    };
    const accepted = async (conditions: readonly object[]) => {
      const object = await put({ loadBalancer: {}, conditions });
      return cluster.accepts('site', 'PUT', `${path}/status`, object, inTerm);
    };
    const refused = async (object: object, why: RegExp) =>
      cluster.refuses('site', 'PUT', `${path}/status`, object, why, inTerm);
    await accepted([{ ...own, ...at }]);
    await accepted([{ ...own, ...at, status: 'False', reason: 'PortConflict' }]);
    await accepted([
      { ...own, ...at },
      { ...own, ...at, type: namedCondition },
    ]);
    const foreign = await put({ loadBalancer: {}, conditions: [{ ...other, ...at }] });
    await refused(foreign, /only the conditions/);
    await cluster.accepts('admin', 'PUT', `${path}/status`, foreign);
    await accepted([
      { ...other, ...at },
      { ...own, ...at },
    ]);
    await refused(await put({ conditions: [{ ...own, ...at }] }), /only the conditions/);
    const attracted = { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } };
    await refused(await put(attracted), /only the conditions/);
    const { status } = await cluster.accepts('admin', 'GET', path);
    for (const metadata of [
      { annotations: { [epochAnnotation]: '7' } },
      { labels: { [managedByLabel]: manager } },
      { finalizers: ['example.com/stay'] },
    ]) {
      await refused(await put(status, metadata), /may not change metadata/);
    }
  });

  test('users do not write epochs through the status of a Service', async () => {
    const name = 'copy-with-status';
    await cluster.accepts('site', 'POST', services, copyOf(name, '7'));
    const path = `${services}/${name}/status`;
    const live = await cluster.accepts('admin', 'GET', `${services}/${name}`);
    const object = annotated(live, { [epochAnnotation]: '9' });
    await cluster.refuses('admin', 'PUT', path, object, /only Hansa sites/);
    await cluster.accepts('admin', 'PUT', path, live);
  });

  test('the epoch and the floor of the Lease never go back', async () => {
    const path = `${leases}/${leaseName}`;
    const change = async (annotations: Readonly<Record<string, string | undefined>>) =>
      annotated(await cluster.accepts('admin', 'GET', path), annotations);
    for (const annotations of [
      { [epochAnnotation]: '4' },
      { [epochAnnotation]: undefined },
      { [epochFloorAnnotation]: '2' },
      { [epochFloorAnnotation]: undefined },
    ]) {
      await cluster.refuses('site', 'PUT', path, await change(annotations), /never go back/);
    }
    await cluster.accepts('site', 'PUT', path, await change({}));
    await cluster.accepts('site', 'PUT', path, await change({ [epochAnnotation]: '6' }));
    await cluster.accepts('site', 'PUT', path, await change({ [epochFloorAnnotation]: '9' }));
    const forged = await change({ [epochAnnotation]: '10' });
    await cluster.refuses('admin', 'PUT', path, forged, /only Hansa sites/);
    const held = await change({});
    const freed = { ...held, spec: { ...held.spec, holderIdentity: 'nobody' } };
    await cluster.accepts('admin', 'PUT', path, freed);
    await cluster.accepts('admin', 'DELETE', path);
    const withEpoch = leaseOf({ [epochAnnotation]: '11' });
    await cluster.refuses('admin', 'POST', leases, withEpoch, /only Hansa sites/);
    await cluster.accepts('site', 'POST', leases, withEpoch);
  });
});

suite('the CRDs of a member', { skip }, () => {
  test('have one claim for each key, with the key in lower case as name', async () => {
    const set = claimOf('clusterSet.k8s.io', 'hansa');
    await cluster.accepts('admin', 'POST', claims, set);
    for (const claim of [
      claimOf('id.k8s.io', 'app1', 'my-id'),
      claimOf('clusterSet.k8s.io', 'other', 'second'),
      claimOf('example.com', 'x', 'other'),
    ]) {
      await cluster.refuses('admin', 'POST', claims, claim, /its key in lower case/);
    }
    await cluster.accepts('admin', 'DELETE', `${claims}/clusterset.k8s.io`);
  });

  test('accept only DNS labels as ID of a cluster, and keep the key', async () => {
    for (const id of ['App1', 'a.b', '-a', 'a'.repeat(64)]) {
      await cluster.refuses('admin', 'POST', claims, claimOf('id.k8s.io', id), /DNS label/);
    }
    const path = `${claims}/example.com`;
    const made = await cluster.accepts('admin', 'POST', claims, claimOf('Example.com', 'x'));
    const spec = { ...made.spec, name: 'example.com' };
    await cluster.refuses('admin', 'PUT', path, { ...made, spec }, /cannot change/);
    await cluster.accepts('admin', 'DELETE', path);
  });

  test('have one Federation', async () => {
    const other = { ...federationOf(), metadata: { name: 'second' } };
    await cluster.refuses('admin', 'POST', federations, other, /the only Federation/);
  });

  test('accept only address ranges as endpoint prefixes', async () => {
    const withPrefix = (prefix: string) =>
      federationOf({ members: [{ clusterID: 'app1', endpointPrefixes: [prefix] }] });
    const tried = async (prefix: string): Promise<number> => {
      const query = { dryRun: 'All' };
      const object = withPrefix(prefix);
      return (await cluster.send('admin', 'POST', federations, object, query)).status;
    };
    for (const prefix of ['10.1.0.0/16', '0.0.0.0/0', 'fd00::/8', '::/0', '1:2:3:4:5:6:7:8/128']) {
      assert.equal(await tried(prefix), 201, prefix);
    }
    for (const prefix of ['10.1.0.0/33', '256.1.0.0/16', '10.1.0.0', 'fd00::/129', '1::2::3/64']) {
      assert.equal(await tried(prefix), 422, prefix);
    }
  });
});

suite('the ID of a cluster', { skip: skip || withoutPolicies }, () => {
  const id = `${claims}/id.k8s.io`;
  const why = /Federation refers to this cluster/;
  const withValue = async (value: string): Promise<Json> => {
    const live = await cluster.accepts('admin', 'GET', id);
    return { ...live, spec: { ...live.spec, value } };
  };
  /** The policy sees a change of Federation after some time. */
  const untilFree = (): Promise<void> =>
    until(async () => {
      const { status } = await cluster.send('admin', 'DELETE', id, undefined, { dryRun: 'All' });
      return status === 200;
    }, 'the claim cannot be deleted');
  const setFederation = async (spec: object): Promise<void> => {
    const live = await cluster.accepts('admin', 'GET', `${federations}/federation`);
    await cluster.accepts('admin', 'PUT', `${federations}/federation`, {
      ...live,
      spec: { clusterSet: 'hansa', ...spec },
    });
  };

  test('is free without a Federation', async () => {
    await cluster.accepts('admin', 'POST', claims, claimOf('id.k8s.io', 'first'));
    await cluster.accepts('admin', 'PUT', id, await withValue('app1'));
    await cluster.accepts('admin', 'DELETE', id);
    await cluster.accepts('admin', 'POST', claims, claimOf('id.k8s.io', 'app1'));
  });

  test('stays while the Federation of a child exists', async () => {
    await cluster.accepts('admin', 'POST', federations, federationOf());
    await cluster.untilRefused('hansa-league-claims', 'admin', 'DELETE', id);
    await cluster.refuses('admin', 'PUT', id, await withValue('app9'), why);
    await cluster.refuses('admin', 'DELETE', id, undefined, why);
    const live = await cluster.accepts('admin', 'GET', id);
    await cluster.accepts('admin', 'PUT', id, annotated(live, { note: 'it may be described' }));
  });

  test('does not bind other claims', async () => {
    const set = await cluster.accepts('admin', 'POST', claims, claimOf('clusterSet.k8s.io', 'a'));
    const path = `${claims}/clusterset.k8s.io`;
    await cluster.accepts('admin', 'PUT', path, { ...set, spec: { ...set.spec, value: 'b' } });
    await cluster.accepts('admin', 'DELETE', path);
  });

  test('stays while the Federation of a supervisor lists it', async () => {
    await setFederation({ members: [{ clusterID: 'app2' }] });
    await untilFree();
    await setFederation({ members: [{ clusterID: 'app2' }, { clusterID: 'app1' }] });
    await cluster.untilRefused('hansa-league-claims', 'admin', 'DELETE', id);
    await cluster.refuses('admin', 'PUT', id, await withValue('app2'), why);
  });

  test('is free after the Federation is deleted', async () => {
    await cluster.accepts('admin', 'DELETE', `${federations}/federation`);
    await untilFree();
    await cluster.accepts('admin', 'DELETE', id);
  });
});

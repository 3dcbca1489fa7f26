// Federated policies on three real clusters with two supervisors: a policy with the annotation in one member is in
// all, and the last edit wins. No CNI enforces policies here: they are shown as replicated objects.
// It is one piece because three clusters take long to start, and all tests use the same ones.

import assert from 'node:assert/strict';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, suite, test } from 'node:test';
import { copyAnnotation, originKey, policyAnnotation } from '../../src/kubernetes/names.ts';
import { recordNameOf } from '../../src/kubernetes/policies/policy-ref.ts';
import { until } from '../e2e/until.ts';
import { antreaCrds } from './antrea-crds.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import type { CustomResourceDefinition } from './kube-apiserver.ts';
import type { KubeCluster } from './kube-cluster.ts';
import { League, leagueTools } from './league.ts';
import { shop } from './league-members.ts';
import { shiftedClock } from './league-site.ts';
import { moduleCrds, whyNoCrds } from './module-crds.ts';
import { missingTools } from './tool.ts';

const skip = whyNoCrds('network-policy') || (await missingTools(...leagueTools));

interface PolicyObject {
  readonly metadata: {
    readonly uid: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
  };
}

interface RecordObject {
  readonly spec: { readonly state: string; readonly stamp?: object };
  readonly status?: {
    readonly conditions?: readonly { readonly reason: string; readonly message: string }[];
  };
}

interface EntityObject {
  readonly metadata: PolicyObject['metadata'] & { readonly name: string };
  readonly spec: { readonly endpoints?: readonly { readonly ip: string }[] };
}

const entitiesPath = `/apis/crd.antrea.io/v1alpha2/namespaces/${shop}/externalentities`;
const slicesPath = `/apis/discovery.k8s.io/v1/namespaces/${shop}/endpointslices`;
/** A member of the federated Service vault. */
const till = {
  apiVersion: 'v1',
  kind: 'Service',
  metadata: { name: 'till', annotations: { 'svc.federated.hansa.dev': 'vault' } },
  spec: { ports: [{ name: 'http', port: 80 }] },
};
const pods = (address: string) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name: 'till-1', labels: { 'kubernetes.io/service-name': 'till' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: [address], conditions: { ready: true } }],
  ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
});
const entity = (name: string, annotations: object = {}) => ({
  apiVersion: 'crd.antrea.io/v1alpha2',
  kind: 'ExternalEntity',
  metadata: { name, annotations },
  spec: { endpoints: [{ ip: '192.0.2.1' }] },
});

const policiesPath = (namespace = shop): string =>
  `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`;
const antreaPolicies = `/apis/crd.antrea.io/v1beta1/namespaces/${shop}/networkpolicies`;
const clusterPolicies = '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies';
const adminPolicies = '/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies';
const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const recordPath = (namespace: string, name: string): string => {
  const ref = { group: 'networking.k8s.io', plural: 'networkpolicies', namespace, name };
  return `/apis/clusters.hansa.dev/v1alpha1/policyrecords/${recordNameOf(ref)}`;
};

const federated = { [policyAnnotation]: 'true' };
/** The label says which version it is. */
const policy = (name: string, version: string, annotations: object = federated) => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: { name, annotations, labels: { version } },
  spec: { podSelector: {}, policyTypes: ['Ingress'] },
});
const clusterPolicy = (name: string, priority: number) => ({
  apiVersion: 'crd.antrea.io/v1beta1',
  kind: 'ClusterNetworkPolicy',
  metadata: { name, annotations: federated, labels: { version: String(priority) } },
  spec: { priority, appliedTo: [{ podSelector: { matchLabels: { app: 'web' } } }] },
});
const adminPolicy = (name: string, priority: number) => ({
  apiVersion: 'policy.networking.k8s.io/v1alpha1',
  kind: 'AdminNetworkPolicy',
  metadata: { name, annotations: federated, labels: { version: String(priority) } },
  spec: { priority, subject: { namespaces: {} } },
});

const antreaPolicy = (name: string, priority: number) => ({
  ...clusterPolicy(name, priority),
  kind: 'NetworkPolicy',
});

/** As a cluster with an older version of Antrea, which knows fewer priorities. */
function withLowPriorities(all: readonly CustomResourceDefinition[]): CustomResourceDefinition[] {
  const text = JSON.stringify(all);
  return JSON.parse(text, (key: string, value: unknown) =>
    key === 'priority' && typeof value === 'object' && value !== null && 'type' in value
      ? { ...value, maximum: 10 }
      : value,
  ) as CustomResourceDefinition[];
}

suite('federated policies of three clusters', { skip }, () => {
  let etcd: Etcd;
  let ownEtcd: Etcd;
  let folder: string;
  let league: League;
  let north: KubeCluster;
  let south: KubeCluster;
  let west: KubeCluster;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hansa-policies-'));
    [etcd, ownEtcd] = await Promise.all([startEtcd(), startEtcd()]);
    league = await League.start({
      etcd,
      clusters: { west: { etcd: ownEtcd } },
      flags: ['--kubernetes-unreachable-seconds', '3'],
    });
    ({ north, south, west } = league.clusters);
    for (const cluster of [north, south]) await cluster.install(antreaCrds);
    await west.install(withLowPriorities(antreaCrds));
    for (const cluster of [north, south, west]) await cluster.install(moduleCrds('network-policy'));
  });
  after(async () => {
    await league?.stop();
    await etcd?.stop();
    await ownEtcd?.stop();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  const find = async <T = PolicyObject>(
    cluster: KubeCluster,
    path: string,
  ): Promise<T | undefined> => {
    const { status, text } = await cluster.client.send({ method: 'GET', path });
    return status === 200 ? (JSON.parse(text) as T) : undefined;
  };
  const versionIn = async (cluster: KubeCluster, path: string): Promise<string> =>
    (await find(cluster, path))?.metadata.labels?.['version'] ?? '-';
  const versions = async (path: string): Promise<string> =>
    (await Promise.all([north, south, west].map((each) => versionIn(each, path)))).join(' ');
  /** Of north, south and west. A hyphen stands for no policy. */
  const untilVersions = async (path: string, expected: string): Promise<void> => {
    let seen = '';
    await until(
      async () => {
        seen = await versions(path);
        return seen === expected;
      },
      () => `${path} is ${expected}, and not ${seen}`,
    );
  };
  const reasonIn = async (
    cluster: KubeCluster,
    name: string,
    namespace = shop,
  ): Promise<string> => {
    const found = await find<RecordObject>(cluster, recordPath(namespace, name));
    return `${found?.spec.state} ${found?.status?.conditions?.[0]?.reason}`;
  };
  const untilReason = async (cluster: KubeCluster, name: string, expected: string) => {
    let seen = '';
    await until(
      async () => {
        seen = await reasonIn(cluster, name);
        return seen === expected;
      },
      () => `the record of ${name} in ${cluster.name} says ${expected}, and not ${seen}`,
    );
  };
  /** Of the federated Service vault, as `CLUSTER ADDRESS`. */
  const untilEntities = async (cluster: KubeCluster, expected: string): Promise<void> => {
    let seen = '';
    await until(
      async () => {
        const labelSelector = encodeURIComponent(`${copyAnnotation}=vault`);
        const { items } = await cluster.get<{ readonly items: readonly EntityObject[] }>(
          `${entitiesPath}?labelSelector=${labelSelector}`,
        );
        seen = items
          .flatMap(({ metadata, spec }) =>
            (spec.endpoints ?? []).map(({ ip }) => `${metadata.labels?.[originKey]} ${ip}`),
          )
          .toSorted()
          .join(', ');
        return seen === expected;
      },
      () => `the ExternalEntities in ${cluster.name} have ${expected}, and not ${seen}`,
    );
  };
  const edit = (cluster: KubeCluster, path: string, version: string): Promise<unknown> =>
    cluster.send('PATCH', path, { metadata: { labels: { version } } });
  const at = (name: string, namespace = shop): string => `${policiesPath(namespace)}/${name}`;
  /** managedFields has whole seconds, so edits in one second are ordered by cluster. */
  const nextSecond = (): Promise<void> => sleep(1100);

  test('are created, changed and deleted from any member', async () => {
    await south.create(policiesPath(), policy('life', 'one'));
    await untilVersions(at('life'), 'one one one');
    await untilReason(north, 'life', 'Live Replicated');
    await nextSecond();
    await west.send('PATCH', at('life'), { metadata: { labels: { version: 'two' } } });
    await untilVersions(at('life'), 'two two two');
    const created = await find(south, at('life'));
    assert.equal(created?.metadata.annotations?.['clusters.hansa.dev/replica-of'], undefined);
    assert.equal(created?.metadata.finalizers, undefined);
    await nextSecond();
    await north.send('DELETE', at('life'));
    await untilVersions(at('life'), '- - -');
    await untilReason(south, 'life', 'Deleted Deleted');
  });

  test('can be of Antrea and of AdminNetworkPolicy, in clusters that got their CRDs later', async () => {
    await north.create(clusterPolicies, clusterPolicy('antrea', 5));
    await untilVersions(`${clusterPolicies}/antrea`, '5 5 5');
    await south.create(adminPolicies, adminPolicy('admin', 30));
    await untilVersions(`${adminPolicies}/admin`, '30 30 30');
  });

  test('can select endpoints of a federated Service in other clusters by their ExternalEntities', async () => {
    for (const [cluster, address] of [
      [north, '10.1.0.7'],
      [south, '10.2.0.7'],
    ] as const) {
      await cluster.create(`/api/v1/namespaces/${shop}/services`, till);
      await cluster.create(slicesPath, pods(address));
    }
    // North has a ready member, so that its copy leads to no other cluster.
    for (const cluster of [north, south, west]) {
      await untilEntities(cluster, 'north 10.1.0.7, south 10.2.0.7');
    }
    await south.send('PATCH', `${slicesPath}/till-1`, {
      endpoints: [{ addresses: ['10.2.0.8'], conditions: { ready: true } }],
    });
    await untilEntities(north, 'north 10.1.0.7, south 10.2.0.8');
    await south.send('DELETE', `/api/v1/namespaces/${shop}/services/till`);
    await untilEntities(north, 'north 10.1.0.7');
  });

  test('can be of the namespaced kind of Antrea, beside a NetworkPolicy of the same name', async () => {
    await south.create(policiesPath(), policy('twin', 'one'));
    await west.create(antreaPolicies, antreaPolicy('twin', 5));
    await untilVersions(`${antreaPolicies}/twin`, '5 5 5');
    await untilVersions(at('twin'), 'one one one');
    await nextSecond();
    await north.send('PATCH', `${antreaPolicies}/twin`, {
      metadata: { labels: { version: '6' } },
      spec: { priority: 6 },
    });
    await untilVersions(`${antreaPolicies}/twin`, '6 6 6');
    await nextSecond();
    await south.send('DELETE', `${antreaPolicies}/twin`);
    await untilVersions(`${antreaPolicies}/twin`, '- - -');
    assert.equal(await versions(at('twin')), 'one one one');
  });

  test('that all members edit at once are the same in all of them', async () => {
    await north.create(policiesPath(), policy('meet', 'zero'));
    await untilVersions(at('meet'), 'zero zero zero');
    for (const cluster of [north, south, west]) {
      await untilReason(cluster, 'meet', 'Live Replicated');
    }
    for (let round = 0; round < 3; round++) {
      await sleep(1000 - (Date.now() % 1000));
      await Promise.all([north, south, west].map((each) => edit(each, at('meet'), each.name)));
      let seen = '';
      await until(
        async () => {
          const stamps = await Promise.all(
            [north, south, west].map(async (each) => {
              const found = await find<RecordObject>(each, recordPath(shop, 'meet'));
              return JSON.stringify(found?.spec.stamp);
            }),
          );
          seen = `${await versions(at('meet'))} ${stamps.join(' ')}`;
          const areEqual = new Set((await versions(at('meet'))).split(' ')).size === 1;
          return areEqual && new Set(stamps).size === 1;
        },
        () => `all members have one version, and not ${seen}`,
      );
      assert.notEqual(await versionIn(north, at('meet')), 'zero');
      await nextSecond();
    }
  });

  test('have names of up to 253 characters', async () => {
    const name = `${'n'.repeat(63)}.${'a'.repeat(63)}.${'m'.repeat(63)}.${'e'.repeat(61)}`;
    assert.equal(name.length, 253);
    await north.create(policiesPath(), policy(name, 'long'));
    await untilVersions(at(name), 'long long long');
  });

  test('that one member rejects are as they were there, and the record says why', async () => {
    await north.create(clusterPolicies, clusterPolicy('high', 7));
    await untilVersions(`${clusterPolicies}/high`, '7 7 7');
    await nextSecond();
    await north.send('PATCH', `${clusterPolicies}/high`, {
      metadata: { labels: { version: '50' } },
      spec: { priority: 50 },
    });
    await untilVersions(`${clusterPolicies}/high`, '50 50 7');
    const ref = {
      group: 'crd.antrea.io',
      plural: 'clusternetworkpolicies',
      namespace: '',
      name: 'high',
    };
    await until(async () => {
      const record = await find<RecordObject>(
        west,
        `/apis/clusters.hansa.dev/v1alpha1/policyrecords/${recordNameOf(ref)}`,
      );
      const [condition] = record?.status?.conditions ?? [];
      return condition?.reason === 'RejectedByServer' && condition.message.includes('priority');
    }, 'the record says why west rejects the policy');
  });

  test('come to a namespace that is created later, and do not go with one that is deleted', async () => {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'late' } };
    for (const cluster of [north, south]) await cluster.create('/api/v1/namespaces', namespace);
    await north.create(policiesPath('late'), policy('late', 'one'));
    await untilVersions(at('late', 'late'), 'one one -');
    await west.create('/api/v1/namespaces', namespace);
    await untilVersions(at('late', 'late'), 'one one one');
    await until(
      async () => (await reasonIn(west, 'late', 'late')) === 'Live Replicated',
      'west has a record',
    );
    await west.send('DELETE', '/api/v1/namespaces/late');
    await until(
      async () => (await find(west, '/api/v1/namespaces/late')) === undefined,
      'the namespace is gone',
    );
    await nextSecond();
    await edit(south, at('late', 'late'), 'two');
    await untilVersions(at('late', 'late'), 'two two -');
    await west.create('/api/v1/namespaces', namespace);
    await untilVersions(at('late', 'late'), 'two two two');
  });

  test('do not go with a CRD that is deleted, and come back with it', async () => {
    const [, definition] = moduleCrds('network-policy').toSorted((a, b) =>
      a.metadata.name < b.metadata.name ? 1 : -1,
    );
    assert.equal(definition?.metadata.name, 'adminnetworkpolicies.policy.networking.k8s.io');
    await south.create(adminPolicies, adminPolicy('crd', 30));
    await untilVersions(`${adminPolicies}/crd`, '30 30 30');
    await west.send('DELETE', `${crds}/${definition.metadata.name}`);
    await until(
      async () => (await find(west, `${crds}/${definition.metadata.name}`)) === undefined,
      'the CRD is gone',
    );
    await nextSecond();
    await north.send('PATCH', `${adminPolicies}/crd`, {
      metadata: { labels: { version: '31' } },
      spec: { priority: 31 },
    });
    await untilVersions(`${adminPolicies}/crd`, '31 31 -');
    await west.install([definition]);
    await untilVersions(`${adminPolicies}/crd`, '31 31 31');
  });

  test('end where a user removes the annotation, and the policies of users stay', async () => {
    await north.create(policiesPath(), policy('ends', 'one'));
    await untilVersions(at('ends'), 'one one one');
    await untilReason(south, 'ends', 'Live Replicated');
    await north.send('PATCH', at('ends'), {
      metadata: { annotations: { [policyAnnotation]: null } },
    });
    await untilVersions(at('ends'), 'one - -');
    await untilReason(north, 'ends', 'Ended FederationEnded');
  });

  test("do not replace a user's own policy, and the record says so", async () => {
    await west.create(policiesPath(), policy('mine', 'own', {}));
    await north.create(policiesPath(), policy('mine', 'one'));
    await untilVersions(at('mine'), 'one one own');
    await untilReason(west, 'mine', 'Absent UserPolicyInTheWay');
    await west.send('DELETE', at('mine'));
    await untilVersions(at('mine'), 'one one one');
  });

  test('are those of the last edit after a partition with edits on both sides', async () => {
    const names = ['left', 'right', 'gone'];
    for (const name of names) await north.create(policiesPath(), policy(name, 'zero'));
    for (const name of names) await untilVersions(at(name), 'zero zero zero');
    for (const name of names) await untilReason(west, name, 'Live Replicated');
    const cut = [
      league.site('lubeck').doors.south,
      league.site('lubeck').doors.west,
      league.site('bruges').doors.north,
    ];
    for (const door of cut) door.cut();
    await nextSecond();
    await edit(north, at('left'), 'north');
    await edit(south, at('right'), 'south');
    await edit(south, at('gone'), 'south');
    await nextSecond();
    await edit(south, at('left'), 'later');
    await edit(north, at('right'), 'later');
    await north.send('DELETE', at('gone'));
    await until(async () => (await versionIn(west, at('left'))) === 'later', 'bruges leads west');
    for (const door of cut) door.restore();
    await untilVersions(at('left'), 'later later later');
    await untilVersions(at('right'), 'later later later');
    await until(async () => {
      const seen = new Set((await versions(at('gone'))).split(' '));
      return seen.size === 1;
    }, 'all members agree about the policy that one side edited and the other deleted');
  });

  test('stay as they are after a restore of etcd in one member', async () => {
    for (const name of ['kept', 'dropped']) {
      await west.create(policiesPath(), policy(name, 'one'));
      await untilVersions(at(name), 'one one one');
      await untilReason(west, name, 'Live Replicated');
    }
    const backup = join(folder, 'backup');
    await west.restart(() => ownEtcd.restart((data) => cp(data, backup, { recursive: true })));
    await nextSecond();
    await edit(north, at('kept'), 'two');
    await south.create(policiesPath(), policy('newer', 'new'));
    await north.send('DELETE', at('dropped'));
    await untilVersions(at('kept'), 'two two two');
    await untilVersions(at('dropped'), '- - -');
    await untilVersions(at('newer'), 'new new new');
    await west.restart(() =>
      ownEtcd.restart(async (data) => {
        await rm(data, { recursive: true });
        await cp(backup, data, { recursive: true });
      }),
    );
    await untilVersions(at('kept'), 'two two two');
    await untilVersions(at('newer'), 'new new new');
    await untilVersions(at('dropped'), '- - -');
  });

  test('are those of the last edit where the clock of a supervisor was an hour ahead', async () => {
    const [lubeck, bruges] = [league.site('lubeck'), league.site('bruges')];
    await bruges.end('SIGTERM');
    await bruges.start(shiftedClock(3_600_000));
    await lubeck.end('SIGTERM');
    await south.create(policiesPath(), policy('clocks', 'one'));
    await untilVersions(at('clocks'), 'one one one');
    await nextSecond();
    await edit(west, at('clocks'), 'ahead');
    await untilVersions(at('clocks'), 'ahead ahead ahead');
    await lubeck.start();
    await bruges.end('SIGTERM');
    await nextSecond();
    await edit(north, at('clocks'), 'right');
    await untilVersions(at('clocks'), 'right right right');
    await nextSecond();
    await south.send('DELETE', at('clocks'));
    await untilVersions(at('clocks'), '- - -');
    await bruges.start();
    await league.ready();
  });

  suite('admission', () => {
    const answerTo = async (
      method: string,
      path: string,
      object: object,
      user?: string,
    ): Promise<string> => {
      const headers = user === undefined ? {} : { 'impersonate-user': user };
      const contentType = { 'content-type': 'application/json' };
      const { status, text } = await north.client.send({
        method,
        path,
        body: JSON.stringify(object),
        headers: { ...contentType, ...headers },
      });
      return `${status} ${text}`;
    };
    const site = 'system:serviceaccount:hansa-system:hansa';

    test('lets only sites write records and marks', async () => {
      const path = recordPath(shop, 'mine');
      const record = await north.get<{ readonly spec: object }>(path);
      const forged = { ...record, spec: { ...record.spec, versionHash: 'f'.repeat(64) } };
      assert.match(await answerTo('PUT', path, forged), /only Hansa sites write PolicyRecords/);
      const marked = policy('marked', 'x', { ...federated, 'clusters.hansa.dev/version': 'x' });
      assert.match(
        await answerTo('POST', policiesPath(), marked),
        /only Hansa sites add or change/,
      );
    });

    test('lets sites write only their own ExternalEntities, in the term of the Lease', async () => {
      const post = (object: object, user?: string): Promise<string> =>
        answerTo('POST', entitiesPath, object, user);
      const epoch = (value: string) => ({ 'clusters.hansa.dev/epoch': value });
      assert.match(await post(entity('forged', epoch('7'))), /only Hansa sites add, change/);
      assert.match(await post(entity('bare'), site), /needs the epoch of its term/);
      const marks = entity('late', { ...epoch('1'), [originKey]: 'south' });
      const labels = { 'endpointslice.kubernetes.io/managed-by': 'clusters.hansa.dev' };
      const late = { ...marks, metadata: { ...marks.metadata, labels } };
      assert.match(await post(late, site), /another leader has taken over: the Lease has epoch/);
      assert.match(
        await post(entity('plain', epoch('999999999999999')), site),
        /a copy needs the label/,
      );
      await north.create(entitiesPath, entity('private'));
      const live = await north.get<EntityObject>(`${entitiesPath}/private`);
      const { annotations } = entity('', epoch('999999999999999')).metadata;
      const stolen = { ...live, metadata: { ...live.metadata, annotations } };
      const own = `${entitiesPath}/private`;
      assert.match(await answerTo('PUT', own, stolen, site), /only copies that a Hansa site/);
      assert.match(await answerTo('DELETE', own, {}, site), /only copies that a Hansa site/);
    });

    test('lets sites write only federated policies, in the term of the Lease', async () => {
      const marks = { 'clusters.hansa.dev/epoch': '1', 'clusters.hansa.dev/version': 'x' };
      const replica = { ...federated, ...marks, 'clusters.hansa.dev/replica-of': 'south' };
      assert.match(
        await answerTo('POST', policiesPath(), policy('late', 'x', replica), site),
        /another leader has taken over: the Lease has epoch/,
      );
      const { 'clusters.hansa.dev/epoch': _epoch, ...unmarked } = replica;
      assert.match(
        await answerTo('POST', policiesPath(), policy('late', 'x', unmarked), site),
        /needs the epoch of its term/,
      );
      await north.create(policiesPath(), policy('private', 'x', {}));
      const own = policy('private', 'y', { 'clusters.hansa.dev/epoch': '999999999999999' });
      assert.match(
        await answerTo('PUT', at('private'), own, site),
        /may change only policies with the annotation/,
      );
      assert.match(await answerTo('DELETE', at('mine'), {}, site), /before a Hansa site deletes/);
    });
  });
});

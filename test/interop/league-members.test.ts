// A real site follows the members of a cluster set on two real API servers: a member that joins by a Secret
// with a token of few rights, wrong IDs, wrong tokens, and an API server that stops to answer.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { crdOf } from '../../src/api/documents/crd.ts';
import { type ClusterClaim, clusterClaimKind } from '../../src/api/kinds/cluster-claim.ts';
import { type Federation, federationKind } from '../../src/api/kinds/federation.ts';
import { nativeServiceKind } from '../../src/api/kinds/native-service.ts';
import type { LeagueInfo } from '../../src/kubernetes/client/league-info.ts';
import { hansa } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import {
  type CustomResourceDefinition,
  type KubeApiserver,
  startKubeApiserver,
} from './kube-apiserver.ts';
import { clustersPath, CredentialsDir } from './review-cluster.ts';
import { type Site, startSite } from './site.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver');

const group = '/apis/clusters.hansa.dev/v1alpha1';
const namespace = 'hansa-system';
const account = 'hansa';

suite('the members of a cluster set', { skip }, () => {
  let folder: string;
  let etcd: Etcd;
  let home: KubeApiserver;
  let app1: KubeApiserver;
  let site: Site;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hansa-league-'));
    etcd = await startEtcd();
    const crds = [clusterClaimKind, federationKind, nativeServiceKind].map(
      (kind) => crdOf(kind) as unknown as CustomResourceDefinition,
    );
    [home, app1] = (await Promise.all(
      ['/home', '/app1'].map((etcdPrefix) => startKubeApiserver(crds, { etcd, etcdPrefix })),
    )) as [KubeApiserver, KubeApiserver];
    const credentials = new CredentialsDir(folder);
    site = await startSite({
      flags: [`--auth-credentials-dir=${credentials.path}`, '--kubernetes-unreachable-seconds=2'],
    });
    for (const kube of [home, app1]) {
      await create(kube, '/api/v1/namespaces', { metadata: { name: namespace } });
    }
    await claim(home, 'id.k8s.io', 'home');
    await claim(home, 'supervisor.hansa.dev', 'true');
    await claim(app1, 'id.k8s.io', 'app1');
    await giveRights(app1);
    const body = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Cluster',
      metadata: { name: 'prod' },
      spec: { ...credentials.specFor('prod', home), local: true },
    };
    const { status, text } = await site.client.send({
      method: 'POST',
      path: clustersPath,
      body: JSON.stringify(body),
    });
    assert.equal(status, 201, text);
  });
  after(async () => {
    await site?.stop();
    await Promise.all([home?.stop(), app1?.stop()]);
    await etcd?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function send(kube: KubeApiserver, method: string, path: string, object?: object) {
    const body = object === undefined ? undefined : JSON.stringify(object);
    return kube.client.send({ method, path, ...(body !== undefined && { body }) });
  }
  async function create<T>(kube: KubeApiserver, path: string, object: object): Promise<T> {
    const { status, text } = await send(kube, 'POST', path, object);
    assert.equal(status, 201, text);
    return JSON.parse(text) as T;
  }
  async function get<T>(kube: KubeApiserver, path: string): Promise<T> {
    const { status, text } = await send(kube, 'GET', path);
    assert.equal(status, 200, text);
    return JSON.parse(text) as T;
  }
  /** Creates or replaces. */
  async function put(
    kube: KubeApiserver,
    collection: string,
    object: { metadata: { name: string } },
  ) {
    const path = `${collection}/${object.metadata.name}`;
    const { status, text } = await send(kube, 'GET', path);
    if (status === 404) return create(kube, collection, object);
    const { metadata } = JSON.parse(text) as { metadata: { resourceVersion: string } };
    const { resourceVersion } = metadata;
    const next = { ...object, metadata: { ...object.metadata, resourceVersion } };
    const answer = await send(kube, 'PUT', path, next);
    assert.equal(answer.status, 200, answer.text);
    return JSON.parse(answer.text) as unknown;
  }
  const claim = (kube: KubeApiserver, name: string, value: string) =>
    put(kube, `${group}/clusterclaims`, {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'ClusterClaim',
      metadata: { name: name.toLowerCase() },
      spec: { name, value },
    } as unknown as ClusterClaim);
  /** Writes Federation, with its status as it is. */
  const federate = async (...members: readonly object[]): Promise<void> => {
    await put(home, `${group}/federations`, {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'Federation',
      metadata: { name: 'federation' },
      spec: { clusterSet: 'hanse', members },
    } as unknown as Federation);
  };
  /** The ServiceAccount of the site in a member, with what it needs to follow and to lead. */
  async function giveRights(kube: KubeApiserver): Promise<void> {
    const rbac = '/apis/rbac.authorization.k8s.io/v1';
    await create(kube, `/api/v1/namespaces/${namespace}/serviceaccounts`, {
      metadata: { name: account },
    });
    const read = ['get', 'list', 'watch'];
    await create(kube, `${rbac}/clusterroles`, {
      metadata: { name: 'follow' },
      rules: [
        { apiGroups: [''], resources: ['services', 'nodes', 'namespaces'], verbs: read },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: read },
        { apiGroups: ['clusters.hansa.dev'], resources: ['*'], verbs: read },
        {
          apiGroups: ['coordination.k8s.io'],
          resources: ['leases'],
          verbs: ['get', 'create', 'update'],
        },
      ],
    });
    await create(kube, `${rbac}/clusterrolebindings`, {
      metadata: { name: 'follow' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'follow' },
      subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
    });
  }
  const tokenOf = async (kube: KubeApiserver): Promise<string> => {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    const { status } = await create<{ status: { token: string } }>(kube, path, {
      spec: { expirationSeconds: 3600 },
    });
    return status.token;
  };
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  const setSecret = (token: string, ca = app1.ca) =>
    put(home, `/api/v1/namespaces/${namespace}/secrets`, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'app1' },
      data: { token: base64(token), 'ca.crt': base64(ca) },
    } as { metadata: { name: string } });

  const federation = (): Promise<Federation> =>
    get<Federation>(home, `${group}/federations/federation`);
  const stateOf = async (clusterID: string): Promise<string> => {
    const { status } = await federation();
    const found = status?.members?.find((member) => member.clusterID === clusterID);
    return found === undefined ? 'unknown' : `${found.state} ${found.reason}`;
  };
  const untilState = async (clusterID: string, wanted: string): Promise<void> => {
    let state = '';
    await until(
      async () => {
        state = await stateOf(clusterID);
        return state === wanted;
      },
      () => `${clusterID} is ${state}, not ${wanted}`,
    );
  };
  const listed = { clusterID: 'app1', secret: 'app1' };

  test('the home cluster and a member with a Secret are followed and led', async () => {
    await setSecret(await tokenOf(app1));
    await federate({ clusterID: 'home' }, { ...listed, server: app1.url });
    await untilState('home', 'Ready Followed');
    await untilState('app1', 'Ready Followed');
    await until(async () => {
      const { status } = await federation();
      return (status?.members ?? []).every(({ leader = '', epoch = 0 }) => {
        return leader.startsWith('lubeck.example/') && epoch >= 1;
      });
    }, 'a leader of each member');
    const { status } = await federation();
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    assert.deepEqual([ready?.status, ready?.reason], ['True', 'MembersReady']);
    const lease = await get<{ spec: { holderIdentity: string } }>(
      app1,
      `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/hansa-leader`,
    );
    assert.match(lease.spec.holderIdentity, /^lubeck\.example\//);
  });

  test('hansa status and hansa doctor show the members', async () => {
    const { stdout } = await hansa(['status', `--data-dir=${site.dataDir}`]);
    assert.match(stdout, /members\s+2, 2 ready, in cluster set hanse/);
    const { text } = await site.client.send({
      method: 'GET',
      path: '/hansa/v1/kubernetes/members',
    });
    const info = JSON.parse(text) as LeagueInfo;
    assert.deepEqual([info.home, info.homeID, info.supervisor], ['prod', 'home', true]);
    assert.deepEqual(info.members.map(({ clusterID }) => clusterID).toSorted(), ['app1', 'home']);
  });

  test('the status is not written while nothing changes', async () => {
    const written = (await federation()).metadata.resourceVersion;
    // Renewals of the Lease come every five seconds.
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/hansa-leader`;
    const renewal = async (): Promise<string> =>
      (await get<{ spec: { renewTime: string } }>(app1, lease)).spec.renewTime;
    const first = await renewal();
    await until(async () => (await renewal()) !== first, 'a renewal');
    assert.equal((await federation()).metadata.resourceVersion, written);
  });

  test('a member that claims another ID is refused, until it claims its own', async () => {
    await send(app1, 'DELETE', `${group}/clusterclaims/id.k8s.io`);
    await claim(app1, 'id.k8s.io', 'other');
    await untilState('app1', 'Refused ClusterIDMismatch');
    const { status } = await federation();
    const ready = status?.conditions?.find(({ type }) => type === 'Ready');
    assert.equal(ready?.reason, 'MembersRefused');
    assert.equal(await stateOf('home'), 'Ready Followed');
    await claim(app1, 'id.k8s.io', 'app1');
    await untilState('app1', 'Ready Followed');
  });

  test('a wrong token is reported, and a corrected Secret is used', async () => {
    await setSecret('wrong');
    await federate({ clusterID: 'home' });
    await untilState('app1', 'unknown');
    await federate({ clusterID: 'home' }, { ...listed, server: app1.url });
    await untilState('app1', 'Unreachable Unauthorized');
    const { status } = await federation();
    assert.doesNotMatch(JSON.stringify(status), /wrong/);
    await setSecret(await tokenOf(app1));
    await untilState('app1', 'Ready Followed');
  });

  test('a wrong CA is reported, and a corrected Secret is used', async () => {
    const token = await tokenOf(app1);
    await setSecret(token, home.ca);
    await federate({ clusterID: 'home' });
    await untilState('app1', 'unknown');
    await federate({ clusterID: 'home' }, { ...listed, server: app1.url });
    await untilState('app1', 'Unreachable BadCertificate');
    await setSecret(token);
    await untilState('app1', 'Ready Followed');
  });

  test('an API server that stops to answer is unreachable, and ready when it goes on', async () => {
    process.kill(app1.pids.apiserver, 'SIGSTOP');
    try {
      await until(async () => (await stateOf('app1')).startsWith('Unreachable'), 'unreachable');
      assert.equal(await stateOf('home'), 'Ready Followed');
    } finally {
      process.kill(app1.pids.apiserver, 'SIGCONT');
    }
    await untilState('app1', 'Ready Followed');
  });

  test('a member that left is no longer followed', async () => {
    await federate({ clusterID: 'home' });
    await untilState('app1', 'unknown');
    await until(async () => {
      const lease = await get<{ spec: { holderIdentity: string } }>(
        app1,
        `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/hansa-leader`,
      );
      return lease.spec.holderIdentity === '';
    }, 'a free Lease');
  });
});

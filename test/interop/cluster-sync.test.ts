// GitOps on a real kube-apiserver, with kubectl and a real site: objects of the site's kinds that are applied in a
// marked cluster appear at the site, and get its status.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { syncedKindNames } from '../../src/api/kinds/synced-kinds.ts';
import { type Daemon, hansa, repository, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { Kubectl } from './kubectl.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl');

const objects = join(repository, 'examples/gitops/objects.yaml');
const federation = 'spiffefederation/visby.example';
const token = 'jointoken/visby-ci';
const account = 'system:serviceaccount:kube-fed:hansa';

interface Found {
  readonly metadata: { readonly uid: string; readonly generation: number };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly syncedTo?: string;
    readonly bundle?: string;
    readonly sync?: object;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
      readonly message: string;
    }[];
  };
}

suite('GitOps, with a real kube-apiserver', { skip }, () => {
  const folder = temporaryFolder();
  let kube: KubeApiserver;
  let kubectl: Kubectl;
  let site: Daemon;
  before(async () => {
    kube = await startKubeApiserver();
    kubectl = await Kubectl.with(kube.kubeconfig);
    site = await startDaemon(join(folder, 'site'));
    await run('cluster', 'add', 'app1', '--kubeconfig', kube.kubeconfig, '--yes');
    await run('apply', '-f', 'examples/gitops/role.yaml');
  });
  after(async () => {
    await site.signal('SIGTERM');
    await kubectl.close();
    await kube.stop();
  });

  const tryRun = (...args: readonly string[]) => hansa([...args, '--data-dir', site.dataDir]);
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await tryRun(...args);
    assert.equal(code, 0, `hansa ${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  const sync = (...args: readonly string[]) =>
    run('cluster', 'sync', 'app1', '--kubeconfig', kube.kubeconfig, ...args, '--yes');
  const apply = (object: object) =>
    kubectl.ok(['apply', '-f', '-'], { input: JSON.stringify(object) });
  const wait = (what: string, goal: string) =>
    kubectl.ok(['wait', what, `--for=${goal}`, '--timeout=60s']);
  const inCluster = async (what: string): Promise<Found> =>
    JSON.parse(await kubectl.ok(['get', what, '-o', 'json'])) as Found;
  /** Undefined where the site does not have it. */
  const atSite = async (what: string): Promise<Found | undefined> => {
    const { code, stdout } = await tryRun('get', what, '-o', 'json');
    return code === 0 ? (JSON.parse(stdout) as Found) : undefined;
  };
  const conditionOf = ({ status }: Found, wanted: string) =>
    status?.conditions?.find(({ type }) => type === wanted);
  const hansaKind = (kind: string, name: string, spec: object) => ({
    apiVersion: 'hansa.dev/v1alpha1',
    kind,
    metadata: { name },
    spec,
  });

  test('a cluster that is not marked applies a SPIFFEFederation, and nothing happens', async () => {
    const manifests = await run(
      'cluster',
      'sync',
      'app1',
      '--kubeconfig',
      kube.kubeconfig,
      '--dry-run',
      '--kind',
      ...syncedKindNames,
      '--role',
      'gitops',
    );
    await kubectl.ok(['apply', '--server-side', '-f', '-'], { input: manifests });
    await wait('crd/spiffefederations.hansa.dev', 'condition=Established');
    await kubectl.ok(['apply', '-f', objects]);
    assert.equal(await atSite(federation), undefined);
    // kubectl owns the fields now. With a mark for another kind, the site works on this cluster, and still leaves the federation alone.
    await sync('--kind', 'JoinToken', '--role', 'gitops', '--force-conflicts');
    await wait(token, 'condition=Accepted');
    assert.equal(await atSite(federation), undefined);
    assert.equal((await inCluster(federation)).status, undefined);
  });

  test('objects of a marked cluster appear at the site, and get its status', async () => {
    await sync('--kind', 'SPIFFEFederation', 'JoinToken', '--role', 'gitops');
    await wait(federation, 'condition=Accepted');
    await wait(federation, 'condition=Ready');
    await wait(token, 'condition=Ready');
    const found = await inCluster(federation);
    assert.equal(found.status?.syncedTo, 'lubeck.example/app1');
    assert.match(found.status.bundle ?? '', /x509-svid/);
    assert.deepEqual((await atSite(token))?.spec, (await inCluster(token)).spec);
    const listed = await run(
      'get',
      'jointokens',
      '-l',
      'clusters.hansa.dev/origin=app1',
      '-o',
      'name',
    );
    assert.equal(listed.trim(), 'jointoken.hansa.dev/visby-ci');
    const table = await kubectl.ok(['get', 'hansa']);
    assert.match(table, /NAME +ACCEPTED.*\n.*visby\.example +True/);
    const events = await run('audit', 'list', '--user', 'cluster:app1');
    assert.match(events, /spiffe\.federation\.create/);
    await until(async () => {
      const cluster = await atSite('cluster/app1');
      return JSON.stringify(cluster?.status?.sync).includes('"accepted":2');
    }, 'the Cluster counts its objects');
    assert.match(await run('status'), /synced clusters +1, 2 objects/);
  });

  test('a change in the cluster follows, and kubectl can wait for it', async () => {
    const patch = ['--type=merge', '-p', '{"spec":{"staleAfterSeconds":120}}'];
    await kubectl.ok(['patch', federation, ...patch]);
    await wait(federation, 'condition=Accepted');
    assert.equal((await atSite(federation))?.spec['staleAfterSeconds'], 120);
    await wait(federation, 'condition=Ready');
  });

  test('what an operator of the site adds stays, and what contradicts the cluster does not', async () => {
    const edited = hansaKind('SPIFFEFederation', 'visby.example', {
      quarantined: true,
      staleAfterSeconds: 999,
    });
    const { code, stderr } = await hansa(
      ['apply', '-f', '-', '--force-conflicts', '--data-dir', site.dataDir],
      { stdin: JSON.stringify(edited) },
    );
    assert.equal(code, 0, stderr);
    await until(async () => {
      const spec = (await atSite(federation))?.spec ?? {};
      return spec['staleAfterSeconds'] === 120 && spec['quarantined'] === true;
    }, 'the cluster decides about its own fields');
  });

  test('the CRD refuses what its schema forbids, and the site what only it can see', async () => {
    const broken = hansaKind('JoinToken', 'broken', { method: 'spiffe', roles: ['bot'] });
    const { stderr } = await kubectl.run(['apply', '-f', '-'], { input: JSON.stringify(broken) });
    assert.match(stderr, /spiffe must be set for the method spiffe/);
    const bundle = 'this is no bundle';
    const spec = { bundleSource: { static: { bundle } } };
    await apply(hansaKind('SPIFFEFederation', 'broken.example', spec));
    await wait('spiffefederation/broken.example', 'condition=Accepted=False');
    const refused = await inCluster('spiffefederation/broken.example');
    assert.equal(conditionOf(refused, 'Accepted')?.reason, 'Invalid');
    assert.equal(await atSite('spiffefederation/broken.example'), undefined);
    await kubectl.ok(['delete', 'spiffefederation', 'broken.example']);
  });

  test('a role that does not allow a kind refuses its objects', async () => {
    await sync('--kind', ...syncedKindNames);
    const entry = { spiffeID: 'spiffe://lubeck.example/web', selectors: ['unix:uid:1000'] };
    await apply(hansaKind('WorkloadEntry', 'web', entry));
    await wait('workloadentry/web', 'condition=Accepted=False');
    const { reason, message } = conditionOf(await inCluster('workloadentry/web'), 'Accepted') ?? {};
    assert.equal(reason, 'Forbidden');
    assert.match(message ?? '', /User "cluster:app1" cannot create resource "workloadentries"/);
    assert.equal(await atSite('workloadentry/web'), undefined);
  });

  test('with the rights for it, the site takes over workload entries, offers and grants too', async () => {
    const kinds = ['WorkloadEntry', 'ServiceOffer', 'FederationGrant'];
    const rules = [{ kinds, verbs: ['create', 'patch', 'delete'] }];
    const role = hansaKind('Role', 'gitops-more', { rules });
    const subjects = [{ kind: 'User', name: 'cluster:app1' }];
    const binding = hansaKind('RoleBinding', 'gitops-more', { role: 'gitops-more', subjects });
    for (const object of [role, binding]) {
      const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', site.dataDir], {
        stdin: JSON.stringify(object),
      });
      assert.equal(code, 0, stderr);
    }
    const spiffeID = 'spiffe://lubeck.example/db';
    await apply(hansaKind('ServiceOffer', 'db', { spiffeID, protocol: 'tcp', port: 5432 }));
    await apply(
      hansaKind('FederationGrant', 'visby-db', {
        peer: 'visby.example',
        offers: ['db'],
        nodeInstances: { ids: ['spiffe://visby.example/web'] },
      }),
    );
    // The entry was refused before.
    const names = ['workloadentry/web', 'serviceoffer/db', 'federationgrant/visby-db'];
    for (const what of names) {
      await wait(what, 'condition=Accepted');
      assert.ok(await atSite(what), what);
      await kubectl.ok(['delete', what]);
      await run('wait', what, '--for=delete');
    }
    await run('delete', 'rolebinding', 'gitops-more', '--yes');
  });

  test('Roles and RoleBindings of the cluster cannot grant more than it has', async () => {
    const kinds = ['SPIFFEFederation', 'JoinToken', 'Role', 'RoleBinding'];
    const rules = [{ kinds, verbs: ['create', 'patch', 'delete'] }];
    const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', site.dataDir], {
      stdin: JSON.stringify(hansaKind('Role', 'gitops', { rules })),
    });
    assert.equal(code, 0, stderr);
    const subjects = [{ kind: 'User', name: 'cluster:app1' }];
    const more = { rules: [{ kinds: ['WorkloadEntry'], verbs: ['create'] }] };
    const same = { rules: [{ kinds: ['JoinToken'], verbs: ['create'] }] };
    await apply(hansaKind('Role', 'more', more));
    await apply(hansaKind('RoleBinding', 'more', { role: 'admin', subjects }));
    await apply(hansaKind('Role', 'same', same));
    await apply(hansaKind('RoleBinding', 'same', { role: 'same', subjects }));
    // `kubectl get role` would be the Role of Kubernetes.
    await wait('roles.hansa.dev/same', 'condition=Accepted');
    await wait('rolebindings.hansa.dev/same', 'condition=Accepted');
    for (const what of ['roles.hansa.dev/more', 'rolebindings.hansa.dev/more']) {
      await wait(what, 'condition=Accepted=False');
      assert.equal(conditionOf(await inCluster(what), 'Accepted')?.reason, 'Forbidden', what);
    }
    assert.equal(await atSite('role/more'), undefined);
    assert.equal(await atSite('rolebinding/more'), undefined);
    await apply(hansaKind('Role', 'same', more));
    await wait('roles.hansa.dev/same', 'condition=Accepted=False');
    assert.deepEqual((await atSite('role/same'))?.spec, same);
    const own = await kubectl.ok(['get', 'roles.hansa.dev', 'same', '-o', 'json']);
    assert.ok(own.includes('WorkloadEntry'), 'the object of the user stays as it is');
    await kubectl.ok(['delete', 'roles.hansa.dev,rolebindings.hansa.dev', '--all']);
    await run('wait', 'role/same', '--for=delete');
    await run('wait', 'rolebinding/same', '--for=delete');
    assert.ok(await atSite('role/gitops'), 'what the cluster did not create stays');
  });

  test('the site has the rights that it needs in the cluster, and no others', async () => {
    const canI = async (words: string): Promise<string> => {
      const args = ['auth', 'can-i', ...words.split(' '), `--as=${account}`];
      return (await kubectl.run(args)).stdout.trim().split(' ')[0] ?? '';
    };
    const needed = [
      'watch jointokens.hansa.dev',
      'update jointokens.hansa.dev --subresource=status',
      'get customresourcedefinitions.apiextensions.k8s.io/jointokens.hansa.dev',
    ];
    const never = [
      'create jointokens.hansa.dev',
      'update jointokens.hansa.dev',
      'patch jointokens.hansa.dev',
      'delete jointokens.hansa.dev',
      'list customresourcedefinitions.apiextensions.k8s.io',
      'update customresourcedefinitions.apiextensions.k8s.io/jointokens.hansa.dev',
      'list secrets -A',
      'get clusters.hansa.dev',
    ];
    for (const words of needed) assert.equal(await canI(words), 'yes', words);
    for (const words of never) assert.equal(await canI(words), 'no', words);
  });

  test('a deletion follows, also one while the site is down', async () => {
    await kubectl.ok(['delete', token]);
    await run('wait', token, '--for=delete');
    await site.signal('SIGTERM');
    await kubectl.ok(['delete', federation]);
    site = await startDaemon(site.dataDir);
    await run('wait', federation, '--for=delete');
  });

  test('a deleted CRD deletes nothing at the site, also after it is installed again', async () => {
    await kubectl.ok(['apply', '-f', objects]);
    await wait(federation, 'condition=Accepted');
    await wait(token, 'condition=Accepted');
    await kubectl.ok(['delete', 'crd', 'spiffefederations.hansa.dev']);
    await until(async () => {
      const cluster = await atSite('cluster/app1');
      return (
        cluster !== undefined && conditionOf(cluster, 'ResourcesSynced')?.reason === 'NotInstalled'
      );
    }, 'the Cluster says that the CRD is missing');
    assert.ok(await atSite(federation));
    await sync();
    // The token shows that the site works on the cluster again.
    await kubectl.ok(['delete', token]);
    await run('wait', token, '--for=delete');
    await until(async () => {
      const cluster = await atSite('cluster/app1');
      return JSON.stringify(cluster?.status?.sync).includes('"kept":1');
    }, 'the site keeps the federation');
    assert.ok(await atSite(federation));
    await kubectl.ok(['apply', '-f', objects]);
    await wait(federation, 'condition=Accepted');
  });

  test('unsync keeps the objects at the site, and later changes in the cluster have no effect', async () => {
    await run('cluster', 'unsync', 'app1', '--yes');
    await until(async () => {
      const cluster = await atSite('cluster/app1');
      return cluster !== undefined && conditionOf(cluster, 'ResourcesSynced') === undefined;
    }, 'the status of the Cluster is clean');
    await kubectl.ok(['delete', federation]);
    assert.equal(await atSite('rolebinding/cluster-sync-app1'), undefined);
    assert.ok(await atSite(federation));
  });
});

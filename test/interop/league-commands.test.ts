// Runs `hansa cluster join`, `leave` and `manifests`, and `hansa service`, as an operator does: a real site, and
// two real API servers as clusters.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import {
  type Daemon,
  execute,
  hansa,
  repository,
  startDaemon,
  temporaryFolder,
} from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { inventory } from './cluster-inventory.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type KubeCluster, startKubeCluster } from './kube-cluster.ts';
import { missingTools, requireTool } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl');

interface List {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly namespace?: string };
  }[];
}

suite('hansa cluster join and leave, with real API servers', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let app1: KubeCluster;
  let app2: KubeCluster;
  let site: Daemon;
  before(async () => {
    etcd = await startEtcd();
    [app1, app2] = await Promise.all([
      startKubeCluster('app1', { etcd }),
      startKubeCluster('app2', { etcd }),
    ]);
    site = await startDaemon(join(folder, 'site'), ['--kubernetes-lease-seconds=5']);
    for (const cluster of [app1, app2]) {
      await cluster.create('/api/v1/namespaces', {
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: 'shop' },
      });
    }
    // Of a user: they must be as before in the end.
    await app2.create('/api/v1/namespaces/shop/services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'legacy', annotations: { 'svc.federated.hansa.dev': 'old' } },
      spec: { ports: [{ port: 8080 }] },
    });
    await app2.create('/api/v1/namespaces/shop/configmaps', {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'settings' },
      data: { key: 'value' },
    });
  });
  after(async () => {
    await site?.signal('SIGTERM');
    await app1?.stop();
    await app2?.stop();
    await etcd?.stop();
  });

  const run = (...args: readonly string[]) => hansa([...args, '--data-dir', site.dataDir]);
  const succeed = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await run(...args);
    assert.equal(code, 0, `hansa ${args.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  const kubectl = async (cluster: KubeCluster, args: readonly string[], stdin = '') =>
    execute(await requireTool('kubectl'), ['--kubeconfig', cluster.kubeconfig, ...args], { stdin });
  const home = () => ['--home-kubeconfig', app1.kubeconfig];
  const joinApp2 = (...args: readonly string[]) =>
    run('cluster', 'join', 'app2', '--kubeconfig', app2.kubeconfig, ...home(), '--yes', ...args);
  const names = async (cluster: KubeCluster, path: string): Promise<readonly string[]> =>
    (await cluster.get<List>(path)).items.map(({ metadata }) => metadata.name);
  /** A namespace that ends takes its own objects with it. */
  const installed = (cluster: KubeCluster) => inventory(cluster, 'hansa-system');
  const untilUntouched = async (): Promise<void> => {
    let last: readonly string[] = [];
    const missing = (from: readonly string[], of: readonly string[]): string =>
      from.filter((line) => !of.includes(line)).join('\n');
    // The controllers of Kubernetes delete a CRD and the slices of a deleted Service a moment later.
    await until(
      async () => {
        last = await installed(app2);
        return last.join('\n') === untouched.join('\n');
      },
      () => `app2 has\n${missing(last, untouched)}\nand lacks\n${missing(untouched, last)}`,
    );
  };
  let untouched: readonly string[] = [];

  test('join without a supervisor says what to do first', async () => {
    untouched = await installed(app2);
    const { code, stderr } = await run(
      'cluster',
      'join',
      'app2',
      '--kubeconfig',
      app2.kubeconfig,
      '--yes',
    );
    assert.equal(code, 3, stderr);
    assert.match(stderr, /no supervisor cluster yet/);
    assert.deepEqual(await installed(app2), untouched);
  });

  test('join makes the first cluster the supervisor', async () => {
    const prefix = ['--endpoint-prefix', '10.1.0.0/16', '--routable'];
    const args = [
      'cluster',
      'join',
      'app1',
      '--kubeconfig',
      app1.kubeconfig,
      '--supervisor',
      ...prefix,
    ];
    const { code, stdout, stderr } = await run(...args, '--yes');
    assert.equal(code, 0, stdout + stderr);
    assert.match(stderr, /CustomResourceDefinition federations\.clusters\.hansa\.dev/);
    assert.match(stdout, /^app1 joined the cluster set default$/m);
    assert.doesNotMatch(stdout + stderr, /eyJ/);
  });

  test('join adds a second cluster, which becomes ready', async () => {
    const { code, stdout, stderr } = await joinApp2(
      '--endpoint-prefix',
      '10.2.0.0/16',
      '--routable',
    );
    assert.equal(code, 0, stdout + stderr);
    const status = await succeed('status');
    assert.match(status, /members +2, 2 ready, in cluster set default/);
  });

  test('join can be repeated, and repairs what was deleted', async () => {
    const claims = '/apis/clusters.hansa.dev/v1alpha1/clusterclaims';
    const bindings = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings';
    const ours = (await names(app2, bindings)).find((name) =>
      name.startsWith('hansa-league-member-'),
    );
    const deleted = await kubectl(app2, ['delete', 'clusterrolebinding', ours ?? '']);
    assert.equal(deleted.code, 0, deleted.stderr);
    const { code, stdout, stderr } = await joinApp2('-o', 'json');
    assert.equal(code, 0, stdout + stderr);
    assert.equal((JSON.parse(stdout) as { created: boolean }).created, false);
    assert.ok((await names(app2, bindings)).includes(ours ?? ''));
    assert.deepEqual((await names(app2, claims)).toSorted(), [
      'clusterset.k8s.io',
      'id.k8s.io',
      'namespace.clusters.hansa.dev',
    ]);
    const federation = await app1.get<{ readonly spec: { readonly members: readonly object[] } }>(
      '/apis/clusters.hansa.dev/v1alpha1/federations/federation',
    );
    assert.deepEqual(federation.spec.members, [
      { clusterID: 'app1', endpointPrefixes: ['10.1.0.0/16'], routable: true },
      { clusterID: 'app2', endpointPrefixes: ['10.2.0.0/16'], routable: true },
    ]);
  });

  test('the site may do what it needs in a member, and read no Secret', async () => {
    const can = async (...args: readonly string[]): Promise<string> =>
      (
        await kubectl(app2, [
          'auth',
          'can-i',
          ...args,
          '--as',
          'system:serviceaccount:hansa-system:hansa',
        ])
      ).stdout.trim();
    assert.equal(await can('list', 'services', '-A'), 'yes');
    assert.equal(await can('get', 'secrets', '-n', 'hansa-system'), 'no');
    assert.equal(await can('delete', 'namespaces'), 'no');
    assert.equal(await can('update', 'federations.clusters.hansa.dev'), 'no');
  });

  test('an annotated Service is in both clusters, and hansa service shows it', async () => {
    await app1.create('/api/v1/namespaces/shop/services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'backend', annotations: { 'svc.federated.hansa.dev': 'web' } },
      spec: { ports: [{ name: 'http', port: 80, targetPort: 8080 }] },
    });
    await app1.create('/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices', {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: { name: 'backend-1', labels: { 'kubernetes.io/service-name': 'backend' } },
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080 }],
      endpoints: [{ addresses: ['10.1.0.5'] }],
    });
    await until(async () => {
      const { stdout } = await run('service', 'list');
      return /^shop\/web +app1 +80\/TCP +1 +Healthy$/m.test(stdout);
    }, 'hansa service list has the Service');
    const shown = await succeed('service', 'show', 'shop/web');
    assert.match(shown, /^app1 +shop\/backend +ClusterIP +1 +Federated/m);
    assert.match(shown, /^app2 +Ready +\S+\.example +\d+ +1 +app1 +current$/m);
    assert.match(await succeed('service', 'list', '-o', 'name'), /^shop\/web$/m);
    const { code } = await run('service', 'show', 'shop/nothing');
    assert.equal(code, 4);
  });

  test('join refuses an ID that another cluster has', async () => {
    const { code, stderr } = await joinApp2('--id', 'app1');
    assert.equal(code, 5, stderr);
    assert.match(stderr, /has the ID app2 .*Leave --id out/);
  });

  test('join without rights says which one is missing, and changes nothing', async () => {
    await app2.create('/api/v1/namespaces/shop/serviceaccounts', {
      apiVersion: 'v1',
      kind: 'ServiceAccount',
      metadata: { name: 'weak' },
    });
    const { stdout: token } = await kubectl(app2, ['create', 'token', 'weak', '-n', 'shop']);
    const kubeconfig = join(folder, 'weak.kubeconfig');
    const cluster = {
      server: app2.url,
      'certificate-authority-data': Buffer.from(app2.ca).toString('base64'),
    };
    const config = {
      kind: 'Config',
      clusters: [{ name: 'c', cluster }],
      users: [{ name: 'u', user: { token: token.trim() } }],
      contexts: [{ name: 'it', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'it',
    };
    writeFileSync(kubeconfig, JSON.stringify(config));
    const { code, stderr } = await run(
      'cluster',
      'join',
      'app2',
      '--kubeconfig',
      kubeconfig,
      ...home(),
      '--yes',
    );
    assert.equal(code, 7, stderr);
    assert.match(stderr, /system:serviceaccount:shop:weak.* cannot list resource "clusterclaims"/);
    await kubectl(app2, ['delete', 'serviceaccount', 'weak', '-n', 'shop']);
  });

  test('leave of the supervisor waits for the others', async () => {
    const { code, stderr } = await run(
      'cluster',
      'leave',
      'app1',
      '--kubeconfig',
      app1.kubeconfig,
      '--yes',
    );
    assert.equal(code, 5, stderr);
    assert.match(stderr, /leads app2 from it/);
  });

  test('leave refuses while a user has a NativeService', async () => {
    const native = {
      apiVersion: 'clusters.hansa.dev/v1alpha1',
      kind: 'NativeService',
      metadata: { name: 'db', namespace: 'shop' },
      spec: { networkInterfaces: [{ internalIP: '10.2.0.9' }], ports: [{ port: 5432 }] },
    };
    const created = await kubectl(app2, ['apply', '-f', '-'], JSON.stringify(native));
    assert.equal(created.code, 0, created.stderr);
    const { code, stderr } = await run(
      'cluster',
      'leave',
      'app2',
      '--kubeconfig',
      app2.kubeconfig,
      ...home(),
      '--yes',
    );
    assert.equal(code, 5, stderr);
    assert.match(stderr, /NativeService shop\/db.*--delete-objects/);
    await kubectl(app2, ['delete', 'nativeservice', 'db', '-n', 'shop']);
  });

  test('leave deletes all of ours and nothing else', async () => {
    await succeed('cluster', 'leave', 'app2', '--kubeconfig', app2.kubeconfig, ...home(), '--yes');
    await until(
      async () => !(await names(app2, '/api/v1/namespaces')).includes('hansa-system'),
      'the namespace of Hansa is gone',
    );
    await untilUntouched();
    assert.deepEqual((await succeed('cluster', 'list', '-o', 'name')).trim(), 'app1');
    const status = await succeed('status');
    assert.match(status, /members +1, 1 ready/);
    assert.ok((await names(app1, '/api/v1/namespaces/shop/services')).includes('backend'));
  });

  test('the API server accepts the manifests in examples/league', async () => {
    // With the CRDs of app1. Nothing is stored: app1 has an ID already.
    for (const file of ['supervisor', 'member', 'services', 'machines']) {
      const path = join(repository, 'examples', 'league', `${file}.yaml`);
      const documents = parseAllDocuments(readFileSync(path, 'utf8')).map(
        (each) => each.toJS() as object,
      );
      for (const document of documents) {
        const args = ['create', '--dry-run=server', '-f', '-'];
        const { code, stderr } = await kubectl(app1, args, JSON.stringify(document));
        assert.ok(code === 0 || /AlreadyExists/.test(stderr), `${file}: ${stderr}`);
      }
    }
  });

  /** By the manifests of the site, a Secret with a token, and an entry in Federation of app1. */
  const addByKubectl = async (): Promise<void> => {
    const text = await succeed('cluster', 'manifests', 'app2', '--cluster-set', 'default');
    assert.ok(parseAllDocuments(text).length > 10);
    const args = ['apply', '--server-side', '-f', '-'];
    await kubectl(app2, args, text);
    let last = '';
    await until(
      async () => {
        const { code, stderr } = await kubectl(app2, args, text);
        last = stderr;
        return code === 0;
      },
      () => `kubectl applies the manifests: ${last}`,
    );
    const token = await kubectl(app2, ['create', 'token', 'hansa', '-n', 'hansa-system']);
    const secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'app2', namespace: 'hansa-system' },
      stringData: { token: token.stdout.trim(), 'ca.crt': app2.ca },
    };
    const supervisor = await succeed(
      'cluster',
      'manifests',
      'app1',
      '--supervisor',
      '--secret',
      'app2',
    );
    const role = parseAllDocuments(supervisor)
      .map((document) => document.toJS() as { kind: string; metadata: { name: string } })
      .filter(({ metadata }) => metadata.name.startsWith('hansa-league-secrets-'));
    assert.equal(role.length, 2);
    const text1 = [secret, ...role].map((each) => JSON.stringify(each)).join('\n---\n');
    const applied = await kubectl(app1, ['apply', '-f', '-'], text1);
    assert.equal(applied.code, 0, applied.stderr);
    const entry = {
      clusterID: 'app2',
      server: app2.url,
      secret: 'app2',
      endpointPrefixes: ['10.2.0.0/16'],
    };
    await patchMembers([{ op: 'add', path: '/spec/members/-', value: entry }]);
    await until(
      async () => /members +2, 2 ready/.test((await run('status')).stdout),
      'app2 is ready',
    );
  };
  const patchMembers = async (patch: readonly object[]): Promise<void> => {
    const args = ['patch', 'federation', 'federation', '--type', 'json', '-p'];
    const { code, stderr } = await kubectl(app1, [...args, JSON.stringify(patch)]);
    assert.equal(code, 0, stderr);
  };
  const servicesOf = (cluster: KubeCluster) => names(cluster, '/api/v1/namespaces/shop/services');

  test('the printed manifests make a cluster a member with kubectl alone', async () => {
    await addByKubectl();
    await app2.create('/api/v1/namespaces/shop/services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'store', annotations: { 'svc.federated.hansa.dev': 'db' } },
      spec: { externalIPs: ['10.2.0.9'], ports: [{ port: 5432 }] },
    });
    await until(async () => (await servicesOf(app1)).includes('db'), 'app1 has db');
    await until(async () => (await servicesOf(app2)).includes('web'), 'app2 has web');
  });

  test('kubectl alone takes a cluster out, and nothing of the site is left in it', async () => {
    const federation = '/apis/clusters.hansa.dev/v1alpha1/federations/federation';
    const removed = await kubectl(app2, ['delete', 'federation', 'federation']);
    assert.equal(removed.code, 0, removed.stderr);
    await patchMembers([
      { op: 'test', path: '/spec/members/1/clusterID', value: 'app2' },
      { op: 'remove', path: '/spec/members/1' },
    ]);
    type Federation = { readonly status: { readonly leaving?: readonly object[] } };
    let last = '';
    await until(
      async () => {
        const { leaving = [] } = (await app1.get<Federation>(federation)).status;
        last = JSON.stringify(leaving);
        return leaving.length === 0 && !(await servicesOf(app2)).includes('web');
      },
      () => `the copies are gone: ${last}`,
    );
    assert.deepEqual(await servicesOf(app2), ['legacy', 'store']);
    assert.deepEqual(await servicesOf(app1), ['backend', 'web']);
    const { status } = await app2.get<{ readonly status: { readonly conditions?: unknown } }>(
      '/api/v1/namespaces/shop/services/store',
    );
    assert.equal(status.conditions, undefined);
    await kubectl(app2, ['delete', 'service', 'store', '-n', 'shop']);
    const text = await succeed('cluster', 'manifests', 'app2', '--cluster-set', 'default');
    const deleted = await kubectl(app2, ['delete', '--ignore-not-found', '-f', '-'], text);
    assert.equal(deleted.code, 0, deleted.stderr);
    await untilUntouched();
  });

  test('a cluster whose credential is gone is shown, with the command for its copies', async () => {
    await addByKubectl();
    await until(async () => (await servicesOf(app2)).includes('web'), 'app2 has web');
    await kubectl(app1, ['delete', 'secret', 'app2', '-n', 'hansa-system']);
    await kubectl(app2, ['delete', 'serviceaccount', 'hansa', '-n', 'hansa-system']);
    await patchMembers([{ op: 'remove', path: '/spec/members/1' }]);
    let last = '';
    let command: RegExpExecArray | null = null;
    await until(
      async () => {
        last = (await run('status')).stdout;
        command = /kubectl (delete services,endpointslices -A -l '[^']+')/.exec(last);
        return command !== null;
      },
      () => `status has the command: ${last}`,
    );
    assert.match((await run('doctor')).stdout, /app2 left and may have copies/);
    // As an administrator types it.
    const script = `'${await requireTool('kubectl')}' --kubeconfig '${app2.kubeconfig}' ${command?.[1]}`;
    const ran = await execute('/bin/sh', ['-c', script]);
    assert.equal(ran.code, 0, ran.stderr);
    assert.deepEqual(await servicesOf(app2), ['legacy']);
  });

  test('leave also takes out a member that kubectl added', async () => {
    await succeed('cluster', 'leave', 'app2', '--kubeconfig', app2.kubeconfig, ...home(), '--yes');
    await untilUntouched();
  });
});

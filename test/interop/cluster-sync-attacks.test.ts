// Attacks by clusters that a site syncs, on real API servers: clusters that want more than their role allows, and
// clusters that lose their history or are replaced. None of them gets anything, and the site loses nothing.

import assert from 'node:assert/strict';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { syncedKindNames } from '../../src/api/kinds/synced-kinds.ts';
import { type Daemon, hansa, startDaemon, temporaryFolder } from '../e2e/daemon.ts';
import { until } from '../e2e/until.ts';
import { type Etcd, startEtcd } from './etcd.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { Kubectl } from './kubectl.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('etcd', 'kube-apiserver', 'kubectl');

interface Found {
  readonly metadata: { readonly uid: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly sync?: { readonly accepted: number; readonly kept: number };
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
      readonly message: string;
    }[];
  };
}

const hansaKind = (kind: string, name: string, spec: object, metadata: object = {}) => ({
  apiVersion: 'hansa.dev/v1alpha1',
  kind,
  metadata: { name, ...metadata },
  spec,
});
const tokenSpec = (more: object = {}) => ({
  method: 'spiffe',
  roles: ['bot'],
  botName: 'visby-ci',
  spiffe: { allow: [{ spiffeID: 'spiffe://visby.example/ci/*' }] },
  ...more,
});
const token = (name: string, more: object = {}) => hansaKind('JoinToken', name, tokenSpec(more));

class Marked {
  readonly name: string;
  readonly kube: KubeApiserver;
  readonly kubectl: Kubectl;

  constructor(name: string, kube: KubeApiserver, kubectl: Kubectl) {
    this.name = name;
    this.kube = kube;
    this.kubectl = kubectl;
  }

  /** Without the annotation of `kubectl apply`, which has a limit of its own. */
  async create(object: object): Promise<void> {
    await this.kubectl.ok(['create', '-f', '-'], { input: JSON.stringify(object) });
  }

  async remove(what: string): Promise<void> {
    await this.kubectl.ok(['delete', what]);
  }

  /** As `False Forbidden`, once the site has decided. */
  async verdict(what: string): Promise<string> {
    let found = '';
    await until(async () => {
      const { status } = JSON.parse(await this.kubectl.ok(['get', what, '-o', 'json'])) as Found;
      const accepted = status?.conditions?.find(({ type }) => type === 'Accepted');
      found = `${accepted?.status} ${accepted?.reason}`;
      return accepted !== undefined && accepted.status !== 'Unknown';
    }, `${this.name} has a verdict about ${what}`);
    return found;
  }
}

suite('attacks by clusters that a site syncs', { skip }, () => {
  const folder = temporaryFolder();
  let etcd: Etcd;
  let site: Daemon;
  let app1: Marked;
  let app2: Marked;
  before(async () => {
    etcd = await startEtcd();
    const [one, two] = await Promise.all([startKubeApiserver([], { etcd }), startKubeApiserver()]);
    app1 = new Marked('app1', one, await Kubectl.with(one.kubeconfig));
    app2 = new Marked('app2', two, await Kubectl.with(two.kubeconfig));
    site = await startDaemon(join(folder, 'site'));
    await run('apply', '-f', 'examples/gitops/role.yaml');
    for (const { name, kube } of [app1, app2]) {
      await run('cluster', 'add', name, '--kubeconfig', kube.kubeconfig, '--yes');
      await sync(name, kube, '--kind', ...syncedKindNames, '--role', 'gitops');
    }
  });
  after(async () => {
    await site?.signal('SIGTERM');
    for (const each of [app1, app2]) {
      await each?.kubectl.close();
      await each?.kube.stop();
    }
    await etcd?.stop();
  });

  const tryRun = (...args: readonly string[]) => hansa([...args, '--data-dir', site.dataDir]);
  const run = async (...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await tryRun(...args);
    assert.equal(code, 0, `hansa ${args.join(' ')}: ${stderr}`);
    return stdout;
  };
  const syncWords = (name: string, { kubeconfig }: KubeApiserver, args: readonly string[]) =>
    ['cluster', 'sync', name, '--kubeconfig', kubeconfig, ...args, '--yes'] as const;
  const sync = (name: string, kube: KubeApiserver, ...args: readonly string[]) =>
    run(...syncWords(name, kube, args));
  const trySync = (name: string, kube: KubeApiserver, ...args: readonly string[]) =>
    tryRun(...syncWords(name, kube, args));
  /** Undefined where the site does not have it. */
  const atSite = async (what: string): Promise<Found | undefined> => {
    const { code, stdout } = await tryRun('get', what, '-o', 'json');
    return code === 0 ? (JSON.parse(stdout) as Found) : undefined;
  };
  const originOf = async (what: string): Promise<string | undefined> =>
    (await atSite(what))?.metadata.labels?.['clusters.hansa.dev/origin'];
  const syncedReason = async (cluster: string): Promise<string | undefined> =>
    (await atSite(`cluster/${cluster}`))?.status?.conditions?.find(
      ({ type }) => type === 'ResourcesSynced',
    )?.reason;

  test('what the role does not have is refused: grants, labels of agents, and federations of peers', async () => {
    const grant = { peer: 'bruges.example', offers: ['db'] };
    await app1.create(hansaKind('FederationGrant', 'all', grant));
    const agents = { roles: ['agent'], botName: undefined, labels: { zone: 'a' } };
    await app1.create(token('labelled', agents));
    const bundleSource = { static: { bundle: '{"keys":[]}' } };
    const labels = { 'hansa.dev/peer': 'bruges.example' };
    await app1.create(
      hansaKind('SPIFFEFederation', 'bruges.example', { bundleSource }, { labels }),
    );
    for (const what of [
      'federationgrant/all',
      'jointoken/labelled',
      'spiffefederation/bruges.example',
    ]) {
      assert.equal(await app1.verdict(what), 'False Forbidden', what);
      assert.equal(await atSite(what), undefined, what);
      await app1.remove(what);
    }
    const denied = await run('audit', 'list', '--user', 'cluster:app1');
    assert.match(denied, /deny/);
  });

  test('a cluster whose CRDs have no rules gets the validation of the site', async () => {
    const rules = [{ kinds: ['JoinToken', 'WorkloadEntry'], verbs: ['create', 'patch', 'delete'] }];
    await applyAtSite(hansaKind('Role', 'broad', { rules }));
    await sync('app2', app2.kube, '--role', 'broad');
    const bare = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };
    const versions = [
      {
        name: 'v1alpha1',
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: 'object', properties: { spec: bare, status: bare } } },
        subresources: { status: {} },
      },
    ];
    const patch = ['--type=merge', '-p', JSON.stringify({ spec: { versions } })];
    for (const plural of ['jointokens', 'workloadentries']) {
      await app2.kubectl.ok(['patch', 'crd', `${plural}.hansa.dev`, ...patch]);
    }
    const entry = (name: string, path: string) =>
      hansaKind('WorkloadEntry', name, {
        spiffeID: `spiffe://lubeck.example/${path}`,
        selectors: ['unix:uid:0'],
      });
    const attempts = [
      token('reserved', { agentName: 'site' }),
      token('own-agents', {
        spiffe: { allow: [{ spiffeID: 'spiffe://lubeck.example/hansa/**' }] },
      }),
      token('unknown-field', { admin: true }),
      hansaKind('JoinToken', 'no-token', { method: ['spiffe'], roles: {} }),
      entry('reserved', 'hansa/agent/site'),
      entry('foreign', '../visby.example/ci'),
    ];
    // The API server serves the new schema a moment later.
    await until(async () => {
      const input = JSON.stringify(attempts[0]);
      return (await app2.kubectl.run(['create', '-f', '-'], { input })).code === 0;
    }, 'the CRD has no rules');
    for (const [at, attempt] of attempts.entries()) {
      if (at > 0) await app2.create(attempt);
      const what = `${attempt.kind.toLowerCase()}/${attempt.metadata.name}`;
      assert.match(await app2.verdict(what), /^False (Invalid|Forbidden)$/, what);
      assert.equal(await atSite(what), undefined, what);
      await app2.remove(what);
    }
    // The role is not the reason.
    for (const allowed of [token('allowed'), entry('allowed', 'web')]) {
      await app2.create(allowed);
      const what = `${allowed.kind.toLowerCase()}/allowed`;
      assert.equal(await app2.verdict(what), 'True Accepted', what);
      await app2.remove(what);
      await run('wait', what, '--for=delete');
    }
    await sync('app2', app2.kube, '--role', 'gitops', '--force-conflicts');
  });

  test('a token for agents is refused, because the role of the cluster gives no entries', async () => {
    const agents = { method: 'spiffe', roles: ['agent'], spiffe: tokenSpec().spiffe };
    await app1.create(hansaKind('JoinToken', 'machines', agents));
    assert.equal(await app1.verdict('jointoken/machines'), 'False Forbidden');
    assert.equal(await atSite('jointoken/machines'), undefined);
    await app1.remove('jointoken/machines');
  });

  test('an object of half a mebibyte is refused, and smaller ones beside it are not', async () => {
    const labels = Object.fromEntries(
      Array.from({ length: 9000 }, (_, at) => [`l${at}`, 'x'.repeat(60)]),
    );
    await app1.create(hansaKind('JoinToken', 'huge', tokenSpec(), { labels }));
    await app1.create(token('small'));
    assert.equal(await app1.verdict('jointoken/huge'), 'False TooLarge');
    assert.equal(await app1.verdict('jointoken/small'), 'True Accepted');
    assert.equal(await atSite('jointoken/huge'), undefined);
    await app1.remove('jointoken/huge');
  });

  test('an object with a name of 253 characters is one like others', async () => {
    const name = `${'n'.repeat(63)}.`.repeat(3) + 'n'.repeat(61);
    assert.equal(name.length, 253);
    await app1.create(token(name));
    assert.equal(await app1.verdict(`jointoken/${name}`), 'True Accepted');
    assert.equal(await originOf(`jointoken/${name}`), 'app1');
    await app1.remove(`jointoken/${name}`);
    await run('wait', `jointoken/${name}`, '--for=delete');
  });

  test('a flood of objects is reported, takes nothing away, and delays no other cluster', async () => {
    await app2.create(token('before'));
    assert.equal(await app2.verdict('jointoken/before'), 'True Accepted');
    await run('cluster', 'unsync', 'app2', '--yes');
    for (let at = 0; at < 1001; at += 50) {
      const items = Array.from({ length: Math.min(50, 1001 - at) }, (_, next) =>
        token(`flood-${at + next}`),
      );
      await app2.create({ apiVersion: 'v1', kind: 'List', items });
    }
    const { stderr } = await trySync('app2', app2.kube, '--kind', 'JoinToken', '--role', 'gitops');
    assert.match(stderr, /HANSA_/);
    await until(async () => (await syncedReason('app2')) === 'TooMany', 'the Cluster says so');
    await app1.create(token('beside'));
    assert.equal(await app1.verdict('jointoken/beside'), 'True Accepted');
    assert.equal(await originOf('jointoken/before'), 'app2');
    assert.equal(await atSite('jointoken/flood-0'), undefined);
    const path = '/apis/hansa.dev/v1alpha1/jointokens';
    assert.equal((await app2.kube.client.send({ method: 'DELETE', path })).status, 200);
    // The site looks again after minutes. With a new mark, it does so at once.
    await run('cluster', 'unsync', 'app2', '--yes');
    await sync('app2', app2.kube, '--kind', 'JoinToken', '--role', 'gitops');
    await run('wait', 'jointoken/before', '--for=delete');
  });

  test('of two clusters with one name the first has it, and the other can neither change nor delete it', async () => {
    await app1.create(token('shared', { singleUse: true }));
    assert.equal(await app1.verdict('jointoken/shared'), 'True Accepted');
    await app2.create(token('shared', { singleUse: false }));
    assert.equal(await app2.verdict('jointoken/shared'), 'False Conflict');
    await app2.remove('jointoken/shared');
    // Its verdict shows that the site has seen the deletion before it.
    await app2.create(token('later'));
    assert.equal(await app2.verdict('jointoken/later'), 'True Accepted');
    assert.equal(await originOf('jointoken/shared'), 'app1');
    assert.equal((await atSite('jointoken/shared'))?.spec['singleUse'], true);
  });

  test('a restore of etcd deletes nothing at the site, and a user can delete later', async () => {
    const backup = join(folder, 'backup');
    await app1.kube.restart(() => etcd.restart((data) => cp(data, backup, { recursive: true })));
    // An API server that starts writes too: the restored one must not pass this version before the site looks.
    await raiseVersions(app1.kube, 500);
    await app1.create(token('after-backup'));
    assert.equal(await app1.verdict('jointoken/after-backup'), 'True Accepted');
    await app1.kube.restart(() =>
      etcd.restart(async (data) => {
        await rm(data, { recursive: true });
        await cp(backup, data, { recursive: true });
      }),
    );
    await untilKept('app1', 1);
    assert.equal(await originOf('jointoken/after-backup'), 'app1');
    assert.equal(await originOf('jointoken/shared'), 'app1');
    // The versions of the cluster pass the one of the lost object.
    await raiseVersions(app1.kube, 600);
    for (let at = 0; at < 20; at++) await app1.create(token(`more-${at}`));
    assert.equal(await app1.verdict('jointoken/more-19'), 'True Accepted');
    assert.equal(await originOf('jointoken/after-backup'), 'app1');
    await app1.create(token('after-backup'));
    assert.equal(await app1.verdict('jointoken/after-backup'), 'True Accepted');
    await app1.remove('jointoken/after-backup');
    await run('wait', 'jointoken/after-backup', '--for=delete');
  });

  test('another cluster at the same address deletes nothing, and has no effect before it is marked again', async () => {
    await app1.kube.restart(() => etcd.restart((data) => rm(data, { recursive: true })));
    await until(async () => (await syncedReason('app1')) !== 'Following', 'the site is not let in');
    assert.equal(await originOf('jointoken/shared'), 'app1');
    const { kubeconfig } = app1.kube;
    await run('cluster', 'remove', 'app1', '--yes');
    await run('cluster', 'add', 'app1', '--kubeconfig', kubeconfig, '--yes');
    await sync('app1', app1.kube, '--kind', 'JoinToken', '--role', 'gitops');
    await app1.create(token('shared', { singleUse: false }));
    assert.equal(await app1.verdict('jointoken/shared'), 'True Accepted');
    await untilKept('app1', 22);
    assert.equal(await originOf('jointoken/small'), 'app1');
    // Only what the new cluster has, it can delete.
    await app1.remove('jointoken/shared');
    await run('wait', 'jointoken/shared', '--for=delete');
    assert.equal(await originOf('jointoken/small'), 'app1');
  });

  /** By changes of an object that the site does not follow. */
  const raiseVersions = async ({ client }: { client: KubeApiserver['client'] }, count: number) => {
    const path = '/api/v1/namespaces/default/configmaps';
    const write = async (method: string, to: string, value: number): Promise<void> => {
      const body = {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'versions' },
        data: { value: String(value) },
      };
      const { status } = await client.send({ method, path: to, body: JSON.stringify(body) });
      assert.ok(status < 300 || (method === 'POST' && status === 409), `${method}: ${status}`);
    };
    await write('POST', path, 0);
    for (let at = 0; at < count; at++) await write('PUT', `${path}/versions`, at);
  };
  const untilKept = (cluster: string, count: number): Promise<void> => {
    let kept: number | undefined;
    return until(
      async () => {
        kept = (await atSite(`cluster/${cluster}`))?.status?.sync?.kept;
        return kept === count;
      },
      () => `the site keeps ${count} objects of ${cluster}, not ${kept}`,
    );
  };
  const applyAtSite = async (object: object): Promise<void> => {
    const { code, stderr } = await hansa(['apply', '-f', '-', '--data-dir', site.dataDir], {
      stdin: JSON.stringify(object),
    });
    assert.equal(code, 0, stderr);
  };
});

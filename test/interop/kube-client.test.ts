// The Kubernetes client against a real kube-apiserver: every verb, conflicts, pages, watches, and each
// type of credential.

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { systemClock } from '../../src/core/clock/system.ts';
import { name } from '../../src/core/identity/x509/build-certificate.ts';
import { certificatePem } from '../../src/core/identity/x509/pem.ts';
import { credentialOf, forge, purposes } from '../../src/core/identity/x509/test-forge.ts';
import { HttpKubeClient } from '../../src/core/kube/http-kube-client.ts';
import type {
  KubeCredentialSource,
  KubeEndpoint,
  KubeObject,
} from '../../src/core/kube/kube-client.ts';
import { KubeStatusError } from '../../src/core/kube/kube-errors.ts';
import { kubePath } from '../../src/core/kube/kube-path.ts';
import { loadKubeconfig } from '../../src/core/kube/load-kubeconfig.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { missingTools } from './tool.ts';

const skip = await missingTools('kube-apiserver', 'etcd');

interface ConfigMap extends KubeObject {
  readonly metadata: KubeObject['metadata'] & { readonly resourceVersion: string };
  readonly data?: Readonly<Record<string, string>>;
}

const maps = '/api/v1/namespaces/default/configmaps';
const mapAt = (mapName: string): string =>
  kubePath`/api/v1/namespaces/default/configmaps/${mapName}`;
const configMap = (mapName: string, data: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: mapName },
  data,
});

describe('the Kubernetes client with kube-apiserver', { skip }, () => {
  let kube: KubeApiserver;
  let client: HttpKubeClient;
  let folder: string;
  const users = forge({ ca: true });
  const clients: HttpKubeClient[] = [];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'hansa-kube-client-'));
    const clientCa = join(folder, 'users.pem');
    await writeFile(clientCa, certificatePem(users.der));
    kube = await startKubeApiserver([], { flags: [`--client-ca-file=${clientCa}`] });
    client = clientWith({ current: () => ({ type: 'token', token: kube.token }) });
  });
  after(async () => {
    for (const each of clients) each.close();
    await kube.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const endpoint = (): KubeEndpoint => ({ server: new URL(kube.url), caBundle: kube.ca });
  const clientWith = (credentials: KubeCredentialSource): HttpKubeClient => {
    const made = new HttpKubeClient({ endpoint: endpoint(), credentials, clock: systemClock });
    clients.push(made);
    return made;
  };
  const statusOf = async (work: Promise<unknown>): Promise<KubeStatusError> => {
    try {
      await work;
    } catch (caught) {
      assert.ok(caught instanceof KubeStatusError, String(caught));
      return caught;
    }
    return assert.fail('it succeeded');
  };
  const userName = async (by: HttpKubeClient): Promise<unknown> => {
    const review = await by.create<KubeObject & { status?: { userInfo?: { username?: string } } }>(
      '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    );
    return review.status?.userInfo?.username;
  };

  it('creates, reads, patches, replaces and deletes an object', async () => {
    const created = await client.create<ConfigMap>(maps, configMap('verbs', { a: '1' }));
    assert.equal(created.metadata.name, 'verbs');
    assert.deepEqual((await client.get<ConfigMap>(mapAt('verbs'))).data, { a: '1' });
    const patched = await client.patch<ConfigMap>(mapAt('verbs'), { data: { a: null, b: '2' } });
    assert.deepEqual(patched.data, { b: '2' });
    const replaced = await client.replace<ConfigMap>(mapAt('verbs'), {
      ...patched,
      data: { c: '3' },
    });
    assert.deepEqual(replaced.data, { c: '3' });
    await client.delete(mapAt('verbs'));
    await client.delete(mapAt('verbs'));
    assert.equal((await statusOf(client.get(mapAt('verbs')))).reason, 'NotFound');
  });

  it('tells conflicts and refusals apart', async () => {
    const created = await client.create<ConfigMap>(maps, configMap('conflict'));
    const twice = await statusOf(client.create(maps, configMap('conflict')));
    assert.deepEqual([twice.status, twice.reason], [409, 'AlreadyExists']);
    await client.patch(mapAt('conflict'), { data: { a: '1' } });
    const stale = await statusOf(client.replace(mapAt('conflict'), created));
    assert.deepEqual([stale.status, stale.reason], [409, 'Conflict']);
    const invalid = await statusOf(client.create(maps, configMap('Not A Name')));
    assert.deepEqual([invalid.status, invalid.reason], [422, 'Invalid']);
    assert.match(invalid.message, /Not A Name/);
  });

  it('applies, meets the conflict of another manager, and takes over by force', async () => {
    const path = mapAt('applied');
    const trial = await client.apply<ConfigMap>(path, configMap('applied'), { dryRun: true });
    assert.equal(trial.metadata.name, 'applied');
    assert.equal((await statusOf(client.get(path))).status, 404);
    await client.apply(path, configMap('applied', { a: '1' }));
    const other = await client.request({
      method: 'PATCH',
      path,
      query: { fieldManager: 'other', force: 'true' },
      contentType: 'application/apply-patch+yaml',
      body: configMap('applied', { a: '2' }),
    });
    assert.equal(other.status, 200);
    const conflict = await statusOf(client.apply(path, configMap('applied', { a: '3' })));
    assert.deepEqual([conflict.status, conflict.reason], [409, 'Conflict']);
    const forced = await client.apply<ConfigMap>(path, configMap('applied', { a: '3' }), {
      force: true,
    });
    assert.deepEqual(forced.data, { a: '3' });
  });

  it('lists page by page', async () => {
    const names = Array.from({ length: 7 }, (_, at) => `page-${at}`);
    for (const each of names) {
      await client.create(maps, {
        ...configMap(each),
        metadata: { name: each, labels: { pages: 'yes' } },
      });
    }
    const items = await client.list<ConfigMap>(maps, { labelSelector: 'pages=yes', limit: '3' });
    assert.deepEqual(
      items.map(({ kind, apiVersion, metadata }) => `${apiVersion} ${kind} ${metadata.name}`),
      names.map((each) => `v1 ConfigMap ${each}`),
    );
  });

  it('streams a watch', async () => {
    const { metadata } = await client.create<ConfigMap>(maps, configMap('watched'));
    const stream = await client.stream({
      method: 'GET',
      path: maps,
      query: {
        watch: 'true',
        resourceVersion: metadata.resourceVersion,
        fieldSelector: 'metadata.name=watched',
      },
    });
    assert.equal(stream.status, 200);
    await client.patch(mapAt('watched'), { data: { a: '1' } });
    let text = '';
    for await (const chunk of stream.body) {
      text += chunk.toString();
      if (text.endsWith('\n')) stream.close();
    }
    const event = JSON.parse(text) as { type: string; object: ConfigMap };
    assert.equal(event.type, 'MODIFIED');
    assert.deepEqual(event.object.data, { a: '1' });
  });

  it('sends many requests at once over pooled connections', async () => {
    const statuses = await Promise.all(
      Array.from({ length: 200 }, () => client.request({ method: 'GET', path: '/version' })),
    );
    assert.ok(statuses.every(({ status }) => status === 200));
  });

  it('authenticates with the token of a kubeconfig, a token file and a client certificate', async () => {
    const load = (file: string): HttpKubeClient => {
      const io = { env: {}, cwd: '/', clock: systemClock, stdin: {}, stderr: process.stderr };
      return clientWith(loadKubeconfig({ file }, io).credentials);
    };
    assert.equal(await userName(load(kube.kubeconfig)), 'oracle-admin');
    await writeFile(join(folder, 'token'), `${kube.token}\n`);
    const text = await readFile(kube.kubeconfig, 'utf8');
    const withFile = text.replace(`"token":"${kube.token}"`, '"tokenFile":"token"');
    assert.notEqual(withFile, text);
    await writeFile(join(folder, 'kubeconfig'), withFile);
    assert.equal(await userName(load(join(folder, 'kubeconfig'))), 'oracle-admin');
    const leaf = credentialOf(
      forge({
        issuer: users,
        ca: false,
        subject: name('team', 'ann'),
        purposes: [purposes.client],
      }),
    );
    const certificate = {
      type: 'certificate',
      certificate: leaf.certificateChain,
      key: leaf.privateKey,
    } as const;
    assert.equal(await userName(clientWith({ current: () => certificate })), 'ann');
  });

  it('hears that a token is refused', async () => {
    const refused: unknown[] = [];
    const stranger = clientWith({
      current: () => ({ type: 'token', token: 'no-such-token' }),
      refused: (credential) => refused.push(credential),
    });
    const { status } = await stranger.request({ method: 'GET', path: '/api' });
    assert.equal(status, 401);
    assert.equal(refused.length, 1);
  });
});

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { KubeRequest } from '../../core/kube/kube-client.ts';
import { apiServer } from '../../core/kube/credentials/test-credentials.ts';
import { credentialSite } from '../credentials/test-credential-site.ts';
import { caConfigMap } from '../manifests/published-ca.ts';
import { publishedCaController } from './published-ca-controller.ts';

async function scene(t: TestContext) {
  const site = await credentialSite(t);
  const { authority, server, run } = site;
  const controller = publishedCaController({
    ...site,
    trustDomain: authority.trustDomain,
    namespace: 'kube-fed',
  });
  const trustDomain = authority.trustDomain.name;
  const written: KubeRequest[] = [];
  /** The ConfigMap in the cluster. */
  const cluster = { object: undefined as unknown, patchStatus: 200 };
  server.answer = (request) => {
    assert.equal(request.path, '/api/v1/namespaces/kube-fed/configmaps/hansa-ca');
    if (request.method === 'GET') {
      return cluster.object === undefined ? { status: 404 } : { status: 200, body: cluster.object };
    }
    written.push(request);
    if (cluster.patchStatus === 200) cluster.object = request.body;
    return { status: cluster.patchStatus, body: request.body };
  };
  await site.create({ apiServer, credential: { jwtSVID: { audience: 'app1' } } });
  return {
    ...site,
    controller,
    cluster,
    written,
    look: () => run(controller),
    old: (ca: string) => caConfigMap({ namespace: 'kube-fed', trustDomain, ca }),
    told: async (): Promise<string | undefined> => {
      const found = await site.condition('CAPublished');
      return found && `${found.status} ${found.reason}`;
    },
  };
}

suite('the CA of the site in a cluster', () => {
  test('is not published where nobody created the ConfigMap', async (t) => {
    const { look, told, written } = await scene(t);
    assert.deepEqual(await look(), { requeueAfterMs: 600_000 });
    assert.equal(await told(), undefined);
    assert.equal(written.length, 0);
  });

  test('is updated by server-side apply, and again after a rotation', async (t) => {
    const { look, told, written, cluster, old, authority, controller } = await scene(t);
    cluster.object = old('OLD');
    await look();
    assert.equal(await told(), 'True Current');
    assert.equal(written.length, 1);
    const [request] = written;
    assert.equal(request?.contentType, 'application/apply-patch+yaml');
    assert.deepEqual(request?.body, old(authority.bundle.pem));
    await look();
    assert.equal(written.length, 1);

    const added: string[] = [];
    const sources = controller.sources.map((source) =>
      source.start({ add: (key) => added.push(key), ended: () => undefined }),
    );
    t.after(() => sources.forEach((source) => source.stop()));
    added.length = 0;
    await authority.prepare('x509', () => []);
    assert.deepEqual(added, ['app1']);
    await look();
    assert.equal(written.length, 2);
    assert.deepEqual(written[1]?.body, old(authority.bundle.pem));
  });

  test('is left alone where it belongs to another site', async (t) => {
    const { look, told, written, cluster } = await scene(t);
    cluster.object = caConfigMap({ namespace: 'kube-fed', trustDomain: 'bruges.example', ca: 'X' });
    await look();
    assert.equal(await told(), 'False NotOwned');
    assert.equal(written.length, 0);
  });

  test('that may not be changed is reported, until it may', async (t) => {
    const { look, told, cluster, old } = await scene(t);
    cluster.object = old('OLD');
    cluster.patchStatus = 403;
    assert.deepEqual(await look(), { requeueAfterMs: 30_000 });
    assert.equal(await told(), 'False NotAllowed');
    cluster.patchStatus = 500;
    await look();
    assert.equal(await told(), 'Unknown Failed');
    cluster.patchStatus = 200;
    await look();
    assert.equal(await told(), 'True Current');
    cluster.object = undefined;
    await look();
    assert.equal(await told(), undefined);
  });

  test('is Unknown while the API server cannot be reached', async (t) => {
    const { look, told, cluster, old, server } = await scene(t);
    server.isDown = true;
    await look();
    assert.equal(await told(), undefined);
    server.isDown = false;
    cluster.object = old('OLD');
    await look();
    server.isDown = true;
    await look();
    assert.equal(await told(), 'Unknown Unreachable');
  });
});

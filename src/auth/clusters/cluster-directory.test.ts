import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { hasCode } from '../../core/errors/error.ts';
import { clusterSite, specOf } from './test-clusters.ts';

const issuer = 'https://issuer.example';
const apiServer = 'https://app1.example:6443';

describe('the directory of clusters', () => {
  test('finds a cluster under its name, with the defaults of its mode', async () => {
    const { create, directory } = await clusterSite();
    await create('app1', { issuer, apiServer });
    await create('app2', { issuer });
    const [app1, app2] = [directory.find('app1'), directory.find('app2')];
    assert.equal(app1?.mode, 'hybrid');
    assert.equal(app1?.maxRevocationLagMs, 10_000);
    assert.deepEqual(app1?.apiAudiences, [issuer]);
    assert.notEqual(app1?.client, undefined);
    assert.equal(app2?.mode, 'jwks');
    assert.equal(app2?.client, undefined);
    assert.equal(directory.find('app3'), undefined);
    assert.deepEqual(
      directory.list().map(({ name }) => name),
      ['app1', 'app2'],
    );
  });

  test('keeps the lag that allowUntilLag needs in mode tokenreview', async () => {
    const { create, directory } = await clusterSite();
    const validation = {
      mode: 'tokenreview',
      maxRevocationLagSeconds: 30,
      onUnreachable: 'allowUntilLag',
    };
    await create('app1', { issuer, apiServer, validation });
    const found = directory.find('app1');
    assert.equal(found?.onUnreachable, 'allowUntilLag');
    assert.equal(found?.maxRevocationLagMs, 30_000);
  });

  test('compiles a spec once, also after the status changed', async () => {
    const { create, resources, directory, connected } = await clusterSite();
    await create('app1', { issuer, apiServer });
    const before = directory.find('app1');
    await resources.patchStatus('app1', () => ({ host: 'api.app1' }), { controller: 'test' });
    assert.equal(directory.find('app1'), before);
    assert.equal(directory.list()[0], before);
    assert.deepEqual(connected, ['app1']);
  });

  test('compiles a changed spec again, and closes the connections of the old one', async () => {
    const { create, change, directory, connected, closed } = await clusterSite();
    await create('app1', { issuer, apiServer });
    const before = directory.find('app1');
    await change('app1', (spec) => ({ ...spec, apiAudiences: ['a'] }));
    const after = directory.find('app1');
    assert.notEqual(after, before);
    assert.equal(after?.uid, before?.uid);
    assert.deepEqual(after?.apiAudiences, ['a']);
    assert.deepEqual(connected, ['app1', 'app1']);
    assert.deepEqual(closed, ['app1']);
  });

  test('forgets a deleted cluster at once, and gives its successor another uid', async () => {
    const { create, remove, directory, closed, clock } = await clusterSite();
    await create('app1', { issuer, apiServer });
    const before = directory.find('app1');
    await remove('app1');
    assert.equal(directory.find('app1'), undefined);
    assert.deepEqual(directory.list(), []);
    await clock.advance(0);
    assert.deepEqual(closed, ['app1']);
    await create('app1', { issuer, apiServer });
    assert.notEqual(directory.find('app1')?.uid, before?.uid);
  });

  test('ends reviews of a cluster whose deletion waits for a finalizer', async () => {
    const { create, remove, resources, directory } = await clusterSite();
    await create('app1', { issuer, apiServer, local: true });
    assert.equal(directory.local()?.name, 'app1');
    await resources.ensureFinalizer('app1', 'example.com/wait', { controller: 'test' });
    await remove('app1');
    assert.equal(directory.find('app1'), undefined);
    assert.equal(directory.local(), undefined);
    assert.deepEqual(directory.list(), []);
  });

  test('reports changes to its listeners until they stop', async () => {
    const { create, remove, directory, clock } = await clusterSite();
    let calls = 0;
    const stop = directory.onChange(() => calls++);
    await create('app1', { issuer });
    await clock.advance(0);
    assert.equal(calls, 1);
    await remove('app1');
    await clock.advance(0);
    assert.equal(calls, 2);
    stop();
    await create('app1', { issuer });
    await clock.advance(0);
    assert.equal(calls, 2);
  });

  test('never asks the issuer where its name is internal or that of the API server', async () => {
    const { create, directory } = await clusterSite();
    const issuers = {
      internal: 'https://kubernetes.default.svc.cluster.local',
      short: 'https://kubernetes',
      same: apiServer,
      opaque: 'kubernetes/serviceaccount',
      plain: 'http://issuer.example',
    };
    for (const [name, text] of Object.entries(issuers)) {
      await create(name, { issuer: text, apiServer });
      assert.deepEqual(
        directory.find(name)?.keySources.map(({ from }) => from),
        ['apiServer'],
        name,
      );
    }
    await create('public', { issuer, apiServer });
    assert.deepEqual(
      directory.find('public')?.keySources.map(({ from }) => from),
      ['issuer', 'apiServer'],
    );
  });

  test('keeps the path of an issuer when it looks for the keys', async () => {
    const { create, directory } = await clusterSite();
    await create('app1', { issuer: 'https://issuer.example/id/1/' });
    const [source] = directory.find('app1')?.keySources ?? [];
    assert.equal(
      source?.from === 'issuer' && source.url.href,
      'https://issuer.example/id/1/.well-known/openid-configuration',
    );
  });
});

describe('the local cluster', () => {
  test('is the one that is marked, and none after it was unmarked or deleted', async () => {
    const { create, change, remove, directory } = await clusterSite();
    await create('app1', { issuer, local: true });
    assert.equal(directory.local()?.name, 'app1');
    await change('app1', (spec) => ({ ...spec, local: false }));
    assert.equal(directory.local(), undefined);
    await create('app2', { issuer, local: true });
    assert.equal(directory.local()?.name, 'app2');
    await remove('app2');
    assert.equal(directory.local(), undefined);
    await create('app3', { issuer, local: true });
    assert.equal(directory.local()?.name, 'app3');
  });

  test('is one, even where two are marked at the same time', async () => {
    const { create, directory } = await clusterSite();
    const results = await Promise.allSettled(
      ['app1', 'app2', 'app3'].map((name) => create(name, { issuer, local: true })),
    );
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const result of results) {
      if (result.status === 'rejected') {
        assert.ok(hasCode(result.reason, 'HANSA_INVALID'), String(result.reason));
      }
    }
    assert.equal(directory.list().length, 1);
    assert.equal(directory.local()?.name, directory.list()[0]?.name);
  });

  test('can be changed without losing its mark', async () => {
    const { create, change, directory } = await clusterSite();
    await create('app1', { issuer, local: true });
    await change('app1', (spec) => ({ ...spec, apiAudiences: ['a'] }));
    assert.equal(directory.local()?.name, 'app1');
  });
});

describe('a credential of one API server', () => {
  const jwtSVID = { audience: 'app1' };

  test('is used by one of two Clusters that are created at the same time', async () => {
    const { create, directory } = await clusterSite();
    const created = await Promise.allSettled(
      ['app1', 'evil'].map((name) =>
        create(name, { issuer, apiServer: `https://${name}.example`, credential: { jwtSVID } }),
      ),
    );
    const refused = created.filter((one) => one.status === 'rejected');
    assert.equal(refused.length, 1);
    assert.match(String(refused[0]?.reason), /jwtSVID\.audience.* for another API server/);
    assert.equal(directory.list().length, 1);
  });

  test('is used by one of two Clusters that change at the same time', async () => {
    const { create, change, directory } = await clusterSite();
    for (const name of ['app1', 'evil']) {
      await create(name, { issuer, apiServer: `https://${name}.example` });
    }
    const changed = await Promise.allSettled(
      ['app1', 'evil'].map((name) =>
        change(name, (spec) => ({
          ...spec,
          credential: specOf({ issuer, credential: { jwtSVID } }).credential ?? assert.fail(),
        })),
      ),
    );
    assert.equal(changed.filter((one) => one.status === 'rejected').length, 1);
    assert.equal(directory.list().filter(({ generation }) => generation === 2).length, 1);
  });
});

// ExternalDNS and BIND as other tests use them: a name on a Service of a real API server is answered by
// dig, and goes with its Service.

import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { parseHostnames } from '../../src/kubernetes/dns/hostnames.ts';
import { until } from '../e2e/until.ts';
import { type NameServer, startNameServer, whyNoBind } from './bind.ts';
import { type ExternalDns, startExternalDns } from './external-dns.ts';
import { type KubeApiserver, startKubeApiserver } from './kube-apiserver.ts';
import { missingTools } from './tool.ts';

const skip = whyNoBind() || (await missingTools('etcd', 'kube-apiserver', 'external-dns'));

suite('ExternalDNS and BIND', { skip }, () => {
  let kube: KubeApiserver;
  let server: NameServer;
  let externalDns: ExternalDns;

  before(async () => {
    [kube, server] = await Promise.all([startKubeApiserver(), startNameServer('fed.example')]);
    externalDns = await startExternalDns(kube.kubeconfig, server);
  });
  after(async () => {
    await externalDns?.stop();
    await Promise.all([kube?.stop(), server?.stop()]);
  });

  const services = '/api/v1/namespaces/default/services';
  const createService = async (
    name: string,
    annotations: Readonly<Record<string, string>>,
  ): Promise<void> => {
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name, annotations },
      spec: { ports: [{ port: 80 }] },
    };
    const body = JSON.stringify(service);
    const { status, text } = await kube.client.send({ method: 'POST', path: services, body });
    assert.equal(status, 201, text);
  };
  const answers = (name: string, ...expected: readonly string[]): Promise<void> =>
    until(
      async () => {
        externalDns.check();
        return (await server.dig(name)).join() === expected.join();
      },
      `${name} is ${expected.join() || 'gone'}`,
    );

  test('a name with targets is answered, and goes with its Service', async () => {
    await createService('shop', {
      'external-dns.alpha.kubernetes.io/hostname': 'shop.fed.example',
      'external-dns.alpha.kubernetes.io/target': '192.0.2.1,192.0.2.2',
    });
    await answers('shop.fed.example', '192.0.2.1', '192.0.2.2');
    await kube.client.send({ method: 'DELETE', path: `${services}/shop` });
    await answers('shop.fed.example');
    assert.equal(await server.statusOf('shop.fed.example'), 'NXDOMAIN');
  });

  test('the longest names that a site allows are answered, and go with their Services', async () => {
    const deep = `${'d'.repeat(47)}.${`${'e'.repeat(58)}.`.repeat(3)}fed.example`;
    const names = [`${'w'.repeat(47)}.fed.example`, deep];
    assert.ok(deep.length <= 237 && deep.length > 230, `${deep.length}`);
    for (const [at, name] of names.entries()) {
      assert.deepEqual(parseHostnames(name).names, [name]);
      await createService(`long-${at}`, {
        'external-dns.alpha.kubernetes.io/hostname': name,
        'external-dns.alpha.kubernetes.io/target': '192.0.2.9',
      });
      await answers(name, '192.0.2.9');
    }
    for (const [at, name] of names.entries()) {
      await kube.client.send({ method: 'DELETE', path: `${services}/long-${at}` });
      await answers(name);
    }
  });

  test('a longer name would stay for ever, so a site refuses it', async () => {
    const name = `${'x'.repeat(63)}.fed.example`;
    assert.deepEqual(parseHostnames(name).names, []);
    await createService('too-long', {
      'external-dns.alpha.kubernetes.io/hostname': name,
      'external-dns.alpha.kubernetes.io/target': '192.0.2.10',
    });
    await answers(name, '192.0.2.10');
    await kube.client.send({ method: 'DELETE', path: `${services}/too-long` });
    await createService('next', {
      'external-dns.alpha.kubernetes.io/hostname': 'next.fed.example',
      'external-dns.alpha.kubernetes.io/target': '192.0.2.11',
    });
    await answers('next.fed.example', '192.0.2.11');
    await kube.client.send({ method: 'DELETE', path: `${services}/next` });
    await answers('next.fed.example');
    assert.deepEqual(await server.dig(name), ['192.0.2.10'], 'ExternalDNS owns no such record');
  });

  test('a ClusterIP without targets gets no name', async () => {
    await createService('internal', {
      'external-dns.alpha.kubernetes.io/hostname': 'internal.fed.example',
    });
    await createService('later', {
      'external-dns.alpha.kubernetes.io/hostname': 'later.fed.example',
      'external-dns.alpha.kubernetes.io/target': '192.0.2.3',
    });
    await answers('later.fed.example', '192.0.2.3');
    assert.deepEqual(await server.dig('internal.fed.example'), []);
  });

  test('an update without the key is refused by the name server', async () => {
    const other = {
      ...server,
      key: { ...server.key, secret: Buffer.alloc(32).toString('base64') },
    };
    const intruder = await startExternalDns(kube.kubeconfig, other);
    try {
      await until(async () => /bad signature|BADSIG|bad auth/i.test(await intruder.log()));
    } finally {
      await intruder.stop();
    }
  });
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, test, type TestContext } from 'node:test';
import { systemClock } from '../clock/system.ts';
import type { Metrics } from './metrics.ts';
import { MetricsRegistry } from './registry.ts';
import { Health } from './health.ts';
import { metricsListener } from './metrics-listener.ts';

async function listen(t: TestContext, metrics: Metrics): Promise<string> {
  const server = createServer(metricsListener(metrics, new Health(), systemClock));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
}

function registryOf(series: number): MetricsRegistry {
  const metrics = new MetricsRegistry();
  const options = { name: 'a_total', help: 'A.', labels: ['name'], mostSeries: series } as const;
  const counter = metrics.counter(options);
  for (let at = 0; at < series; at++) counter.add({ name: `of number ${at}` });
  return metrics;
}

test('metrics are told whole, with their length where they are few', async (t) => {
  const metrics = registryOf(3);
  const answer = await fetch(await listen(t, metrics));
  const text = await answer.text();
  assert.equal(text, metrics.expose());
  assert.equal(answer.headers.get('content-length'), String(text.length));
  assert.match(answer.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
});

test('metrics of very many series are told whole too, and nothing to who asks for the head', async (t) => {
  const metrics = registryOf(50_000);
  const url = await listen(t, metrics);
  assert.equal(await (await fetch(url)).text(), metrics.expose());
  const head = await fetch(url, { method: 'HEAD' });
  assert.equal(head.status, 200);
  assert.equal(await head.text(), '');
});

test('a reader that goes away ends the making of metrics', async (t) => {
  const ended = Promise.withResolvers<void>();
  const endless = {
    *pieces() {
      try {
        for (;;) yield 'a 1\n'.repeat(10_000);
      } finally {
        ended.resolve();
      }
    },
  } as unknown as Metrics;
  const asked = request(await listen(t, endless)).end();
  const [answer] = (await once(asked, 'response')) as [NodeJS.ReadableStream];
  await once(answer, 'readable');
  asked.destroy();
  await ended.promise;
});

test('metrics that cannot be made are not told by half, and the site goes on', async (t) => {
  const broken = {
    *pieces() {
      yield 'a 1\n'.repeat(50_000);
      throw new Error('a part is broken');
    },
  } as unknown as Metrics;
  const url = await listen(t, broken);
  await assert.rejects(fetch(url).then((answer) => answer.text()));
  assert.equal((await fetch(url.replace('/metrics', '/healthz'))).status, 200);
});

suite('web pages', () => {
  const ask = (url: string, headers: Record<string, string>): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      request(url, { headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      })
        .on('error', reject)
        .end();
    });

  for (const host of ['127.0.0.1:9464', 'localhost', 'localhost:9464', '[::1]:9464', '10.1.2.3']) {
    test(`may not ask, but who asks ${host} may`, async (t) => {
      assert.equal(await ask(await listen(t, registryOf(1)), { host }), 200);
    });
  }

  for (const headers of [
    { host: 'evil.example' },
    { host: 'evil.example:9464' },
    { host: '127.0.0.1.evil.example' },
    { host: 'a b' },
    { host: '127.0.0.1', origin: 'https://evil.example' },
    { host: '127.0.0.1', origin: 'null' },
  ]) {
    test(`with ${JSON.stringify(headers)} are refused`, async (t) => {
      assert.equal(await ask(await listen(t, registryOf(1)), headers), 403);
    });
  }
});

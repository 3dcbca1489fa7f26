import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite, type TestContext, test } from 'node:test';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { readServerVersion, ServerVersion, versionInMetrics } from './spire-version.ts';

const line = (labels: string): string =>
  `# HELP spire_server_started spire_server_started\n# TYPE spire_server_started gauge\nspire_server_started{${labels}} 1\n`;

async function serve(t: TestContext, listener: RequestListener): Promise<URL> {
  const server = createServer(listener);
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`);
}

suite('the version of a SPIRE server', () => {
  const clock = new VirtualClock();

  for (const [labels, version] of [
    ['trust_domain_id="a.example",version="1.13.3"', '1.13.3'],
    // Before 1.8.
    ['version="1.4.7"', '1.4.7'],
    ['host="spire-server-0",version="1.16.0-dev-unk"', '1.16.0-dev-unk'],
    ['version="v1.12.4"', 'v1.12.4'],
    ['trust_domain_id="a_example",version="1_13_3"', '1.13.3'],
    ['version="1_16_0-dev-unk"', '1.16.0-dev-unk'],
  ] as const) {
    test(`is in its metrics: ${version}`, () => {
      const before = 'spire_server_rpc_count{version="0.1"} 3\n';
      assert.equal(
        versionInMetrics(`${before}${line(labels)}go_info{version="go1.25"} 1\n`),
        version,
      );
    });
  }

  for (const [what, text] of [
    ['no such metric', 'go_info{version="go1.25"} 1\n'],
    ['no label', line('trust_domain_id="a.example"')],
    ['another label', line('go_version="1.25"')],
    ['a version that is a word', line('version="latest"')],
    ['a long version', line(`version="1${'0'.repeat(70)}"`)],
    ['a comment', '# spire_server_started{version="1.4.7"}\n'],
    ['a label over two lines', 'spire_server_started{a="b\nversion="1.4.7"} 1\n'],
    ['nothing', ''],
  ] as const) {
    test(`is unknown from metrics with ${what}`, () => {
      assert.equal(versionInMetrics(text), undefined);
    });
  }

  test('is read from the listener of metrics', async (t) => {
    const url = await serve(t, (request, response) => {
      response.end(request.url === '/metrics' ? line('version="1.13.3"') : '');
    });
    assert.equal(await readServerVersion(url, clock), '1.13.3');
  });

  test('is not read from an error, from endless metrics, or where nothing answers', async (t) => {
    const failing = await serve(t, (_request, response) => response.writeHead(503).end('no'));
    await assert.rejects(readServerVersion(failing, clock), /HTTP status 503/);
    const endless = await serve(t, (_request, response) => {
      const more = (): void => {
        while (response.write('x'.repeat(65_536)));
      };
      response.on('drain', more).on('error', () => undefined);
      more();
    });
    await assert.rejects(readServerVersion(endless, clock), /more than 8388608 bytes/);
    const nothing = new URL('http://127.0.0.1:1/metrics');
    await assert.rejects(readServerVersion(nothing, clock), /ECONNREFUSED/);
    const asked = Promise.withResolvers<void>();
    const silent = await serve(t, () => asked.resolve());
    const reading = readServerVersion(silent, clock);
    await asked.promise;
    await Promise.all([assert.rejects(reading, { name: 'AbortError' }), clock.advance(5000)]);
  });

  test('is asked for until it is known, and then once an hour', async () => {
    const answers = [new Error('not yet'), undefined, '1.12.4', '1.13.3', new Error('gone')];
    let asked = 0;
    const version = new ServerVersion(async () => {
      const answer = answers[asked++];
      if (answer instanceof Error) throw answer;
      return answer;
    }, clock);
    assert.equal(await version.current(), undefined);
    assert.equal(await version.current(), undefined);
    assert.equal(await version.current(), '1.12.4');
    await clock.advance(3_599_000);
    assert.equal(await version.current(), '1.12.4');
    assert.equal(asked, 3);
    await clock.advance(1000);
    assert.equal(await version.current(), '1.13.3');
    await clock.advance(3_600_000);
    // Better unknown than wrong.
    assert.equal(await version.current(), undefined);
  });
});

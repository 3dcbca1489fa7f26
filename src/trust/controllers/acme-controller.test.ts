import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { openStore } from '../../core/store/open.ts';
import { createSealer, type Sealer } from '../../core/store/sealing/sealer.ts';
import type { Store } from '../../core/store/store.ts';
import { WebCertificateKeeper } from '../web/certificate-keeper.ts';
import { AcmeController, type AcmeSettings } from './acme-controller.ts';
import { acmeCollection } from '../web/acme/acme-records.ts';
import { drive, FakeAcme } from '../web/acme/test-acme-server.ts';
import { silentLog } from '../../core/log/test-log.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const settings: AcmeSettings = {
  from: 'acme',
  directoryUrl: 'https://acme.example/dir',
  domainName: 'lubeck.example',
  email: undefined,
  challenge: 'tls-alpn-01',
  httpAddress: { host: '127.0.0.1', port: 80 },
  caFile: undefined,
};

interface World {
  readonly clock: VirtualClock;
  readonly store: Store;
  readonly sealer: Sealer;
  readonly random: SeededRandom;
}

async function world(): Promise<World> {
  const clock = new VirtualClock();
  const random = new SeededRandom('acme');
  const store = await openStore({ driver: 'memory' }, { clock });
  return { clock, random, store, sealer: createSealer(Buffer.alloc(32, 7), random) };
}

/** One run of a process in that world. Each run has a new server. */
async function boot(
  around: World,
  change: (server: FakeAcme) => void = () => undefined,
  changes: Partial<AcmeSettings> = {},
) {
  const { clock } = around;
  const server = new FakeAcme(clock);
  server.challengeType = 'tls-alpn-01';
  change(server);
  const metrics = new MetricsRegistry();
  const keeper = new WebCertificateKeeper(clock, metrics);
  const acme = await AcmeController.start({ ...settings, ...changes }, keeper, {
    ...around,
    log: silentLog,
    transport: server.transport,
    version: 'test',
  });
  const stopping = new AbortController();
  const look = async (): Promise<number> => {
    const context = { signal: stopping.signal, epoch: undefined, log: silentLog };
    const result = await drive(clock, acme.controller.reconcile('certificate', context));
    return result?.requeueAfterMs ?? 0;
  };
  return { server, keeper, metrics, look };
}

suite('a certificate by ACME', () => {
  test('is kept sealed, and is there after a restart without a word to the server', async () => {
    const around = await world();
    const first = await boot(around);
    assert.match(first.keeper.problem ?? '', /has no certificate yet/);
    await first.look();
    const chain = first.keeper.current?.certificateChain;
    assert.ok(chain);
    assert.equal(first.keeper.problem, undefined);
    for (const { value } of around.store.list(acmeCollection).entries) {
      assert.doesNotMatch(value.toString('latin1'), /PRIVATE KEY|CERTIFICATE|acme\.example/);
    }
    const second = await boot(around);
    assert.equal(second.keeper.current?.certificateChain, chain);
    assert.ok((await second.look()) > 0);
    assert.equal(second.server.rules.length, 0);
  });

  test('is presented by a replica that did not order it', async () => {
    const around = await world();
    const [leader, follower] = [await boot(around), await boot(around)];
    await leader.look();
    await around.clock.advance(1_000);
    assert.ok(leader.keeper.current);
    assert.equal(follower.keeper.current?.certificateChain, leader.keeper.current.certificateChain);
    assert.equal(follower.server.rules.length, 0);
  });

  test('is ordered anew at two thirds of its life, by the account that there is', async () => {
    const around = await world();
    const { keeper, look } = await boot(around);
    await look();
    const chain = keeper.current?.certificateChain;
    await around.clock.advance(50 * dayMs);
    assert.ok((await look()) > 0);
    assert.equal(keeper.current?.certificateChain, chain);
    await around.clock.advance(10 * dayMs);
    const later = await boot(around);
    await later.look();
    assert.notEqual(later.keeper.current?.certificateChain, chain);
    assert.equal(later.server.contact, undefined);
    assert.ok(later.server.posts.every(({ url }) => !url.endsWith('/new-account')));
  });

  test('is ordered anew from another server, or for another name', async () => {
    const around = await world();
    await (await boot(around)).look();
    await around.clock.advance(dayMs);
    const moved = await boot(around, undefined, { directoryUrl: 'https://other.example/dir' });
    assert.ok(moved.keeper.current);
    await moved.look();
    assert.ok(moved.server.posts.some(({ url }) => url.endsWith('/new-account')));
    await around.clock.advance(dayMs);
    const renamed = await boot(
      around,
      (server) => {
        server.authorizes = 'bruges.example';
        server.issuesFor = 'bruges.example';
      },
      { domainName: 'bruges.example', directoryUrl: 'https://other.example/dir' },
    );
    assert.match(renamed.keeper.problem ?? '', /has no certificate yet/);
    await renamed.look();
    assert.deepEqual(renamed.keeper.current?.names, ['bruges.example']);
  });

  test('that does not come is told of, and not asked for before its time', async () => {
    const around = await world();
    const limited = {
      status: 429,
      headers: { 'retry-after': '7200' },
      body: { type: 'urn:ietf:params:acme:error:rateLimited', detail: 'too many certificates' },
    };
    const { server, keeper, metrics, look } = await boot(around, (each) => {
      each.refuses.set('/new-order', limited);
    });
    await look();
    assert.match(
      keeper.problem ?? '',
      /^cannot get a certificate for lubeck\.example from acme\.example: rateLimited: too many certificates \(HTTP 429\)\. Next attempt at /,
    );
    assert.match(metrics.expose(), /hansa_web_certificate_failures_total 1\n/);
    const asked = server.rules.length;
    await around.clock.advance(hourMs);
    await look();
    assert.equal(server.rules.length, asked);
    server.refuses.clear();
    await around.clock.advance(hourMs + 60_000);
    await look();
    assert.equal(keeper.problem, undefined);
    assert.ok(keeper.current);
  });

  test('that is not renewed makes the site unready only when time gets short', async () => {
    const around = await world();
    const { server, keeper, look } = await boot(around);
    await look();
    server.refuses.set('/new-order', { status: 500, headers: {}, body: {} });
    await around.clock.advance(61 * dayMs);
    await look();
    assert.equal(keeper.problem, undefined);
    await around.clock.advance(20 * dayMs);
    await look();
    assert.match(keeper.problem ?? '', /cannot get a certificate for lubeck\.example/);
    await around.clock.advance(10 * dayMs);
    assert.match(keeper.problem ?? '', /the certificate of the web listener expired at /);
  });

  test('is not asked for again at once by a process that was restarted', async () => {
    const around = await world();
    const refusing = (server: FakeAcme): void => {
      server.refuses.set('/new-order', { status: 500, headers: {}, body: {} });
    };
    await (await boot(around, refusing)).look();
    const next = await boot(around, refusing);
    const waitMs = await next.look();
    assert.ok(waitMs > 30_000 && waitMs <= 60_000);
    assert.equal(next.server.rules.length, 0);
  });

  test('whose record cannot be read keeps the site from starting, and nothing goes on watching it', async (t) => {
    const around = await world();
    await around.store.commit({
      put: [
        { collection: acmeCollection, name: 'certificate', encode: () => Buffer.from('no seal') },
      ],
    });
    let watching = 0;
    const { store } = around;
    const watch = store.watch.bind(store);
    t.mock.method(store, 'watch', (...watched: Parameters<Store['watch']>) => {
      const began = watch(...watched);
      watching++;
      return {
        stop: () => {
          began.stop();
          watching--;
        },
      };
    });
    await assert.rejects(boot(around), { code: 'HANSA_SEAL_BROKEN' });
    assert.equal(watching, 0);
  });

  test('does not begin with an authority that cannot be read', async () => {
    await assert.rejects(boot(await world(), undefined, { caFile: '/nowhere/ca.pem' }), {
      code: 'HANSA_CONFIG_INVALID',
      message: /^Cannot read acme\.caFile \/nowhere\/ca\.pem: ENOENT/,
    });
    const caFile = import.meta.filename.replace('acme-controller.test', 'token-controller');
    await assert.rejects(
      boot(await world(), undefined, { caFile }),
      /contains no certificate in PEM/,
    );
  });
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type SPIFFEFederation, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { Log } from '../../core/log/log.ts';
import { MetricsRegistry } from '../../core/metrics/registry.ts';
import { openStore } from '../../core/store/open.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { FederationLimit } from './federation-limit.ts';
import { TestEndpoint } from './test-federation-site.ts';

function limited(limit: number, count: number) {
  const logged: string[] = [];
  const log = { warn: (text: string) => logged.push(text) } as unknown as Log;
  const metrics = new MetricsRegistry();
  const store = {
    count: () => count,
    get: (_collection: string, name: string) =>
      name === 'known.example' ? ({} as never) : undefined,
  };
  const federations = new FederationLimit(store, limit, log, metrics);
  return {
    logged,
    metrics,
    warningsFor: (name: string): string[] => {
      const warnings: string[] = [];
      federations.admit(name, (text) => warnings.push(text));
      return warnings;
    },
  };
}

suite('the limit of federations', () => {
  test('is silent while there is room', () => {
    const { warningsFor, logged } = limited(50, 38);
    assert.deepEqual(warningsFor('new.example'), []);
    assert.deepEqual(logged, []);
  });

  test('warns in the answer and in the log when four fifths are in use', () => {
    const { warningsFor, logged } = limited(50, 39);
    assert.match(warningsFor('new.example').join(), /^40 of at most 50/);
    assert.equal(logged.length, 1);
  });

  test('lets the last one in and refuses the one after it, with what to do', () => {
    assert.match(limited(50, 49).warningsFor('new.example').join(), /^50 of at most 50/);
    assert.throws(
      () => limited(50, 50).warningsFor('new.example'),
      (caught) =>
        hasCode(caught, 'HANSA_LIMIT') && /new\.example.*maxFederations/.test(caught.message),
    );
  });

  test('is exact, also where many are made at once', async () => {
    const clock = new VirtualClock();
    const store = await openStore({ driver: 'memory' }, { clock });
    const log = { warn: () => undefined } as unknown as Log;
    const limit = new FederationLimit(store, 3, log, new MetricsRegistry());
    const writer = new ResourceWriter({
      store,
      clock,
      random: new SeededRandom('limit'),
      admit: (_caller, _kind, next) => limit.admit(next?.metadata.name ?? '', () => undefined),
      auditRow: () => undefined,
    });
    const federations = resourceClient<SPIFFEFederation>(spiffeFederationKind, {
      store,
      writer,
      clock,
    });
    const spec = new TestEndpoint('bruges.example').spec();
    const made = await Promise.allSettled(
      Array.from({ length: 10 }, (_, at) =>
        federations.create({ name: `n${at}.example`, spec }, { controller: 'test' }),
      ),
    );
    const refused = made.filter((one) => one.status === 'rejected');
    assert.equal(refused.length, 7);
    for (const { reason } of refused) assert.ok(hasCode(reason, 'HANSA_LIMIT'), String(reason));
    assert.equal(store.count(spiffeFederationKind.plural), 3);
  });

  test('keeps nobody from changing one that is there', () => {
    assert.deepEqual(limited(50, 60).warningsFor('known.example'), []);
  });

  test('that was raised is told at the start, and again for each beyond what is recommended', () => {
    const { warningsFor, logged, metrics } = limited(1000, 50);
    assert.match(logged.join(), /maxFederations is 1000/);
    assert.match(warningsFor('new.example').join(), /maxFederations is 1000/);
    assert.deepEqual(limited(1000, 3).warningsFor('new.example'), []);
    assert.match(metrics.expose(), /^hansa_federations_limit 1000$/m);
  });
});

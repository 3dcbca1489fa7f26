import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Kind } from '../../api/kind.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import type { Resource } from '../../api/object.ts';
import { systemClock, systemRandom } from '../../core/clock/system.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { openStore } from '../../core/store/open.ts';
import { auditWrites } from '../../server/audit/audit-writes.ts';
import { resourceClient } from '../../server/resources/resource-client.ts';
import { ResourceWriter } from '../../server/resources/writer.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { StoreAssignments } from '../agents/store-assignments.ts';
import { entryController } from './entry-controller.ts';
import type { WorkloadEntry } from '../workload/entries/matching-entries.ts';
import { openAuthority, put, putFederation } from '../workload/test-workload-site.ts';

async function scene(t: TestContext, siteNames: readonly string[] = []) {
  const clock = systemClock;
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const authority = await openAuthority('lubeck.example', clock);
  const writer = new ResourceWriter({
    store,
    clock,
    random: systemRandom,
    admit: () => [],
    auditRow: auditWrites({ record: () => ({ encode: () => Buffer.from('{}') }) }),
  });
  const resources = <R extends Resource>(kind: Kind) =>
    resourceClient<R>(kind, { store, writer, clock });
  const entries = resources<WorkloadEntry>(workloadEntryKind);
  const bundles = new FederatedBundles(store, authority, clock);
  const controller = entryController({
    store,
    clock,
    trustDomain: authority.trustDomain,
    bundles,
    resources,
    federationState: new StoreFederationState(store, bundles),
    siteNames,
    assignments: new StoreAssignments(store),
  });
  return {
    store,
    clock,
    create: (spec: object) =>
      entries.create(
        {
          name: 'web',
          spec: {
            spiffeID: 'spiffe://lubeck.example/web',
            selectors: ['unix:uid:1000'],
            federatesWith: [],
            ttlSeconds: 3600,
            ...spec,
          },
        },
        { controller: 'test' },
      ),
    look: async () => {
      const context = { signal: new AbortController().signal, epoch: undefined, log: undefined };
      const again = await controller.reconcile('web', context as never);
      const status = (await entries.get('web'))?.status;
      const told = Object.fromEntries(
        (status?.conditions ?? []).map((one) => [one.type, `${one.status} ${one.reason}`]),
      );
      const messages = (status?.conditions ?? []).map(({ message }) => message).join('\n');
      const { trustDomains: domains, agentCount } = status ?? {};
      return { ...told, messages, domains, agentCount, again };
    },
  };
}

describe('the status of an entry', () => {
  test('lists the trust domains whose bundles are delivered', async (t) => {
    const { store, clock, create, look } = await scene(t);
    await putFederation(store, await openAuthority('a.example', clock), { zone: 'north' });
    await putFederation(store, await openAuthority('b.example', clock));
    await create({ federatesWithSelector: { matchLabels: { zone: 'north' } } });
    const found = await look();
    assert.deepEqual(found.domains, ['a.example']);
    assert.equal(found['Ready' as never], 'True Usable');
    assert.equal(found['Federated' as never], 'True Delivered');
  });

  test('names what is withheld, and why', async (t) => {
    const { store, clock, create, look } = await scene(t);
    await putFederation(store, await openAuthority('a.example', clock));
    await put(store, 'spiffefederations', 'empty.example', {
      spec: { bundleSource: { httpsWeb: {} }, quarantined: false },
    });
    await create({ federatesWith: ['a.example', 'empty.example', 'unknown.example'] });
    const found = await look();
    assert.deepEqual(found.domains, ['a.example']);
    assert.equal(found['Federated' as never], 'False Withheld');
    assert.match(found.messages, /empty\.example: /);
    assert.match(found.messages, /unknown\.example: this site has no SPIFFEFederation/);
  });

  test('says which DNS names are left out of SVIDs because they became those of the site', async (t) => {
    const { create, look } = await scene(t, ['portal.lubeck.example', 'localhost']);
    await create({ dnsNames: ['portal.lubeck.example', 'web.lubeck.example'] });
    const found = await look();
    assert.equal(found['Ready' as never], 'True Usable');
    assert.equal(found['DNSNames' as never], 'False NameOfSite');
    assert.match(
      found.messages,
      /do not contain portal\.lubeck\.example, because these are names of the site/,
    );
  });

  test('says that all DNS names of the entry are in SVIDs', async (t) => {
    const { create, look } = await scene(t, ['localhost']);
    await create({ dnsNames: ['web.lubeck.example'] });
    assert.equal((await look())['DNSNames' as never], 'True Issued');
  });

  test('is looked at again when a grant ends', async (t) => {
    const { store, clock, create, look } = await scene(t);
    const name = 'bruges.example';
    await putFederation(store, await openAuthority(name, clock));
    await put(store, 'federationpeers', name, {
      spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
      status: { state: 'active' },
    });
    await put(store, 'serviceoffers', 'web', { spec: { spiffeID: 'spiffe://lubeck.example/web' } });
    await put(store, 'federationgrants', 'web', {
      spec: {
        peer: name,
        offers: ['web'],
        nodeInstances: { unrestricted: true },
        networks: { unrestricted: true },
        sourceCIDRs: { unrestricted: true },
        expiresAt: new Date(clock.now() + 60_000).toISOString(),
      },
    });
    await create({ federatesWith: ['*'] });
    const found = await look();
    assert.deepEqual(found.domains, [name]);
    const { requeueAfterMs = 0 } = found.again ?? {};
    assert.ok(requeueAfterMs > 50_000 && requeueAfterMs <= 60_000, String(requeueAfterMs));
  });

  test('counts the agents on which it applies, and says why there are none', async (t) => {
    const { store, create, look } = await scene(t);
    await create({ agents: { selector: { matchLabels: { zone: 'harbour' } } } });
    const before = await look();
    assert.deepEqual([before['Assigned' as never], before.agentCount], ['False NoMatch', 0]);
    await put(store, 'agents', 'crane-1', { spec: {} }, { zone: 'harbour' });
    const after = await look();
    assert.deepEqual([after['Assigned' as never], after.agentCount], ['True Assigned', 1]);
    assert.match(after.messages, /applies on crane-1\./);
  });

  test('of one that is gone is nobody’s', async (t) => {
    const { look } = await scene(t);
    assert.equal((await look()).domains, undefined);
  });
});

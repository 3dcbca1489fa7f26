import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { agentKind } from '../../../api/kinds/agent.ts';
import { peerLabel } from '../../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../../api/object.ts';
import { type AgentItem, hashState } from '../../../core/agent/state.ts';
import { VirtualClock } from '../../../core/clock/virtual.ts';
import { MemoryDatabase } from '../../../core/store/memory/driver.ts';
import { openStore } from '../../../core/store/open.ts';
import { StoreFederationState } from '../../authorization/federation-state.ts';
import { FederatedBundles } from '../../federation/federated-bundles.ts';
import { openAuthority, put, putEntry, remove } from '../../workload/test-workload-site.ts';
import { AgentEntries } from '../agent-entries.ts';
import { IdentitiesSection } from './identities-section.ts';
import { parseSiteItem } from '../site-item.ts';
import { StoreAssignments } from '../store-assignments.ts';
import { documentOf, lubeck } from './test-site-objects.ts';
import { forgeRoot } from '../../../core/identity/x509/test-forge.ts';
import { silentLog } from '../../../core/log/test-log.ts';

async function scene(t: TestContext, database = new MemoryDatabase(), clock = new VirtualClock()) {
  const store = await openStore({ driver: 'memory', database }, { clock });
  t.after(() => store.close());
  const authority = await openAuthority('lubeck.example', clock);
  const bundles = new FederatedBundles(store, authority, clock);
  const assignments = new StoreAssignments(store);
  const section = new IdentitiesSection({
    store,
    clock,
    log: silentLog,
    authority,
    federationState: new StoreFederationState(store, bundles),
    assignments,
    entries: new AgentEntries({ store, trustDomain: lubeck, siteNames: [], assignments }),
  });
  section.start();
  t.after(() => section.stop());
  const told: string[] = [];
  section.onChange((agents) => told.push(...agents));
  const putAgent = (
    name: string,
    labels?: Record<string, string>,
    spec: object = { maxOfflineSeconds: 600 },
  ) => put(store, agentKind.plural, name, { spec }, labels);
  /** The agents that are told of a change, in order. */
  const toldOf = async (change: Promise<unknown>): Promise<readonly string[]> => {
    told.length = 0;
    await change;
    // The store, watches and the timer of the section take turns.
    for (let turn = 0; turn < 5; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
      await clock.advance(1);
    }
    return told.toSorted();
  };
  const itemsOf = (agent: string): ReadonlyMap<string, AgentItem> =>
    new Map(section.itemsOf(agent).map((item) => [`${item.collection}/${item.name}`, item]));
  return { clock, store, authority, section, putAgent, toldOf, itemsOf };
}

const roots = ['bruges.example', 'danzig.example'].map((name) => ({ name, root: forgeRoot(name) }));
const documents = new Map(roots.map(({ name, root }) => [name, documentOf(name, root)]));

type Scene = Awaited<ReturnType<typeof scene>>;

const putWeb = (
  { store }: Scene,
  name: string,
  {
    syncedAt,
    labels,
    ...more
  }: { syncedAt?: string; labels?: Record<string, string>; bundle?: string; reason?: string } = {},
) =>
  put(
    store,
    'spiffefederations',
    name,
    {
      spec: {
        bundleSource: { httpsWeb: { bundleEndpointURL: 'https://x' } },
        staleAfterSeconds: 3600,
      },
      status: { bundle: documents.get(name), refreshHintSeconds: 300, syncedAt, ...more },
    },
    labels,
  );

suite('the section identities', () => {
  test('gives an agent its entries, their federations and the description of the site', async (t) => {
    const site = await scene(t);
    await site.putAgent('crane-1');
    await putWeb(site, 'bruges.example');
    await putWeb(site, 'danzig.example');
    await putEntry(site.store, 'web', {
      agents: { names: ['crane-1'] },
      federatesWith: ['bruges.example'],
    });
    await putEntry(site.store, 'db', { agents: { names: ['crane-2'] }, federatesWith: ['*'] });
    await putEntry(site.store, 'here', {});
    const items = site.itemsOf('crane-1');
    assert.deepEqual(
      [...items.keys()],
      ['trust.site/site', 'workloadentries/web', 'spiffefederations/bruges.example'],
    );
    const described = parseSiteItem(items.get('trust.site/site')?.value as Buffer, lubeck);
    assert.equal(described.maxOfflineSeconds, 600);
    assert.equal(described.bundle.hash, site.authority.bundle.hash);
  });

  test('gives an agent without an object nothing but the description of the site', async (t) => {
    const { itemsOf, store } = await scene(t);
    await putEntry(store, 'web', { agents: { names: ['stranger'] } });
    assert.deepEqual([...itemsOf('stranger').keys()], ['trust.site/site']);
  });

  test('tells only the agents of a changed entry, and of the agent that it leaves', async (t) => {
    const site = await scene(t);
    for (const name of ['a', 'b', 'c']) await site.putAgent(name);
    for (const name of ['a', 'b', 'c']) site.section.itemsOf(name);
    const entry = (names: readonly string[], hint?: string) =>
      putEntry(site.store, 'web', { agents: { names }, ...(hint === undefined ? {} : { hint }) });
    await site.toldOf(Promise.resolve());
    assert.deepEqual(await site.toldOf(entry(['a'])), ['a']);
    assert.ok(site.itemsOf('a').has('workloadentries/web'));
    assert.deepEqual(await site.toldOf(entry(['b'])), ['a', 'b']);
    assert.ok(!site.itemsOf('a').has('workloadentries/web'));
    assert.ok(site.itemsOf('b').has('workloadentries/web'));
    assert.deepEqual(await site.toldOf(remove(site.store, 'workloadentries', 'web')), ['b']);
    assert.ok(!site.itemsOf('b').has('workloadentries/web'));
  });

  test('tells only the agents that gain or lose an entry where labels change', async (t) => {
    const site = await scene(t);
    await site.putAgent('a', { zone: 'north' });
    await site.putAgent('b', { zone: 'south' });
    await putEntry(site.store, 'web', { agents: { selector: { matchLabels: { zone: 'north' } } } });
    for (const name of ['a', 'b']) site.section.itemsOf(name);
    await site.toldOf(Promise.resolve());
    assert.deepEqual(await site.toldOf(site.putAgent('b', { zone: 'north' })), ['b']);
    assert.ok(site.itemsOf('b').has('workloadentries/web'));
    assert.deepEqual(await site.toldOf(site.putAgent('a', {})), ['a']);
    assert.ok(!site.itemsOf('a').has('workloadentries/web'));
  });

  test('tells an agent of its own spec', async (t) => {
    const site = await scene(t);
    await site.putAgent('a');
    await site.putAgent('b');
    for (const name of ['a', 'b']) site.section.itemsOf(name);
    await site.toldOf(Promise.resolve());
    assert.deepEqual(await site.toldOf(site.putAgent('a', {}, { maxOfflineSeconds: 60 })), ['a']);
    const value = site.itemsOf('a').get('trust.site/site')?.value as Buffer;
    assert.equal(parseSiteItem(value, lubeck).maxOfflineSeconds, 60);
  });

  test('tells only the users of a rotated bundle, and encodes it once for all', async (t) => {
    const site = await scene(t);
    for (const [name, trustDomain] of [
      ['a', 'bruges.example'],
      ['b', 'bruges.example'],
      ['c', 'danzig.example'],
    ] as const) {
      await site.putAgent(name);
      await putEntry(site.store, `web-${name}`, {
        agents: { names: [name] },
        federatesWith: [trustDomain],
      });
    }
    await putWeb(site, 'bruges.example');
    await putWeb(site, 'danzig.example');
    for (const name of ['a', 'b', 'c']) site.section.itemsOf(name);
    await site.toldOf(Promise.resolve());
    const rotated = documentOf('bruges.example', forgeRoot('bruges.example'));
    assert.deepEqual(await site.toldOf(putWeb(site, 'bruges.example', { bundle: rotated })), [
      'a',
      'b',
    ]);
    const [ofA, ofB] = ['a', 'b'].map((name) =>
      site.itemsOf(name).get('spiffefederations/bruges.example'),
    );
    assert.ok(ofA?.value.toString().includes(JSON.stringify(rotated).slice(1, 60)));
    assert.equal(ofA, ofB);
  });

  test('does not tell anyone of a status that decides nothing', async (t) => {
    const site = await scene(t);
    await site.putAgent('a');
    await putEntry(site.store, 'web', { agents: { names: ['a'] }, federatesWith: ['*'] });
    await putWeb(site, 'bruges.example');
    const peer = (status: object) =>
      put(site.store, 'federationpeers', 'danzig.example', { spec: { url: 'https://x' }, status });
    await peer({ state: 'active' });
    const before = site.section.itemsOf('a');
    await site.toldOf(Promise.resolve());
    assert.deepEqual(await site.toldOf(putWeb(site, 'bruges.example', { reason: 'x' })), []);
    assert.deepEqual(await site.toldOf(peer({ state: 'active', reason: 'x' })), []);
    assert.equal(site.section.itemsOf('a'), before);
  });

  test('tells an agent of a suspended peer, and drops what only a deleted grant needed', async (t) => {
    const site = await scene(t);
    await site.putAgent('a');
    await putEntry(site.store, 'db', { agents: { names: ['a'] }, federatesWith: ['*'] });
    await putWeb(site, 'bruges.example', { labels: { [peerLabel]: 'bruges.example' } });
    const peer = (desiredState: string) =>
      put(site.store, 'federationpeers', 'bruges.example', {
        spec: { url: 'https://x', desiredState },
        status: { state: 'active' },
      });
    await peer('active');
    await put(site.store, 'serviceoffers', 'db', {
      spec: { spiffeID: 'spiffe://lubeck.example/db' },
    });
    await put(site.store, 'federationgrants', 'g', {
      spec: { peer: 'bruges.example', offers: ['db', 'other'] },
    });
    assert.deepEqual(
      [...site.itemsOf('a').keys()],
      [
        'trust.site/site',
        'workloadentries/db',
        'spiffefederations/bruges.example',
        'serviceoffers/db',
        'federationgrants/g',
        'federationpeers/bruges.example',
      ],
    );
    await site.toldOf(Promise.resolve());
    assert.deepEqual(await site.toldOf(peer('suspended')), ['a']);
    const item = site.itemsOf('a').get('federationpeers/bruges.example');
    assert.match(item?.value.toString() ?? '', /"desiredState":"suspended"/);
    assert.deepEqual(await site.toldOf(remove(site.store, 'federationgrants', 'g')), ['a']);
    assert.deepEqual(
      [...site.itemsOf('a').keys()],
      ['trust.site/site', 'workloadentries/db', 'serviceoffers/db'],
    );
  });

  test('follows a selector of federations', async (t) => {
    const site = await scene(t);
    await site.putAgent('a');
    await putEntry(site.store, 'web', {
      agents: { names: ['a'] },
      federatesWithSelector: { matchLabels: { tier: 'gold' } },
    });
    await putWeb(site, 'bruges.example');
    const asked = (): unknown =>
      JSON.parse(site.itemsOf('a').get('workloadentries/web')?.value.toString() ?? '{}').spec
        .federatesWith;
    assert.deepEqual(asked(), []);
    await site.toldOf(Promise.resolve());
    const labelled = putWeb(site, 'bruges.example', { labels: { tier: 'gold' } });
    assert.deepEqual(await site.toldOf(labelled), ['a']);
    assert.deepEqual(asked(), ['bruges.example']);
    assert.ok(site.itemsOf('a').has('spiffefederations/bruges.example'));
  });

  test('tells every agent of another authority of the site', async (t) => {
    const site = await scene(t);
    await site.putAgent('a');
    await site.putAgent('b');
    for (const name of ['a', 'b']) site.section.itemsOf(name);
    await site.toldOf(Promise.resolve());
    assert.deepEqual(await site.toldOf(site.authority.prepare('x509', () => [])), ['a', 'b']);
    const value = site.itemsOf('a').get('trust.site/site')?.value as Buffer;
    assert.equal(parseSiteItem(value, lubeck).bundle.hash, site.authority.bundle.hash);
  });

  test('sends a confirmed bundle again only when its deadline moved by an eighth', async (t) => {
    const site = await scene(t);
    const { clock, store } = site;
    await site.putAgent('a');
    await putEntry(store, 'web', { agents: { names: ['a'] }, federatesWith: ['*'] });
    await putWeb(site, 'bruges.example', { syncedAt: timestamp(clock.now()) });
    const sent = new Set<AgentItem | undefined>();
    const staleAt: number[] = [];
    for (let minute = 0; minute < 120; minute++) {
      // The endpoint confirms the bundle every minute.
      const uid = 'uid-bruges.example';
      store.facts.merge('spiffefederations', 'bruges.example', {
        uid,
        syncedAt: timestamp(clock.now()),
      });
      await clock.advance(60_000);
      const item = site.itemsOf('a').get('spiffefederations/bruges.example');
      sent.add(item);
      const { syncedAt } = (
        JSON.parse(item?.value.toString() ?? '') as { status: { syncedAt: string } }
      ).status;
      staleAt.push(Date.parse(syncedAt) + 3_900_000 - clock.now());
    }
    // 120 minutes, and an eighth of an hour is 7.5 minutes.
    assert.ok(sent.size >= 16 && sent.size <= 17, String(sent.size));
    assert.ok(Math.min(...staleAt) > 3_000_000, 'the bundle is far from stale');
  });

  test('tells the users of a federation that was confirmed, without any commit', async (t) => {
    const site = await scene(t);
    const { clock, store } = site;
    for (const name of ['a', 'b']) {
      await site.putAgent(name);
      const federatesWith = name === 'a' ? ['bruges.example'] : [];
      await putEntry(store, `web-${name}`, { agents: { names: [name] }, federatesWith });
    }
    await putWeb(site, 'bruges.example', { syncedAt: timestamp(clock.now()) });
    for (const name of ['a', 'b']) site.section.itemsOf(name);
    await site.toldOf(Promise.resolve());
    await clock.advance(3_000_000);
    for (const name of ['a', 'b']) site.section.itemsOf(name);
    const told = await site.toldOf(
      (async () => {
        const facts = { uid: 'uid-bruges.example', syncedAt: timestamp(clock.now()) };
        store.facts.merge('spiffefederations', 'bruges.example', facts);
        await clock.advance(5_000);
      })(),
    );
    assert.deepEqual(told, ['a']);
  });

  /** Two agents use bruges.example. Its last confirmation is 50 minutes ago. */
  async function confirmedLongAgo(t: TestContext) {
    const site = await scene(t);
    for (const name of ['busy', 'quiet']) {
      await site.putAgent(name);
      await putEntry(site.store, `web-${name}`, {
        agents: { names: [name] },
        federatesWith: ['bruges.example'],
      });
    }
    await putWeb(site, 'bruges.example', { syncedAt: timestamp(site.clock.now()) });
    const read = () => ['busy', 'quiet'].map((name) => federationOf(name));
    const federationOf = (name: string) =>
      site.itemsOf(name).get('spiffefederations/bruges.example');
    read();
    await site.toldOf(site.clock.advance(3_000_000));
    read();
    const confirm = (): void => {
      const facts = { uid: 'uid-bruges.example', syncedAt: timestamp(site.clock.now()) };
      site.store.facts.merge('spiffefederations', 'bruges.example', facts);
    };
    return { ...site, site, federationOf, confirm };
  }

  test('tells all users of a confirmed federation, also if one of them found it first', async (t) => {
    const { site, store, clock, confirm, toldOf, federationOf } = await confirmedLongAgo(t);
    const before = federationOf('quiet');
    const own = () => putEntry(store, 'other', { agents: { names: ['busy'] } });
    assert.deepEqual(await toldOf(own()), ['busy']);
    confirm();
    const found = federationOf('busy');
    assert.notEqual(found, before);
    assert.deepEqual(await toldOf(clock.advance(5_000)), ['quiet']);
    assert.equal(federationOf('quiet'), found);
    // The one that found it still counts as a user.
    const rotated = documentOf('bruges.example', forgeRoot('bruges.example'));
    assert.deepEqual(await toldOf(putWeb(site, 'bruges.example', { bundle: rotated })), [
      'busy',
      'quiet',
    ]);
  });

  test('tells the users of a federation when a new agent finds its confirmation', async (t) => {
    const { site, store, clock, confirm, toldOf, federationOf } = await confirmedLongAgo(t);
    await site.putAgent('new');
    await putEntry(store, 'web-new', { agents: { names: ['new'] }, federatesWith: ['*'] });
    await toldOf(Promise.resolve());
    confirm();
    const found = federationOf('new');
    assert.deepEqual(await toldOf(clock.advance(5_000)), ['busy', 'quiet']);
    assert.equal(federationOf('quiet'), found);
  });

  test('tells an agent once until it reads its items again', async (t) => {
    const site = await scene(t);
    await site.putAgent('a');
    site.section.itemsOf('a');
    await site.toldOf(Promise.resolve());
    const entry = (name: string) => putEntry(site.store, name, { agents: { names: ['a'] } });
    assert.deepEqual(await site.toldOf(entry('one')), ['a']);
    assert.deepEqual(await site.toldOf(entry('two')), []);
    assert.deepEqual(await site.toldOf(entry('three')), []);
    assert.equal(site.itemsOf('a').size, 4);
    assert.deepEqual(await site.toldOf(entry('four')), ['a']);
  });

  test('gives the same bytes at every replica of the site', async (t) => {
    const database = new MemoryDatabase();
    const one = await scene(t, database);
    await one.putAgent('a', { zone: 'north' });
    await putWeb(one, 'bruges.example', { syncedAt: timestamp(one.clock.now()) });
    await putEntry(one.store, 'web', {
      agents: { selector: { matchLabels: { zone: 'north' } } },
      federatesWith: ['*'],
    });
    await one.clock.advance(1000);
    const other = await scene(t, database, one.clock);
    const [ours, theirs] = [one, other].map(({ itemsOf }) =>
      // Each test site has an authority of its own.
      hashState(
        itemsOf('a')
          .values()
          .filter(({ collection }) => collection !== 'trust.site'),
      ),
    );
    assert.deepEqual(theirs, ours);
  });

  test('encodes nothing twice for a thousand agents with the same entry', async (t) => {
    const site = await scene(t);
    const names = Array.from({ length: 1000 }, (_, at) => `crane-${at}`);
    for (const name of names) await site.putAgent(name, { fleet: 'cranes' });
    await putEntry(site.store, 'web', {
      agents: { selector: { matchLabels: { fleet: 'cranes' } } },
      federatesWith: ['*'],
    });
    await putWeb(site, 'bruges.example');
    for (const name of names) site.section.itemsOf(name);
    await site.toldOf(Promise.resolve());
    const rotated = documentOf('bruges.example', forgeRoot('bruges.example'));
    const told = await site.toldOf(putWeb(site, 'bruges.example', { bundle: rotated }));
    assert.equal(told.length, 1000);
    const items = new Set(names.flatMap((name) => site.section.itemsOf(name)));
    assert.equal(items.size, 3);
  });
});

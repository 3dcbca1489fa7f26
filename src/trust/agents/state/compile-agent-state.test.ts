import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { federationGrantKind } from '../../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../../api/kinds/service-offer.ts';
import { peerLabel, spiffeFederationKind } from '../../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../../api/object.ts';
import { forgeRoot } from '../../../core/identity/x509/test-forge.ts';
import { identityItemProblem } from '../../agent/identity-items.ts';
import { decideAccess } from '../../authorization/ext-authz.ts';
import type { FederationState } from '../../authorization/federation-state.ts';
import {
  liveSyncedAt,
  storedFederations,
  type StoredFederation,
} from '../../federation/federated-bundles.ts';
import type { UsableEntry } from '../../workload/entries/matching-entries.ts';
import { givenBundles } from '../../workload/given-bundles.ts';
import {
  compileAgentState,
  confirmationForAgents,
  reducedEntry,
  reducedFederation,
} from './compile-agent-state.ts';
import { Relations } from './relations.ts';
import {
  decidersOf,
  documentOf,
  lubeck,
  ownRoot,
  type SiteObject,
  storeOf,
  usable,
} from './test-site-objects.ts';

const trustDomains = ['bruges.example', 'danzig.example', 'riga.example', 'visby.example'] as const;
const roots = new Map(trustDomains.map((name) => [name, forgeRoot(name)]));
const nowMs =
  Math.min(...[...roots.values()].map(({ certificate }) => certificate.notAfterMs)) - 9e6;

const documents = new Map(
  trustDomains.map((name) => {
    const root = roots.get(name) as ReturnType<typeof forgeRoot>;
    return [
      name,
      {
        good: documentOf(name, root),
        shared: documentOf(name, root, forgeRoot(name, { key: ownRoot.key })),
        broken: '{',
        none: undefined,
      },
    ] as const;
  }),
);

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const mostly = <T>(good: T, ...bad: readonly T[]) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(good) }, ...bad.map((one) => fc.constant(one)));
const going = mostly<string | undefined>(undefined, '2026-01-01T00:00:00Z');

const ids = ['db', 'web', 'api', 'elsewhere'].map((path) => `spiffe://lubeck.example/${path}`);
const offerNames = ['one', 'two', 'three'];

const federation = fc.record({
  deletionTimestamp: going,
  labels: fc.subarray([[peerLabel, 'x'] as const, ['tier', 'gold'] as const]),
  quarantined: mostly(false, true),
  document: mostly<'good' | 'shared' | 'broken' | 'none'>('good', 'shared', 'broken', 'none'),
  source: fc.constantFrom('httpsWeb', 'httpsSpiffe', 'static'),
  oldSource: mostly<string | undefined>(undefined, 'https_web', 'https_spiffe', 'static'),
  bootstrap: fc.boolean(),
  staleAfterSeconds: maybe(fc.constantFrom(60, 3600)),
  refreshHintSeconds: maybe(fc.constantFrom(1, 600)),
  syncedMsAgo: maybe(fc.nat(5_000_000)),
  bootstrappedMsAgo: maybe(fc.nat(5_000_000)),
  createdMsAgo: fc.nat(5_000_000),
  /** Null: the facts say that it was never confirmed. */
  factMsAgo: maybe(fc.option(fc.nat(5_000_000))),
  factOfAnother: mostly(false, true),
});
const states = [
  'proposed',
  'accepted',
  'enrolled',
  'degraded',
  'suspended',
  'revoked',
  'active',
] as const;
const peer = (name: string) =>
  fc.record({
    deletionTimestamp: going,
    desiredState: mostly('active', 'suspended'),
    state: mostly<string | undefined>('active', ...states, undefined),
    reenrolments: mostly<number | undefined>(undefined, 1),
    offers: fc.array(
      fc.record({
        name: fc.constantFrom('theirs', 'other'),
        spiffeID: fc.constantFrom(
          `spiffe://${name}/a`,
          `spiffe://${name}/b`,
          'spiffe://x.example/c',
        ),
        grantedTo: fc.subarray([...ids, '*']),
      }),
      { maxLength: 2 },
    ),
  });
const grant = (name: string) =>
  fc.record({
    deletionTimestamp: going,
    expiresInMs: maybe(fc.integer({ min: -1_000_000, max: 5_000_000 })),
    offers: maybe(fc.subarray([...offerNames, 'gone'])),
    nodeInstances: fc.constantFrom<object | undefined>(
      { unrestricted: true },
      { ids: [`spiffe://${name}/a`] },
      { ids: [`spiffe://${name}/b`, 'spiffe://x.example/c'] },
      undefined,
    ),
    networks: mostly<object | undefined>({ unrestricted: true }, { ids: ['lan'] }, undefined),
    sourceCIDRs: fc.constantFrom<object | undefined>(
      { unrestricted: true },
      { cidrs: ['192.0.2.0/24'] },
      { cidrs: ['nonsense'] },
    ),
    scopes: fc.constantFrom<unknown>(['read'], ['write'], ['read', 'write'], undefined, 'broken'),
  });
const relation = (name: string) =>
  fc.record({
    name: fc.constant(name),
    federation: maybe(federation),
    peer: maybe(peer(name)),
    grants: fc.array(grant(name), { maxLength: 2 }),
  });
const entry = fc.record({
  id: fc.constantFrom(...ids.slice(0, 3)),
  federatesWith: fc.oneof(
    fc.constant(['*']),
    fc.subarray([...trustDomains, 'lubeck.example', 'nowhere.example']),
  ),
  selector: maybe(fc.constantFrom({ matchLabels: { tier: 'gold' } }, { matchLabels: { a: 'b' } })),
});
const callerDomains = ['lubeck.example', ...trustDomains];

const site = fc.record({
  relations: fc.tuple(...trustDomains.map(relation)),
  offers: fc.tuple(
    ...offerNames.map((name) =>
      fc.record({
        name: fc.constant(name),
        deletionTimestamp: going,
        id: fc.constantFrom(...ids),
        callers: maybe(
          fc.record({
            ids: fc.subarray(callerDomains.map((domain) => `spiffe://${domain}/a`)),
            trustDomains: fc.subarray([...callerDomains]),
          }),
        ),
      }),
    ),
  ),
  entries: fc.array(entry, { minLength: 1, maxLength: 3 }),
  laterMs: fc.array(fc.nat(12_000_000), { minLength: 1, maxLength: 3 }),
});
type Site = typeof site extends fc.Arbitrary<infer S> ? S : never;

const ago = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : timestamp(nowMs - ms);

function objectsOf({ relations, offers }: Site): {
  objects: SiteObject[];
  facts: Map<string, Record<string, unknown>>;
} {
  const objects: SiteObject[] = [];
  const facts = new Map<string, Record<string, unknown>>();
  for (const { name, federation: federated, peer: peered, grants } of relations) {
    if (federated !== undefined) {
      const document = documents.get(name as (typeof trustDomains)[number])?.[federated.document];
      const inSpec = { static: { bundle: document }, httpsSpiffe: { bundleBootstrap: document } };
      const isBare =
        federated.source === 'httpsWeb' || (federated.source !== 'static' && !federated.bootstrap);
      objects.push({
        collection: spiffeFederationKind.plural,
        name,
        object: {
          metadata: {
            name,
            uid: `uid of ${name}`,
            deletionTimestamp: federated.deletionTimestamp,
            creationTimestamp: ago(federated.createdMsAgo),
            labels: Object.fromEntries(federated.labels),
          },
          spec: {
            quarantined: federated.quarantined,
            staleAfterSeconds: federated.staleAfterSeconds,
            bundleSource: {
              [federated.source]: isBare ? {} : inSpec[federated.source as keyof typeof inSpec],
            },
          },
          status: {
            bundle: federated.bootstrap ? undefined : document,
            source: federated.oldSource,
            refreshHintSeconds: federated.refreshHintSeconds,
            syncedAt: ago(federated.syncedMsAgo),
            bootstrappedAt: ago(federated.bootstrappedMsAgo),
          },
        },
      });
      if (federated.factMsAgo !== undefined) {
        facts.set(name, {
          uid: federated.factOfAnother ? 'another' : `uid of ${name}`,
          syncedAt: federated.factMsAgo === null ? null : ago(federated.factMsAgo),
        });
      }
    }
    if (peered !== undefined) {
      const { deletionTimestamp, desiredState, ...status } = peered;
      objects.push({
        collection: federationPeerKind.plural,
        name,
        object: {
          metadata: { name, uid: `uid of peer ${name}`, deletionTimestamp },
          spec: { url: `https://${name}:8443`, desiredState },
          status,
        },
      });
    }
    for (const [at, { deletionTimestamp, expiresInMs, ...spec }] of grants.entries()) {
      const grantName = `${name}-${at}`;
      objects.push({
        collection: federationGrantKind.plural,
        name: grantName,
        object: {
          metadata: { name: grantName, deletionTimestamp },
          spec: {
            ...spec,
            peer: name,
            expiresAt: expiresInMs === undefined ? undefined : timestamp(nowMs + expiresInMs),
          },
        },
      });
    }
  }
  for (const { name, deletionTimestamp, id, callers } of offers) {
    objects.push({
      collection: serviceOfferKind.plural,
      name,
      object: {
        metadata: { name, deletionTimestamp },
        spec: { spiffeID: id, callers, description: 'x' },
      },
    });
  }
  return { objects, facts };
}

const entriesOf = ({ entries }: Site): readonly UsableEntry[] =>
  entries.map(({ id, federatesWith, selector }, at) =>
    usable({
      metadata: { name: `entry-${at}`, uid: `uid-${at}` },
      spec: {
        spiffeID: id,
        selectors: ['unix:uid:1'],
        federatesWith,
        federatesWithSelector: selector,
        ttlSeconds: 3600,
        agents: { names: ['crane-1'] },
      },
    }),
  );

/** What the agent has: the bytes that it gets, in a store of its own. */
function compiled(made: Site): { readonly objects: readonly SiteObject[]; readonly text: string } {
  const { objects, facts } = objectsOf(made);
  const store = storeOf(objects, facts);
  const { federationState } = decidersOf(store, { now: () => nowMs });
  const entries = entriesOf(made);
  const state = compileAgentState(entries, new Relations(federationState.current));
  const federations = state.trustDomains.map((name) => {
    const stored = storedFederations.get(store, name) as StoredFederation;
    const { at } = confirmationForAgents(stored, liveSyncedAt(stored, facts.get(name)), nowMs);
    return reducedFederation(name, stored, at);
  });
  const own = entries.map((one) => reducedEntry(one, federationState.current));
  const all = [...own, ...federations, ...state.objects];
  const text = JSON.stringify(all);
  return { objects: JSON.parse(text) as readonly SiteObject[], text };
}

interface Decider {
  readonly clock: { ms: number };
  readonly parts: ReturnType<typeof decidersOf>;
  readonly entries: readonly UsableEntry[];
}

const deciderOf = (
  objects: readonly SiteObject[],
  entries: readonly UsableEntry[],
  facts?: ReadonlyMap<string, Record<string, unknown>>,
): Decider => {
  const clock = { ms: nowMs };
  const parts = decidersOf(storeOf(objects, facts), { now: () => clock.ms });
  return { clock, parts, entries };
};

/** Everything that workloads with these entries can notice. */
function decisionsOf({ clock, parts, entries }: Decider, atMs: number) {
  clock.ms = atMs;
  const { federationState, bundles } = parts;
  const steps = givenBundles(entries, federationState.current, atMs, () => undefined);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  const access = callerDomains.flatMap((name) =>
    offerNames.flatMap((offer) =>
      [`spiffe://${name}/a`, `spiffe://${name}/b`].flatMap((principal) =>
        (['GET', 'POST', undefined] as const).map((method) => {
          const decision = decideAccess(
            { principal, certificate: '', sourceAddress: '192.0.2.7', method, offer },
            { askers: entries, federationState: federationState.current, bundles, nowMs: atMs },
          );
          return decision.allowed ? `${principal} ${offer} ${method}: ${decision.reason}` : 'no';
        }),
      ),
    ),
  );
  return {
    bundles: step.value.federated.map((bundle) => `${bundle.trustDomain.name} ${bundle.hash}`),
    peers: [...step.value.peers],
    access,
  };
}

const staleOf = ({ parts }: Decider, name: string): number =>
  parts.bundles.factsOf(name)?.life.staleAtMs ?? Infinity;

suite('the state of an agent', () => {
  test('decides as the full state of the site does, also later and without the site', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(site, (made) => {
        const { objects, facts } = objectsOf(made);
        const atSite = deciderOf(objects, entriesOf(made), facts);
        const agent = compiled(made);
        const entries = agent.objects
          .filter(({ collection }) => collection === 'workloadentries')
          .map(({ object }) => usable(object));
        const onAgent = deciderOf(agent.objects, entries);
        for (const laterMs of [0, ...made.laterMs]) {
          const atMs = nowMs + laterMs;
          // The stale deadline of an agent is rounded down: see the next test.
          const isEdge = trustDomains.some(
            (name) => staleOf(onAgent, name) <= atMs && atMs < staleOf(atSite, name),
          );
          if (isEdge) continue;
          const [wanted, given] = [decisionsOf(atSite, atMs), decisionsOf(onAgent, atMs)];
          assert.deepEqual(given, wanted);
          seen.add(`bundles ${given.bundles.length > 0}`).add(`peers ${given.peers.length > 0}`);
          seen.add(`access ${given.access.some((one) => one !== 'no')}`);
        }
      }),
      { numRuns: 1500 },
    );
    for (const what of ['bundles', 'peers', 'access']) {
      assert.ok(seen.has(`${what} true`) && seen.has(`${what} false`), what);
    }
  });

  test('has a deadline of a bundle that is never later than at the site, and at most an eighth earlier', () => {
    let differed = false;
    fc.assert(
      fc.property(site, (made) => {
        const { objects, facts } = objectsOf(made);
        const atSite = deciderOf(objects, [], facts);
        const onAgent = deciderOf(compiled(made).objects, []);
        for (const { name, federation: federated } of made.relations) {
          const [wanted, given] = [staleOf(atSite, name), staleOf(onAgent, name)];
          if (given === Infinity) continue;
          // Times are written in seconds.
          const shareMs = (federated?.staleAfterSeconds ?? 3600) * 125 + 1000;
          assert.ok(given <= wanted && given > wanted - shareMs, `${given} of ${wanted}`);
          differed ||= given !== wanted;
        }
      }),
    );
    assert.ok(differed);
  });

  test('is accepted by the agent, also where the site has stored values of older versions', () => {
    fc.assert(
      fc.property(site, (made) => {
        for (const { collection, name, object } of compiled(made).objects) {
          const value = Buffer.from(JSON.stringify(object));
          assert.equal(identityItemProblem({ collection, name, value }, lubeck), undefined);
        }
      }),
    );
  });

  test('is accepted by the agent where a selector matches ten thousand federations', () => {
    const federations = Array.from({ length: 10_000 }, (_, at) => `site-${at}.example`);
    const labels = new Map(federations.map((name) => [name, { tier: 'gold' }]));
    const state = { federations, labels } as unknown as FederationState;
    const spec = {
      spiffeID: ids[0],
      selectors: ['unix:uid:1'],
      federatesWith: [],
      ttlSeconds: 3600,
      federatesWithSelector: { matchLabels: { tier: 'gold' } },
    };
    const many = usable({ metadata: { name: 'web', uid: 'uid-web' }, spec });
    const { collection, name, object } = reducedEntry(many, state);
    const value = Buffer.from(JSON.stringify(object));
    assert.equal(identityItemProblem({ collection, name, value }, lubeck), undefined);
  });

  test('contains no name or identity of a relation that none of its entries has', () => {
    fc.assert(
      fc.property(site, (made) => {
        const { text } = compiled(made);
        const mine = new Set(made.entries.map(({ id }) => id));
        for (const foreign of ['elsewhere', 'https://', '"agents"', 'tier', '"lan"', '"gone"']) {
          assert.ok(!text.includes(foreign), foreign);
        }
        const served = made.offers.filter(
          (offer) => offer.deletionTimestamp === undefined && mine.has(offer.id),
        );
        for (const { name } of made.offers) {
          if (!served.some((one) => one.name === name))
            assert.ok(!text.includes(`"${name}"`), name);
        }
        for (const { name, grants } of made.relations) {
          for (const [at, { offers: granted }] of grants.entries()) {
            const isMine = served.some((one) => granted?.includes(one.name));
            if (!isMine) assert.ok(!text.includes(`"${name}-${at}"`), `grant ${name}-${at}`);
          }
        }
      }),
    );
  });
});

suite('the confirmation of a bundle that agents get', () => {
  const federated = (syncedAt: string): StoredFederation => ({
    spec: { staleAfterSeconds: 3600, bundleSource: { httpsWeb: {} } },
    status: { refreshHintSeconds: 300, syncedAt },
  });
  const start = Date.parse('2026-05-01T12:00:00Z');
  const at = (ms: number): string | undefined =>
    confirmationForAgents(federated(timestamp(start + ms)), undefined, start + ms).at;

  test('stays the same while the endpoint confirms the bundle every five minutes, but for one in two', () => {
    const sent = Array.from({ length: 24 }, (_, index) => at(index * 300_000));
    // An eighth of an hour is 7.5 minutes.
    assert.equal(new Set(sent).size, 16);
  });

  test('never lets an agent of a site with a healthy endpoint reach the deadline', () => {
    fc.assert(
      fc.property(fc.nat(1e9), fc.constantFrom(60, 600, 3600), (ms, staleAfterSeconds) => {
        const syncedAt = timestamp(start + ms);
        const { at: given } = confirmationForAgents(
          { ...federated(syncedAt), spec: { staleAfterSeconds, bundleSource: { httpsWeb: {} } } },
          undefined,
          start + ms,
        );
        // The next confirmation comes after the hint. Three quarters of the tolerance are left then.
        const deadline = Date.parse(given ?? '') + (300 + staleAfterSeconds) * 1000;
        const nextMs = Date.parse(syncedAt) + 300_000;
        assert.ok(deadline - nextMs >= staleAfterSeconds * 750);
      }),
    );
  });

  test('is exact once the endpoint has been silent for half of the tolerance', () => {
    const syncedAt = '2026-05-01T12:01:23Z';
    const halfMs = Date.parse(syncedAt) + 300_000 + 1_800_000;
    const before = confirmationForAgents(federated(syncedAt), undefined, halfMs - 1);
    assert.notEqual(before.at, syncedAt);
    assert.equal(before.changesAtMs, halfMs);
    assert.equal(confirmationForAgents(federated(syncedAt), undefined, halfMs).at, syncedAt);
  });

  test('is the time of the facts, not that of the object', () => {
    const late = '2026-05-01T14:00:00Z';
    const { at: given } = confirmationForAgents(federated(timestamp(start)), late, start);
    assert.ok(Date.parse(late) - Date.parse(given ?? '') <= 450_000);
  });

  test('is absent for a static bundle, which never becomes stale', () => {
    const fixed: StoredFederation = {
      spec: { bundleSource: { static: {} } },
      status: { syncedAt: timestamp(start) },
    };
    assert.equal(confirmationForAgents(fixed, undefined, start).at, undefined);
  });
});

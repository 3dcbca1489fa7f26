import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { federationGrantKind } from '../../api/kinds/federation-grant.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { serviceOfferKind } from '../../api/kinds/service-offer.ts';
import { peerLabel, spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { Bundle } from '../../core/identity/bundle/bundle.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { forgeRoot } from '../../core/identity/x509/test-forge.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { bundlesOfTrusted, trustProblem } from './entitlement.ts';
import { decideAccess } from './ext-authz.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { judgeVouching } from '../join/vouching.ts';
import { StoreFederationState } from './federation-state.ts';
import { givenBundles } from '../workload/given-bundles.ts';
import { usableEntry, type WorkloadEntry } from '../workload/entries/matching-entries.ts';

const lubeck = TrustDomain.parse('lubeck.example');
const bruges = TrustDomain.parse('bruges.example');
const ours = forgeRoot('lubeck.example');
const theirs = forgeRoot('bruges.example');
const own = { bundle: new Bundle(lubeck, [ours.certificate]) };
const nowMs = theirs.certificate.notAfterMs - 3_600_000;
const db = 'spiffe://lubeck.example/db';
const web = 'spiffe://bruges.example/web';

const documentOf = (...roots: readonly ReturnType<typeof forgeRoot>[]): string =>
  encodeSpiffeBundle(
    new Bundle(
      bruges,
      roots.map(({ certificate }) => certificate),
    ),
    { sequence: 1, refreshHintSeconds: 300 },
  );
const documents = {
  good: documentOf(theirs),
  shared: documentOf(theirs, forgeRoot('bruges.example', { key: ours.key })),
  broken: '{',
  none: undefined,
};

const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
/** Good more often than not, so that everything is good often enough. */
const mostly = <T>(good: T, ...bad: readonly T[]) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(good) }, ...bad.map((one) => fc.constant(one)));
const going = mostly<string | undefined>(undefined, '2026-01-01T00:00:00Z');

const federation = fc.record({
  deletionTimestamp: going,
  labels: mostly<object | undefined>({ [peerLabel]: 'bruges.example' }, undefined),
  quarantined: mostly(false, true),
  document: mostly<keyof typeof documents>('good', 'shared', 'broken', 'none'),
  /** Stale after two hours; the fact of a later sync keeps it fresh. */
  syncedHoursAgo: mostly(0, 1, 3),
  factHoursAgo: maybe(mostly(0, 3)),
});
const states = ['proposed', 'accepted', 'enrolled', 'degraded', 'suspended', 'revoked'] as const;
const peer = fc.record({
  deletionTimestamp: going,
  desiredState: mostly('active', 'suspended'),
  state: mostly<string | undefined>('active', ...states, undefined),
  reenrolments: mostly<number | undefined>(undefined, 1),
  offers: mostly<readonly object[]>([], [{ name: 'api', spiffeID: web, grantedTo: [db] }]),
});
const grant = fc.record({
  deletionTimestamp: going,
  expiresInMs: maybe(mostly(1, 0, -1)),
  ids: mostly<readonly string[]>([web], [], ['spiffe://bruges.example/other']),
  networks: mostly<object>({ unrestricted: true }, {}),
});
const site = fc.record({
  federation: maybe(federation),
  peer: maybe(peer),
  grant: maybe(grant),
  servedBy: mostly(db, 'spiffe://lubeck.example/other'),
  aheadMs: mostly(0, 7_200_000),
});

type Site = typeof site extends fc.Arbitrary<infer S> ? S : never;

const hoursAgo = (hours: number): string => timestamp(nowMs - hours * 3_600_000);

/** Everything that decides about the bundle of bruges.example, on one store. */
function consumersOf(made: Site) {
  const found = new Map<string, readonly Entry[]>();
  const put = (collection: string, name: string, object: object): void => {
    const value = Buffer.from(JSON.stringify(object));
    found.set(collection, [{ collection, name, revision: 1, value }]);
  };
  const meta = (name: string, deletionTimestamp: string | undefined) => ({
    name,
    uid: `uid of ${name}`,
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  });
  if (made.federation !== undefined) {
    const { deletionTimestamp, labels, quarantined, document, syncedHoursAgo } = made.federation;
    put(spiffeFederationKind.plural, bruges.name, {
      metadata: { ...meta(bruges.name, deletionTimestamp), labels },
      spec: { quarantined, staleAfterSeconds: 3600, bundleSource: { httpsWeb: {} } },
      status: {
        bundle: documents[document],
        refreshHintSeconds: 3600,
        syncedAt: hoursAgo(syncedHoursAgo),
      },
    });
  }
  if (made.peer !== undefined) {
    const { deletionTimestamp, desiredState, offers, ...status } = made.peer;
    put(federationPeerKind.plural, bruges.name, {
      metadata: meta(bruges.name, deletionTimestamp),
      spec: { url: 'https://bruges.example:8443', desiredState },
      status: { ...status, offers },
    });
  }
  if (made.grant !== undefined) {
    const { deletionTimestamp, expiresInMs, ids, networks } = made.grant;
    put(federationGrantKind.plural, 'bruges-db', {
      metadata: meta('bruges-db', deletionTimestamp),
      spec: {
        peer: bruges.name,
        offers: ['db'],
        scopes: ['read'],
        nodeInstances: { ids },
        networks,
        sourceCIDRs: { unrestricted: true },
        ...(expiresInMs === undefined ? {} : { expiresAt: timestamp(nowMs + expiresInMs * 1000) }),
      },
    });
  }
  put(serviceOfferKind.plural, 'db', {
    metadata: meta('db', undefined),
    spec: { spiffeID: made.servedBy },
  });
  const factHours = made.federation?.factHoursAgo;
  const facts =
    factHours === undefined
      ? undefined
      : { uid: `uid of ${bruges.name}`, syncedAt: hoursAgo(factHours) };
  const list = (collection: string): readonly Entry[] => found.get(collection) ?? nothing;
  const store = {
    list: (collection: string) => ({ entries: list(collection), revision: 1 }),
    get: (collection: string, name: string) => list(collection).find((one) => one.name === name),
    facts: { get: (collection: string) => (collection === federationsName ? facts : undefined) },
  } as unknown as Store;
  const clock = { now: () => nowMs + made.aheadMs };
  const bundles = new FederatedBundles(store, own, clock);
  const federationState = new StoreFederationState(store, bundles);
  const steps = givenBundles([workload], federationState.current, clock.now(), () => undefined);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return {
    site: bundles.bundleFor(bruges),
    held: bundles.held.bundleFor(bruges),
    workload: step.value.federated.at(0),
    join: bundlesOfTrusted(bundles, federationState).bundleFor(bruges),
    problem: trustProblem(bruges.name, federationState.current, clock.now()),
    renewal: judgeVouching({ provenBy: web }, lubeck.name, federationState.current).state,
    access: decideAccess(
      { principal: web, certificate: '', sourceAddress: undefined, method: 'GET', offer: 'db' },
      {
        askers: [{ ...workload, id: SpiffeId.parse(made.servedBy) }],
        federationState: federationState.current,
        bundles,
        nowMs: clock.now(),
      },
    ).allowed,
  };
}

const nothing: readonly Entry[] = [];
const federationsName = spiffeFederationKind.plural;
const usable = usableEntry(
  {
    metadata: { name: 'db', uid: 'u' },
    spec: { spiffeID: db, selectors: ['unix:uid:1'], federatesWith: ['*'], ttlSeconds: 3600 },
  } as unknown as WorkloadEntry,
  lubeck,
  [],
);
assert.ok('entry' in usable);
const workload = usable.entry;

/** Nobody decided these. */
const overByItself: ReadonlySet<string> = new Set(['NoBundle', 'Stale', 'Expired']);

test('all who use the bundle of another trust domain agree on whether it is trusted', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(site, (made) => {
      const {
        site: trusted,
        held,
        workload: given,
        join,
        problem,
        renewal,
        access,
      } = consumersOf(made);
      // A site that uses it holds it; joins are let in exactly where nothing is wrong.
      if (trusted !== undefined) assert.equal(held, trusted);
      assert.equal(join !== undefined, problem === undefined, problem?.message);
      if (join !== undefined) assert.equal(join, trusted);
      // Workloads verify by nothing else than what joins are verified by.
      if (given !== undefined) assert.equal(given, join);
      // Who may reach a workload can be verified by it.
      if (access && made.servedBy === db) assert.ok(given !== undefined);
      if (access) assert.ok(join !== undefined);
      // Where members cannot renew, nothing else of the trust domain counts.
      if (renewal !== 'trusted')
        assert.deepEqual([join, given, access], [undefined, undefined, false]);
      // A bundle that is missing or too old ends no membership; a decision about the trust domain does.
      const lasting = problem === undefined || overByItself.has(problem.reason);
      assert.equal(renewal === 'trusted', lasting, problem?.reason);
      for (const [name, is] of Object.entries({ trusted, given, join, access })) {
        seen.add(`${name} ${is !== undefined && is !== false}`);
      }
      seen.add(`renewal ${renewal}`).add(String(problem?.reason));
    }),
    { numRuns: 3000 },
  );
  // The samples reach every answer, so that agreeing is no accident.
  for (const answer of [
    ...['trusted', 'given', 'join', 'access'].flatMap((name) => [`${name} true`, `${name} false`]),
    'renewal trusted',
    'renewal paused',
    'undefined',
    'NotFederated',
    'Quarantined',
    'NoBundle',
    'SharedAuthority',
    'Expired',
    'Stale',
    'PeerNotTrusted',
  ]) {
    assert.ok(seen.has(answer), `no sample was ${answer}`);
  }
});

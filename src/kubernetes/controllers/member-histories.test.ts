// A property of member controllers over random histories of users, clusters and leaders: after each heal all
// clusters hold what the compilers say, and no object of a user was ever changed.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { epochAnnotation, sourceAnnotation } from '../names.ts';
import type { EndpointSlice, Service } from '../objects.ts';
import type { OriginLimits } from '../services/choose-claims.ts';
import { compileCopy, hasSelector, isCopy } from '../services/compile-copy.ts';
import { compilePlan, type MemberInput } from '../services/compile-plan.ts';
import { compileAddressSlices, compilePodSlices } from '../services/compile-slices.ts';
import { federatedRefOf, isRef, keyOfRef } from '../services/federated-name.ts';
import { addressesOfNode, memberOfService } from '../services/member-service.ts';
import { isOwnSlice, isSource } from '../services/slice-source.ts';
import { annotatedCopies } from '../copies/annotated-copies.ts';
import { findTenancy } from '../copies/find-tenancy.ts';
import { OriginUsage } from '../copies/origin-usage.ts';
import { type Action, action } from './test-actions.ts';
import { usableOf } from '../copies/synced-member.ts';
import type { TestCluster } from '../copies/test-cluster.ts';
import {
  copiesIn,
  globalAnnotation,
  memberService,
  namespacedAnnotation,
  ownSlices,
  sourceSlice,
  TestLeague,
} from '../copies/test-league.ts';
import { systemNamespace, type TestSite } from '../copies/test-sites.ts';

class History {
  readonly league: TestLeague;
  readonly sites: TestSite[];
  /** The leader of the last term. */
  readonly #last = new Map<string, TestSite>();
  readonly #limits = new Map<string, OriginLimits>();
  #epoch = 1;

  constructor(seed: number) {
    this.league = new TestLeague(seed);
    this.sites = [this.league.site(), this.league.site()];
    for (const { id } of this.league.clusters) this.#lead(id, 0);
  }

  async play(action_: Action): Promise<void> {
    if (action_.do === 'pass') return this.#pass(action_.ms);
    const at = this.league.clusters[action_.cluster] as TestCluster;
    switch (action_.do) {
      case 'service':
        return this.#putService(at, action_);
      case 'slice':
        return void at.put('slices', sliceOf(at, action_));
      case 'removeService':
        return at.remove('services', `shop/${action_.service}`);
      case 'removeSlices':
        for (const each of at.all('slices')) {
          if (isSource(each)) at.remove('slices', `shop/${each.metadata.name}`);
        }
        return;
      case 'node':
        return this.#toggleNode(at, action_.service);
      case 'elect':
        for (const site of this.sites) await this.league.lose(site, at.id);
        return this.#lead(at.id, action_.site);
      case 'usurp':
        if (!this.#site(action_.site).isLeading(at.id)) this.#lead(at.id, action_.site);
        return;
      case 'cut':
        return this.#site(action_.site).view(at.id).cut();
      case 'heal':
        return this.#site(action_.site).view(at.id).heal();
      case 'unreachable':
      case 'reachable':
        return this.#reach(action_.site, at.id, action_.do === 'reachable');
      case 'limits':
        return this.#limit(at.id, action_);
      case 'restart':
        return this.#restart(action_.site, at.id);
      default:
        return this.#meddle(at, action_.do);
    }
  }

  /** Everything works again, with one leader for each cluster. */
  async heal(): Promise<void> {
    for (const at of this.league.clusters) {
      at.fault = () => undefined;
      this.#meddle(at, 'giveNameBack');
      for (const each of at.all('services')) {
        if (!isCopy(each) || !hasSelector(each)) continue;
        const { selector: _, ...spec } = each.spec;
        at.put('services', { ...each, spec });
      }
      for (const [index, site] of this.sites.entries()) {
        site.view(at.id).heal();
        this.#reach(index, at.id, true);
      }
      // A leader that is the only one, and the last one, stays: it must have missed nothing.
      const [leader, ...others] = this.sites.filter((site) => site.isLeading(at.id));
      if (others.length === 0 && leader !== undefined && leader === this.#last.get(at.id)) continue;
      for (const site of this.sites) await this.league.lose(site, at.id);
      this.#lead(at.id, 0);
    }
    await this.league.clock.advance(120_000);
  }

  /** Two leaders undo each other's creations, but no longer than until the old one knows that its lease is lost. */
  async #pass(ms: number): Promise<void> {
    const hasTwo = this.league.clusters.some(({ id }) =>
      this.sites.every((site) => site.isLeading(id)),
    );
    await this.league.clock.advance(hasTwo ? Math.min(ms, 1000) : ms);
  }

  #site(index: number): TestSite {
    return this.sites[index] as TestSite;
  }

  #lead(clusterID: string, site: number): void {
    this.#site(site).lead(clusterID, ++this.#epoch);
    this.#last.set(clusterID, this.#site(site));
  }

  #limit(clusterID: string, { services, endpoints }: OriginLimits): void {
    this.#limits.set(clusterID, { services, endpoints });
    for (const site of this.sites) this.#applyLimits(site);
  }

  /** `Federation` says the same to all sites. */
  #applyLimits(site: TestSite): void {
    for (const [id, limits] of this.#limits) {
      site.change(id, { settings: { ...site.view(id).settings, limits } });
    }
  }

  /** The process of a site ends. The next one cannot read a cluster at first. */
  async #restart(site: number, dark: string): Promise<void> {
    const old = this.#site(site);
    const led = this.league.clusters.filter(({ id }) => old.isLeading(id));
    for (const { id } of led) await this.league.lose(old, id);
    const next = this.league.site(dark);
    this.sites[site] = next;
    this.#applyLimits(next);
    for (const { id } of led) if (id !== dark) this.#lead(id, site);
  }

  #reach(site: number, clusterID: string, isReachable: boolean): void {
    const state = isReachable ? ('Ready' as const) : ('Unreachable' as const);
    if (isReachable) this.#site(site).view(clusterID).read();
    this.#site(site).change(clusterID, {
      state: {
        state,
        sinceMs: this.league.clock.now(),
        sinceMonotonicMs: this.league.clock.monotonic(),
        reason: 'X',
        message: '',
      },
    });
  }

  #putService(at: TestCluster, what: Extract<Action, { do: 'service' }>): void {
    if (at.find('namespaces', 'shop') === undefined) return;
    const { type, port, name } = what;
    const [scope = '', federated = ''] = name.split(' ');
    const key = scope === 'global' ? globalAnnotation : namespacedAnnotation;
    const old = at.find('services', `shop/${what.service}`);
    at.put('services', {
      ...memberService(
        {
          type: type === 'NodePort' || type === 'LoadBalancer' ? type : 'ClusterIP',
          ports: [{ name: 'http', port, nodePort: 30_000 }],
          ...(type === 'ExternalIPs' && { externalIPs: ['192.0.2.5'] }),
        },
        {
          metadata: {
            name: what.service,
            namespace: 'shop',
            annotations: scope === 'none' ? {} : { [key]: federated },
          },
        },
      ),
      status: {
        ...old?.status,
        ...(type === 'LoadBalancer' && { loadBalancer: { ingress: [{ ip: '192.0.2.6' }] } }),
      },
    });
  }

  #toggleNode(at: TestCluster, name: string): void {
    if (at.find('nodes', name) !== undefined) return at.remove('nodes', name);
    const address = `${prefixOf(at)}.9.${name.length}`;
    at.put('nodes', {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name },
      status: { addresses: [{ type: 'InternalIP', address }] },
    });
  }

  #meddle(at: TestCluster, how: Extract<Action, { cluster: number }>['do']): void {
    const copies = copiesIn(at);
    const slices = ownSlices(at);
    const edit = (change: (copy: Service) => Service): void => {
      for (const key of copies) at.edit('services', key, change);
    };
    switch (how) {
      case 'editCopies':
        return edit((copy) => ({
          ...copy,
          metadata: { ...copy.metadata, labels: {} },
          spec: { ...copy.spec, ports: [{ name: 'z', port: 9 }] },
        }));
      case 'selectors':
        return edit((copy) => ({ ...copy, spec: { ...copy.spec, selector: { a: 'b' } } }));
      case 'deleteCopies':
        for (const key of copies) at.remove('services', key);
        return;
      case 'editSlices':
        for (const one of slices) at.put('slices', { ...one, endpoints: [] });
        return;
      case 'strayedSlices':
        for (const one of slices) {
          const { [sourceAnnotation]: _, ...annotations } = one.metadata.annotations ?? {};
          at.put('slices', { ...one, metadata: { ...one.metadata, annotations } });
        }
        return;
      case 'deleteSlices':
        for (const one of slices)
          at.remove('slices', `${one.metadata.namespace}/${one.metadata.name}`);
        return;
      case 'takeName':
        if (!copies.includes('hansa-system/web')) at.put('services', nameTaker);
        return;
      case 'giveNameBack':
        if (at.find('services', 'hansa-system/web')?.metadata.labels?.['mine'] === 'yes') {
          at.remove('services', 'hansa-system/web');
        }
        return;
      case 'namespace':
        if (at.find('namespaces', 'shop') === undefined) at.putNamespace('shop');
        else at.remove('namespaces', 'shop');
        return;
      case 'fail': {
        let left = 6;
        at.fault = () => (left-- > 0 ? 500 : undefined);
        return;
      }
      default:
    }
  }
}

const nameTaker = memberService(
  { selector: {} },
  { metadata: { name: 'web', namespace: systemNamespace, labels: { mine: 'yes' } } },
);

const prefixOf = ({ id }: TestCluster): string => `10.${' abc'.indexOf(id)}`;

function sliceOf(at: TestCluster, what: Extract<Action, { do: 'slice' }>): EndpointSlice {
  const third = what.slice === 'x' ? 1 : 2;
  const slice = sourceSlice(
    `${what.service}-${what.slice}`,
    Array.from({ length: what.hosts }, (_, host) => ({
      addresses: [`${prefixOf(at)}.${third}.${host}`],
      conditions: { ready: what.isReady },
    })),
  );
  const labels = { ...slice.metadata.labels, 'kubernetes.io/service-name': what.service };
  return { ...slice, metadata: { ...slice.metadata, labels } };
}

/** What the compilers say that a cluster holds, straight from the objects of all clusters. */
function expectedIn(target: TestCluster, { league, sites: [site] }: History) {
  const refs = league.clusters
    .flatMap((each) => each.all('services'))
    .filter((each) => !isCopy(each))
    .map(({ metadata }) => federatedRefOf(metadata, systemNamespace))
    .filter(isRef);
  const leftOut = new Map(
    league.clusters.map(({ id }) => [
      id,
      new OriginUsage((site as TestSite).view(id), annotatedCopies(systemNamespace)).leftOut
        .services,
    ]),
  );
  const copies: unknown[] = [];
  const slices: unknown[] = [];
  for (const [key, ref] of new Map(refs.map((each) => [keyOfRef(each), each]))) {
    const inputs: MemberInput[] = league.clusters.flatMap((origin) =>
      origin
        .all('services')
        .filter((each) => !isCopy(each))
        .filter(({ metadata }) => {
          const own = federatedRefOf(metadata, systemNamespace);
          return isRef(own) && keyOfRef(own) === key;
        })
        .map((each) => ({ each, service: memberOfService(origin.id, ref, each) }))
        .map(({ each, service }) => ({
          service,
          fate: 'use',
          settings: (site as TestSite).view(origin.id).settings,
          limit: leftOut.get(origin.id)?.get(`${origin.id}/Service/shop/${each.metadata.name}`),
          readyPorts: service.ports.filter(() =>
            sourcesOf(origin, each).some(({ endpoints }) =>
              endpoints?.some(({ conditions }) => conditions?.ready),
            ),
          ),
        })),
    );
    const live = target.find('services', `${ref.namespace}/${ref.name}`);
    const tenancy = findTenancy({
      rules: annotatedCopies(systemNamespace),
      ref,
      target: { clusterID: target.id },
      members: (site as TestSite).members.list(),
      live,
      nowMs: undefined,
    });
    const plan = compilePlan(ref, target.id, inputs, true, tenancy);
    const wanted = compileCopy(plan);
    const isTaken = live !== undefined && !isCopy(live);
    if (!wanted || isTaken || !target.find('namespaces', ref.namespace)) continue;
    copies.push([ref.namespace, ref.name, wanted.spec.ports]);
    for (const participant of plan.participants.values()) {
      const origin = league.clusters.find(({ id }) => id === participant.service.clusterID);
      const from = origin?.find('services', `shop/${participant.service.name}`);
      if (origin === undefined || from === undefined || live === undefined) continue;
      const usable = usableOf((site as TestSite).view(origin.id));
      const { exposure } = participant.service;
      const compiled =
        participant.isLocal || exposure.by === 'pods'
          ? sourcesOf(origin, from).flatMap(
              (each) => compilePodSlices(live, participant, each, usable).slices,
            )
          : compileAddressSlices(
              live,
              participant,
              'addresses' in exposure
                ? exposure.addresses
                : origin.all('nodes').flatMap((node) => addressesOfNode(node)),
              usable,
            ).slices;
      slices.push(...compiled.map(shown));
    }
  }
  return { copies: copies.map(text).toSorted(), slices: slices.map(text).toSorted() };
}

function sourcesOf(origin: TestCluster, { metadata }: Service): readonly EndpointSlice[] {
  return origin
    .all('slices')
    .filter(isSource)
    .filter(({ metadata: { labels } }) => labels?.['kubernetes.io/service-name'] === metadata.name);
}

const text = (value: unknown): string => JSON.stringify(value);

function shown({ metadata, endpoints, ports }: EndpointSlice): unknown {
  const { name, namespace, labels, ownerReferences } = metadata;
  return { name, namespace, labels, ownerReferences, endpoints, ports };
}

function foundIn(target: TestCluster) {
  return {
    copies: target
      .all('services')
      .filter(isCopy)
      .map(({ metadata, spec }) => text([metadata.namespace, metadata.name, spec.ports]))
      .toSorted(),
    slices: target
      .all('slices')
      .filter(isOwnSlice)
      .map((each) => text(shown(each)))
      .toSorted(),
  };
}

const plain = { type: 'ClusterIP', port: 80 } as const;
const one = { do: 'service', cluster: 0, service: 'one', ...plain } as const;

/** Histories that showed faults, each by the seed of its delays. */
const onceFailed: [number, Action[]][] = [
  // A slice was created while its copy went.
  [
    683_987_075,
    [
      { ...one, name: 'global one' },
      { ...one, port: 81, name: 'global one' },
      { do: 'slice', cluster: 0, service: 'one', slice: 'x', hosts: 1, isReady: true },
      { do: 'pass', ms: 10_000 },
      { do: 'deleteSlices', cluster: 2 },
      { ...one, name: 'global web' },
      { do: 'slice', cluster: 1, service: 'one', slice: 'x', hosts: 0, isReady: false },
      { do: 'pass', ms: 5 },
    ],
  ],
  // A user took the source away from a slice while it was removed.
  [
    0,
    [
      { ...one, cluster: 1, type: 'LoadBalancer', name: 'global web' },
      { do: 'pass', ms: 400_000 },
      { ...one, cluster: 1, name: 'global web' },
      { do: 'editCopies', cluster: 0 },
      { do: 'strayedSlices', cluster: 0 },
      { do: 'editCopies', cluster: 2 },
    ],
  ],
];

suite('member controllers', () => {
  test('make all clusters what the compilers say, and change nothing of users', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.nat(),
        fc.array(action, { minLength: 1, maxLength: 40, size: 'max' }),
        async (seed, actions) => {
          const history = new History(seed);
          for (const each of actions) await history.play(each);
          await history.heal();
          for (const target of history.league.clusters) {
            assert.deepEqual(target.violations, []);
            assert.deepEqual(foundIn(target), expectedIn(target, history), target.id);
            target.writes.length = 0;
          }
          await history.league.clock.advance(11 * 60_000);
          for (const { id, writes } of history.league.clusters) assert.deepEqual(writes, [], id);
          for (const { id } of history.league.clusters) {
            for (const site of history.sites) await history.league.lose(site, id);
          }
        },
      ),
      { numRuns: 100, examples: onceFailed },
    );
  });

  test('judge by what they find: a changed object would be noticed', async () => {
    const history = new History(1);
    history.league.a.put('services', memberService());
    history.league.a.put('slices', sourceSlice('shop-x', ['10.1.0.1']));
    await history.heal();
    const { b } = history.league;
    assert.deepEqual(foundIn(b), expectedIn(b, history));
    const [own] = ownSlices(b);
    assert.ok(own?.metadata.annotations?.[epochAnnotation]);
    b.put('slices', { ...own, endpoints: [] });
    assert.notDeepEqual(foundIn(b), expectedIn(b, history));
  });
});

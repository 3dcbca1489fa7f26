// Targets of grants, and the property that no grant widens itself: a naive model of the axes agrees
// with the decision, and a smaller grant never covers more.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { decideGrant, type GrantNeed, type GrantQuestion, scopeOfMethod } from './grants.ts';
import type { FederationGrant, GrantScope, GrantTargetType } from './kinds/federation-grant.ts';
import { federationGrantKind, grantScopes, grantTargetFields } from './kinds/federation-grant.ts';

type Spec = FederationGrant['spec'];
type Grant = Pick<FederationGrant, 'metadata' | 'spec'>;

const nowMs = Date.parse('2026-06-01T00:00:00Z');
const peerName = 'bruges.example';
const peer = {
  spec: { url: 'https://bruges.example:8443', desiredState: 'active' },
  status: { state: 'active' },
} as const;

function grantOf(spec: Spec, name = 'one'): Grant {
  return {
    metadata: { name, uid: 'u', resourceVersion: '1', generation: 1, creationTimestamp: '' },
    spec,
  };
}

const open = { unrestricted: true };
const all: Spec = {
  peer: peerName,
  scopes: ['read'],
  nodeInstances: open,
  networks: open,
  sourceCIDRs: open,
};
const asked: GrantQuestion = {
  peer: peerName,
  spiffeID: 'spiffe://bruges.example/hansa/site',
  target: { type: 'cluster', name: 'app1' },
  sourceAddress: '192.0.2.1',
  need: { scope: 'read' },
  nowMs,
};

function isCovered(question: Partial<GrantQuestion>, ...specs: readonly Spec[]): boolean {
  const grants = specs.map((spec, at) => grantOf(spec, `grant-${at}`));
  return decideGrant({ ...asked, ...question }, peer, grants).covered;
}

suite('targets of a grant', () => {
  test('match by type and name, never across types', () => {
    for (const type of ['offer', 'cluster', 'service'] as const) {
      const spec = { ...all, [grantTargetFields[type]]: ['app1'] };
      for (const other of ['offer', 'cluster', 'service'] as const) {
        const target = { type: other, name: 'app1' };
        assert.equal(isCovered({ target }, spec), type === other, `${type} ${other}`);
      }
      assert.equal(isCovered({ target: { type, name: 'app2' } }, spec), false);
    }
  });

  test('that are all empty cover nothing, whatever the axes say', () => {
    assert.equal(isCovered({ target: undefined }, all), false);
    const empty = { ...all, offers: [], clusters: [], services: [] };
    assert.equal(isCovered({ target: undefined }, empty), false);
    assert.equal(isCovered({ target: undefined }, { ...all, services: ['shop/web'] }), true);
  });

  test('are named in the reason', () => {
    const reasonOf = (question: Partial<GrantQuestion>, spec: Spec): string => {
      const decision = decideGrant({ ...asked, ...question }, peer, [grantOf(spec)]);
      return decision.covered ? 'covered' : decision.reason;
    };
    assert.equal(
      reasonOf({}, { ...all, offers: ['app1'] }),
      'no grant for spiffe://bruges.example/hansa/site to use the cluster app1',
    );
    const clusters = { ...all, clusters: ['app1'] };
    assert.match(
      reasonOf({ need: { scope: 'admin' } }, clusters),
      /: it needs the scope admin, and grant one has read$/,
    );
    assert.match(
      reasonOf(
        { spiffeID: undefined, target: undefined },
        { ...clusters, nodeInstances: { unrestricted: false } },
      ),
      /^no grant for any identity of bruges.example: grant one does not name this identity$/,
    );
  });

  test('for any identity need an identity of the peer', () => {
    const of = (...ids: readonly string[]): Spec => ({
      ...all,
      clusters: ['app1'],
      nodeInstances: { ids: [...ids], unrestricted: false },
    });
    assert.equal(isCovered({ spiffeID: undefined }, of('spiffe://bruges.example/web')), true);
    assert.equal(isCovered({ spiffeID: undefined }, of('spiffe://evil.example/web')), false);
    assert.equal(isCovered({ spiffeID: undefined }, of()), false);
  });

  test('must be at least one, of any type', () => {
    const [rule] = federationGrantKind.spec.rules ?? [];
    const holds = (value: object): boolean => rule?.holds(value) ?? false;
    for (const field of Object.values(grantTargetFields)) {
      assert.equal(holds({ [field]: ['x'] }), true, field);
      assert.equal(holds({ [field]: [] }), false, field);
    }
    assert.equal(holds({}), false);
  });
});

const ids = ['spiffe://bruges.example/web', 'spiffe://bruges.example/hansa/site'];
const cidrs = ['192.0.2.0/24', '10.0.0.0/8', '2001:db8::/32'];
const names = ['a', 'b'];
const expiries = ['2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z'];

const listOf = (values: readonly string[]) =>
  fc.option(fc.subarray([...values]), { nil: undefined });
function axisOf(key: string, values: readonly string[]) {
  return fc.option(fc.record({ [key]: fc.subarray([...values]), unrestricted: fc.boolean() }), {
    nil: undefined,
  });
}

const specs = fc
  .record({
    peer: fc.constantFrom(peerName, 'other.example'),
    scopes: fc.option(fc.subarray([...grantScopes]), { nil: undefined }),
    offers: listOf(names),
    clusters: listOf(names),
    services: listOf(names),
    nodeInstances: axisOf('ids', ids),
    networks: axisOf('ids', ['backbone']),
    sourceCIDRs: axisOf('cidrs', cidrs),
    expiresAt: fc.option(fc.constantFrom(...expiries), { nil: undefined }),
  })
  // A field that is undefined is absent, as in a stored object.
  .map((spec) => JSON.parse(JSON.stringify(spec)) as Spec);

const questions: fc.Arbitrary<GrantQuestion> = fc.record({
  peer: fc.constant(peerName),
  spiffeID: fc.constantFrom(...ids, 'spiffe://other.example/web'),
  target: fc.record({
    type: fc.constantFrom<GrantTargetType>('offer', 'cluster', 'service'),
    name: fc.constantFrom(...names),
  }),
  sourceAddress: fc.constantFrom('192.0.2.7', '198.51.100.1', '10.1.1.1', '', 'no-address'),
  need: fc.constantFrom<GrantNeed>(
    'connect',
    { method: 'GET' },
    { method: 'POST' },
    { scope: 'read' },
    { scope: 'write' },
    { scope: 'admin' },
  ),
  nowMs: fc.constant(nowMs),
});

/** The axes by themselves, written without regard to how the decision computes them. */
function model(spec: Spec, question: GrantQuestion): boolean {
  const { spiffeID = '', target, sourceAddress = '', need } = question;
  const scopes: readonly GrantScope[] = spec.scopes ?? ['read'];
  const inRange = new Map([
    ['192.0.2.7', '192.0.2.0/24'],
    ['10.1.1.1', '10.0.0.0/8'],
  ]).get(sourceAddress);
  const needed =
    need === 'connect' ? scopes[0] : 'scope' in need ? need.scope : scopeOfMethod(need.method);
  const targets = target === undefined ? [] : (spec[grantTargetFields[target.type]] ?? []);
  const axis = (value: { unrestricted?: boolean } | undefined, matches: boolean): boolean =>
    value?.unrestricted === true || matches;
  return (
    spec.peer === question.peer &&
    (spec.expiresAt ?? expiries[1]) === expiries[1] &&
    targets.includes(target?.name ?? '') &&
    spiffeID.startsWith('spiffe://bruges.example/') &&
    axis(spec.nodeInstances, spec.nodeInstances?.ids?.includes(spiffeID) === true) &&
    spec.networks?.unrestricted === true &&
    axis(
      spec.sourceCIDRs,
      inRange !== undefined && spec.sourceCIDRs?.cidrs?.includes(inRange) === true,
    ) &&
    needed !== undefined &&
    scopes.includes(needed)
  );
}

/** Each grant with one right less: an item, a field or an unrestricted axis. */
function smaller(spec: Spec): readonly Spec[] {
  const found: Spec[] = [];
  for (const field of ['offers', 'clusters', 'services', 'scopes'] as const) {
    const { [field]: list, ...rest } = spec;
    if (list === undefined) continue;
    // Scopes that are left out mean the default, which is a scope of its own.
    if (field !== 'scopes') found.push(rest as Spec);
    for (const item of list) {
      found.push({ ...spec, [field]: (list as readonly string[]).filter((one) => one !== item) });
    }
  }
  for (const [field, key] of [
    ['nodeInstances', 'ids'],
    ['networks', 'ids'],
    ['sourceCIDRs', 'cidrs'],
  ] as const) {
    const { [field]: axis, ...rest } = spec;
    if (axis === undefined) continue;
    found.push(rest, { ...spec, [field]: { ...axis, unrestricted: false } });
    const list = (axis as Readonly<Record<string, unknown>>)[key] as readonly string[];
    for (const item of list) {
      found.push({ ...spec, [field]: { ...axis, [key]: list.filter((one) => one !== item) } });
    }
  }
  found.push({ ...spec, expiresAt: '2026-01-01T00:00:00Z' });
  return found;
}

suite('no grant widens itself', () => {
  test('a grant covers exactly what its axes, target and scope say', () => {
    fc.assert(
      fc.property(specs, questions, (spec, question) => {
        assert.equal(isCovered(question, spec), model(spec, question));
      }),
      { numRuns: 2000 },
    );
  });

  test('a grant with less covers no more', () => {
    fc.assert(
      fc.property(specs, questions, (spec, question) => {
        if (isCovered(question, spec)) return;
        for (const less of smaller(spec)) assert.equal(isCovered(question, less), false);
      }),
      { numRuns: 1000 },
    );
  });

  test('two grants cover what one of them covers, and are never combined', () => {
    fc.assert(
      fc.property(specs, specs, questions, (one, other, question) => {
        assert.equal(
          isCovered(question, one, other),
          isCovered(question, one) || isCovered(question, other),
        );
      }),
      { numRuns: 1000 },
    );
  });

  test('no grant covers anything of a peer that the site does not trust', () => {
    fc.assert(
      fc.property(specs, questions, (spec, question) => {
        for (const state of ['proposed', 'accepted', 'suspended', 'revoked'] as const) {
          const decision = decideGrant(question, { ...peer, status: { state } }, [grantOf(spec)]);
          assert.equal(decision.covered, false);
        }
      }),
      { numRuns: 200 },
    );
  });
});

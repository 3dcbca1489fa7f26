import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { decideGrant, type GrantQuestion, grantees } from './grants.ts';
import type { FederationGrant } from './kinds/federation-grant.ts';
import type { FederationPeer } from './kinds/federation-peer.ts';

type Peer = Pick<FederationPeer, 'spec' | 'status'>;
type Grant = Pick<FederationGrant, 'metadata' | 'spec'>;
type State = NonNullable<NonNullable<FederationPeer['status']>['state']>;

const nowMs = Date.parse('2026-06-01T00:00:00Z');
const web = 'spiffe://bruges.example/web';

function peerIn(state: State, desiredState: 'active' | 'suspended' = 'active'): Peer {
  return { spec: { url: 'https://bruges.example:8443', desiredState }, status: { state } };
}

function grant(spec: Partial<Grant['spec']> = {}, name = 'bruges-db'): Grant {
  return {
    metadata: { name, uid: 'u', resourceVersion: '1', generation: 1, creationTimestamp: '' },
    spec: {
      peer: 'bruges.example',
      scopes: ['read'],
      offers: ['db'],
      nodeInstances: { ids: [web], unrestricted: false },
      networks: { unrestricted: true },
      sourceCIDRs: { unrestricted: true },
      ...spec,
    },
  };
}

const question: GrantQuestion = {
  peer: 'bruges.example',
  spiffeID: web,
  target: { type: 'offer', name: 'db' },
  sourceAddress: '192.0.2.1',
  need: { method: 'GET' },
  nowMs,
};

/** Scopes that the kind refuses, as an older version stored them. */
function odd(...scopes: readonly string[]): Grant['spec']['scopes'] {
  return scopes as unknown as Grant['spec']['scopes'];
}

function reasonOf(
  asked: Partial<GrantQuestion>,
  grants: readonly Grant[],
  peer = peerIn('active'),
) {
  const decision = decideGrant({ ...question, ...asked }, peer, grants);
  return decision.covered ? `covered by ${decision.grant}` : decision.reason;
}

suite('a grant', () => {
  test('covers what it names on every axis', () => {
    assert.equal(reasonOf({}, [grant()]), 'covered by bruges-db');
    assert.equal(reasonOf({ sourceAddress: undefined }, [grant()]), 'covered by bruges-db');
    assert.equal(reasonOf({ need: 'connect' }, [grant()]), 'covered by bruges-db');
  });

  test('says what it does not cover', () => {
    const denied: readonly [Partial<GrantQuestion>, Partial<Grant['spec']>, RegExp][] = [
      [
        { target: { type: 'offer', name: 'metrics' } },
        {},
        /^no grant for spiffe:\/\/bruges.example\/web to use metrics$/,
      ],
      [{ spiffeID: 'spiffe://bruges.example/other' }, {}, /does not name this identity/],
      [
        { spiffeID: 'spiffe://evil.example/web' },
        { nodeInstances: { unrestricted: true } },
        /not of the trust domain/,
      ],
      [
        { need: { method: 'POST' } },
        {},
        /POST needs the scope write, and grant bruges-db has read$/,
      ],
      [{ need: { method: 'get' } }, {}, /: its method needs the scope write/],
      [{ need: { method: `X${'x'.repeat(999)}` } }, {}, /: its method needs the scope write/],
      [{}, { scopes: ['write', 'admin'] }, /GET needs the scope read, .* has write and admin$/],
      [{ need: 'connect' }, { scopes: odd('nothing-at-all') }, /has none of the scopes read,/],
      [{}, { expiresAt: '2026-01-01T00:00:00Z' }, /expired at 2026-01-01/],
      [{}, { networks: { ids: ['backbone'], unrestricted: false } }, /limited to networks/],
      [
        {},
        { sourceCIDRs: { cidrs: ['198.51.100.0/24'], unrestricted: false } },
        /calls from 192.0.2.1/,
      ],
    ];
    for (const [asked, spec, why] of denied) assert.match(reasonOf(asked, [grant(spec)]), why);
  });

  test('of an older version grants nothing by scopes that do not exist', () => {
    for (const scopes of [odd('nothing-at-all'), odd('READ'), odd(), odd('read '), odd('*')]) {
      const old = grant({ scopes });
      assert.match(reasonOf({}, [old]), /^no grant/, String(scopes));
      assert.match(reasonOf({ need: 'connect' }, [old]), /^no grant/, String(scopes));
      assert.deepEqual(grantees(old, nowMs), [], String(scopes));
    }
    assert.equal(reasonOf({}, [grant({ scopes: odd('x', 'read') })]), 'covered by bruges-db');
  });

  test('without scopes lets read and nothing else', () => {
    const { scopes: _left, ...spec } = grant().spec;
    const old = { ...grant(), spec } as unknown as Grant;
    assert.equal(reasonOf({ need: { method: 'HEAD' } }, [old]), 'covered by bruges-db');
    assert.match(reasonOf({ need: { method: 'DELETE' } }, [old]), /^no grant/);
    assert.deepEqual(grantees(old, nowMs), [web]);
  });

  test('without offers, from a later version, covers no offer', () => {
    const { offers: _left, ...spec } = grant().spec;
    assert.match(reasonOf({}, [{ ...grant(), spec }]), /^no grant/);
  });

  test('that leaves an axis out or empty matches nothing', () => {
    for (const axis of ['nodeInstances', 'networks', 'sourceCIDRs'] as const) {
      const { [axis]: _left, ...spec } = grant().spec;
      const without = { ...grant(), spec };
      assert.match(reasonOf({}, [without]), /^no grant/, axis);
      assert.match(reasonOf({}, [grant({ [axis]: { unrestricted: false } })]), /^no grant/, axis);
    }
    assert.match(reasonOf({}, [grant({ offers: [] })]), /^no grant/);
  });

  test('that is being deleted covers nothing', () => {
    const live = grant();
    const metadata = { ...live.metadata, deletionTimestamp: '2026-05-31T00:00:00Z' };
    const marked = { ...live, metadata };
    assert.match(reasonOf({}, [marked]), /^no grant for \S+ to use db$/);
    assert.match(reasonOf({ target: undefined }, [marked]), /^no grant/);
    assert.equal(reasonOf({}, [marked, grant({}, 'other')]), 'covered by other');
  });

  test('is told from the one that came closest', () => {
    const far = grant({ expiresAt: '2026-01-01T00:00:00Z' }, 'far');
    const near = grant({ sourceCIDRs: { cidrs: ['10.0.0.0/8'], unrestricted: false } }, 'near');
    assert.match(reasonOf({}, [far, near]), /grant near/);
    assert.match(reasonOf({}, [near, far]), /grant near/);
  });

  test('covers addresses by their range', () => {
    const ranged = grant({
      sourceCIDRs: { cidrs: ['10.0.0.0/8', '2001:db8::/32'], unrestricted: false },
    });
    assert.equal(reasonOf({ sourceAddress: '10.1.2.3' }, [ranged]), 'covered by bruges-db');
    assert.equal(reasonOf({ sourceAddress: '::ffff:10.1.2.3' }, [ranged]), 'covered by bruges-db');
    assert.equal(reasonOf({ sourceAddress: '2001:db8::1' }, [ranged]), 'covered by bruges-db');
    assert.match(reasonOf({ sourceAddress: '11.0.0.1' }, [ranged]), /^no grant/);
    assert.match(reasonOf({ sourceAddress: 'x-forwarded' }, [ranged]), /^no grant/);
    const broken = grant({ sourceCIDRs: { cidrs: ['10.0.0.1/8'], unrestricted: false } });
    assert.match(reasonOf({ sourceAddress: '10.0.0.1' }, [broken]), /^no grant/);
  });

  test('of a peer that is not believed covers nothing', () => {
    for (const state of ['proposed', 'accepted', 'suspended', 'revoked'] as const) {
      assert.equal(reasonOf({}, [grant()], peerIn(state)), `bruges.example is ${state}`);
    }
    assert.equal(
      reasonOf({}, [grant()], peerIn('active', 'suspended')),
      'bruges.example is suspended',
    );
    assert.equal(decideGrant(question, undefined, [grant()]).covered, false);
    assert.equal(reasonOf({}, [grant()], peerIn('degraded')), 'covered by bruges-db');
  });

  test('names to the peer whom it covers, and nobody where it covers nobody', () => {
    assert.deepEqual(grantees(grant(), nowMs), [web]);
    assert.deepEqual(grantees(grant({ nodeInstances: { unrestricted: true } }), nowMs), ['*']);
    assert.deepEqual(grantees(grant({ networks: { unrestricted: false } }), nowMs), []);
    assert.deepEqual(grantees(grant({ sourceCIDRs: { unrestricted: false } }), nowMs), []);
    const broken = { cidrs: ['10.0.0.1/8'], unrestricted: false };
    assert.deepEqual(grantees(grant({ sourceCIDRs: broken }), nowMs), []);
    assert.deepEqual(grantees(grant({ expiresAt: '2026-06-01T00:00:00Z' }), nowMs), []);
  });

  test('is decided alike by what is told to the peer and by who asks for any address', () => {
    const axis = fc.record({ unrestricted: fc.boolean() });
    fc.assert(
      fc.property(axis, axis, axis, fc.boolean(), (nodeInstances, networks, sourceCIDRs, ids) => {
        const one = grant({
          nodeInstances: ids ? { ...nodeInstances, ids: [web] } : nodeInstances,
          networks,
          sourceCIDRs,
        });
        const told = grantees(one, nowMs).some((id) => id === '*' || id === web);
        const asked = decideGrant({ ...question, sourceAddress: undefined }, peerIn('active'), [
          one,
        ]);
        return told === asked.covered;
      }),
    );
  });
});

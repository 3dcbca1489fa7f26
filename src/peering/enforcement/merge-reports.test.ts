import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { FederationPeer } from '../../api/kinds/federation-peer.ts';
import type { RemoteState } from '../../core/plane/enforcement.ts';
import { mergeReports, mostRows } from './merge-reports.ts';
import { mostRemotes, ownReport } from './own-report.ts';
import type { EnforcementReport, EnforcementRow } from './reports.ts';
import { isStopped, stopOf } from './stop.ts';

const atMs = Date.UTC(2026, 0, 1);
const at = '2026-01-01T00:00:00Z';
const earlier = '2025-01-01T00:00:00Z';

const peerIn = (
  state: string | undefined,
  {
    desiredState = 'active',
    generation = 1,
    rows,
  }: { desiredState?: string; generation?: number; rows?: readonly EnforcementRow[] } = {},
) =>
  ({
    metadata: { name: 'bruges.example', uid: 'u', generation },
    spec: { url: 'https://bruges.example:8443', desiredState },
    status: {
      ...(state === undefined ? {} : { state }),
      ...(rows === undefined ? {} : { enforcement: rows }),
    },
  }) as FederationPeer;

const row = (point: string, state: EnforcementRow['state'], since = at): EnforcementRow => ({
  point,
  state,
  since,
});
const point = (name: string, rejects: boolean) => ({ name, refuses: () => rejects });
const agentsAre = (
  connected: Record<string, boolean>,
  others: Record<string, RemoteState> = {},
) => ({
  kind: 'agent',
  connected: () => new Map(Object.entries(connected)),
  others: () => new Map(Object.entries(others)),
  onChange: () => () => undefined,
});
const reportFor = (
  peer: FederationPeer,
  more: Partial<EnforcementReport> = {},
): EnforcementReport => ({
  stop: stopOf(peer),
  points: [row('api', 'enforced')],
  remotes: [],
  ...more,
});
const elsewhere = (others: Record<string, RemoteState>) => [
  { kind: 'agent', others: new Map(Object.entries(others)) },
];
const shortOf = (rows: readonly EnforcementRow[] | undefined) =>
  rows?.map(({ point: name, state }) => `${name} ${state}`);

suite('the report of a replica', () => {
  test('has a row for each point and each connected agent: enforced, or pending where it lags', () => {
    const report = ownReport(
      peerIn('suspended'),
      {
        all: [point('join', true), point('bundle-delivery', false)],
        remotes: [agentsAre({ crane: true, barge: false })],
      },
      undefined,
      atMs,
    );
    assert.deepEqual(report, {
      stop: 'u 1 suspended',
      points: [row('join', 'enforced'), row('bundle-delivery', 'pending')],
      remotes: [row('agent/barge', 'pending'), row('agent/crane', 'enforced')],
    });
  });

  test('keeps the time of what did not change, unless the peer was resumed in between', () => {
    const points = { all: [point('api', true), point('join', true)], remotes: [] };
    const before = reportFor(peerIn('suspended'), {
      points: [row('api', 'enforced', earlier), row('join', 'pending', earlier)],
    });
    const { points: rows } = ownReport(peerIn('suspended'), points, before, atMs);
    assert.deepEqual(rows, [row('api', 'enforced', earlier), row('join', 'enforced')]);
    const again = ownReport(peerIn('suspended', { generation: 3 }), points, before, atMs);
    assert.deepEqual(again.points, [row('api', 'enforced'), row('join', 'enforced')]);
    const revoked = ownReport(peerIn('revoked'), points, before, atMs);
    assert.equal(revoked.points[0]?.since, at);
  });

  test('asks for the agents that the status names', () => {
    const asked: string[] = [];
    const remote = {
      ...agentsAre({}),
      connected: (_peer: string, known: ReadonlySet<string>) => {
        asked.push(...known);
        return new Map();
      },
    };
    const rows = [row('agent/crane', 'pending'), row('api', 'enforced')];
    ownReport(peerIn('suspended', { rows }), { all: [], remotes: [remote] }, undefined, atMs);
    assert.deepEqual(asked, ['crane']);
  });

  test('is bounded, with those that are pending first', () => {
    const names = Array.from({ length: mostRemotes + 5 }, (_, at2) => [`a${at2}`, at2 !== 2004]);
    const connected = Object.fromEntries(names) as Record<string, boolean>;
    const { remotes, others } = ownReport(
      peerIn('revoked'),
      { all: [], remotes: [agentsAre(connected)] },
      undefined,
      atMs,
    );
    assert.equal(remotes.length, mostRemotes);
    assert.equal(remotes[0]?.point, 'agent/a2004');
    assert.deepEqual(others, { pending: 0, enforced: 5 });
  });
});

suite('the enforcement of a stopped peer', () => {
  const suspended = peerIn('suspended');
  const one = (report: EnforcementReport | undefined) => [{ replica: 'hub', report }];

  test('is shown for suspended and revoked peers only', () => {
    for (const state of ['proposed', 'accepted', 'enrolled', 'active', 'degraded', undefined]) {
      const peer = peerIn(state);
      assert.equal(isStopped(peer), false);
      assert.equal(mergeReports(peer, one(reportFor(peer)), [], atMs), undefined);
    }
    for (const state of ['suspended', 'revoked']) assert.equal(isStopped(peerIn(state)), true);
    assert.equal(isStopped(peerIn('active', { desiredState: 'suspended' })), true);
  });

  test('is shown for a peer that starts over, and each time counts for itself', () => {
    const again = (reenrolments: number, state = 'proposed') => {
      const peer = peerIn(state);
      return { ...peer, status: { ...peer.status, reenrolments } } as FederationPeer;
    };
    assert.equal(isStopped(again(1)), true);
    assert.equal(isStopped(again(1, 'accepted')), false);
    const stops = [suspended, again(1), again(2), again(1, 'revoked')].map((peer) => stopOf(peer));
    assert.equal(new Set(stops).size, stops.length);
    assert.deepEqual(shortOf(mergeReports(again(2), one(reportFor(again(1))), [], atMs)), [
      'replica/hub pending',
    ]);
  });

  test('names the points of the only replica by their own names', () => {
    assert.deepEqual(mergeReports(suspended, one(reportFor(suspended)), [], atMs), [
      row('api', 'enforced'),
    ]);
  });

  test('names the points of several replicas, and a replica that has said nothing', () => {
    const replicas = [
      { replica: 'hub', report: reportFor(suspended) },
      { replica: 'pier', report: reportFor(suspended, { points: [row('api', 'pending')] }) },
      { replica: 'quay', report: undefined },
    ];
    assert.deepEqual(shortOf(mergeReports(suspended, replicas, [], atMs)), [
      'api@hub enforced',
      'api@pier pending',
      'replica/quay pending',
    ]);
  });

  test('does not count what a replica said before the peer was resumed, or before it was revoked', () => {
    const old = reportFor(suspended);
    for (const peer of [peerIn('suspended', { generation: 3 }), peerIn('revoked')]) {
      assert.deepEqual(shortOf(mergeReports(peer, one(old), [], atMs)), ['replica/hub pending']);
    }
  });

  test('names agents that are not connected, and shows when they have followed', () => {
    const report = reportFor(suspended);
    const rows = mergeReports(
      suspended,
      one(report),
      elsewhere({ barge: 'unknown', crane: 'rejects', dock: 'elsewhere' }),
      atMs,
    );
    assert.deepEqual(shortOf(rows), ['agent/barge pending', 'api enforced']);
    const shown = peerIn('suspended', { rows: [row('agent/barge', 'pending', earlier)] });
    const connected = reportFor(shown, { remotes: [row('agent/barge', 'enforced')] });
    assert.deepEqual(mergeReports(shown, one(connected), [], atMs), [
      row('agent/barge', 'enforced'),
      row('api', 'enforced'),
    ]);
    // It disconnected, and held nothing of the peer then.
    const left = mergeReports(shown, one(report), elsewhere({ barge: 'rejects' }), atMs);
    assert.deepEqual(shortOf(left), ['agent/barge enforced', 'api enforced']);
    // It connects to another replica, which has nothing to say yet.
    const moving = mergeReports(shown, one(report), elsewhere({ barge: 'elsewhere' }), atMs);
    assert.deepEqual(moving?.[0], row('agent/barge', 'pending', earlier));
    // It was forgotten.
    assert.deepEqual(shortOf(mergeReports(shown, one(report), elsewhere({}), atMs)), [
      'api enforced',
    ]);
  });

  test('is pending for an agent that has streams at two replicas, one of which still admits the peer', () => {
    const remotes = (state: EnforcementRow['state']) => [row('agent/crane', state)];
    for (const states of [
      ['enforced', 'pending'],
      ['pending', 'enforced'],
    ] as const) {
      const replicas = states.map((state, at2) => ({
        replica: `r${at2}`,
        report: reportFor(suspended, { points: [], remotes: remotes(state) }),
      }));
      assert.deepEqual(shortOf(mergeReports(suspended, replicas, [], atMs)), [
        'agent/crane pending',
      ]);
    }
  });
});

// The model: a place is enforced only if the newest report of its replica says so.
const names = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const state = fc.constantFrom<EnforcementRow['state']>('enforced', 'pending');
const remotes = fc
  .dictionary(names, state)
  .map((found) => Object.entries(found).map(([name, its]) => row(`agent/${name}`, its)));
const reports = fc.array(
  fc.option(fc.record({ isCurrent: fc.boolean(), points: state, remotes }), { nil: undefined }),
  { minLength: 1, maxLength: 3 },
);
const others = fc.dictionary(
  names,
  fc.constantFrom<RemoteState>('rejects', 'unknown', 'elsewhere'),
);

test('the merged rows agree with a naive model: nothing is enforced that nobody vouches for', () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(
      reports,
      others,
      fc.dictionary(names, state),
      fc.constantFrom('suspended', 'revoked'),
      (said, away, before, stateOfPeer) => {
        const shown = Object.entries(before).map(([name, its]) =>
          row(`agent/${name}`, its, earlier),
        );
        const peer = peerIn(stateOfPeer, { generation: 7, rows: shown });
        const replicas = said.map((each, at2) => ({
          replica: `r${at2}`,
          report: each && {
            stop: each.isCurrent ? stopOf(peer) : 'u 5 suspended',
            points: [row('api', each.points)],
            remotes: each.remotes,
          },
        }));
        const merged = mergeReports(peer, replicas, elsewhere(away), atMs) ?? [];
        const found = new Map(merged.map((each) => [each.point, each]));
        assert.equal(found.size, merged.length);
        for (const [at2, each] of said.entries()) {
          const isCurrent = each?.isCurrent === true;
          const name = said.length === 1 ? 'api' : `api@r${at2}`;
          assert.equal(found.get(name)?.state, isCurrent ? each.points : undefined);
          assert.equal(found.get(`replica/r${at2}`)?.state, isCurrent ? undefined : 'pending');
        }
        for (const name of ['a', 'b', 'c', 'd', 'e']) {
          const told = said
            .filter((each) => each?.isCurrent === true)
            .flatMap((each) => each?.remotes ?? [])
            .filter((each) => each.point === `agent/${name}`)
            .map((each) => each.state);
          const where = away[name];
          const wanted =
            told.length > 0
              ? told.includes('pending')
                ? 'pending'
                : 'enforced'
              : where === 'unknown'
                ? 'pending'
                : where === undefined || before[name] === undefined
                  ? undefined
                  : where === 'elsewhere'
                    ? before[name]
                    : 'enforced';
          const its = found.get(`agent/${name}`);
          assert.equal(its?.state, wanted, `${name} ${JSON.stringify({ said, away, before })}`);
          if (its !== undefined && its.state === before[name]) assert.equal(its.since, earlier);
          seen.add(`${wanted}`);
        }
      },
    ),
  );
  assert.deepEqual([...seen].toSorted(), ['enforced', 'pending', 'undefined']);
});

test('however many agents there are, the rows fit into the status and none is hidden as enforced', () => {
  fc.assert(
    fc.property(
      fc.array(state, { minLength: mostRows - 20, maxLength: mostRows + 80 }),
      fc.option(fc.record({ enforced: fc.nat(9), pending: fc.nat(9) }), { nil: undefined }),
      (states, more) => {
        const peer = peerIn('revoked');
        const agents = states.map((its, at2) => row(`agent/${at2}`, its));
        const report = reportFor(peer, {
          points: [],
          remotes: agents,
          ...(more === undefined ? {} : { others: more }),
        });
        const merged = mergeReports(peer, [{ replica: 'hub', report }], [], atMs) ?? [];
        assert.ok(merged.length <= mostRows);
        const count = (its: string) => states.filter((each) => each === its).length;
        const pending = count('pending') + (more?.pending ?? 0);
        assert.equal(
          merged.some((each) => each.state === 'pending'),
          pending > 0,
        );
        const last = merged.at(-1);
        if (last?.point !== 'more') {
          assert.equal(merged.length, states.length);
          return;
        }
        const [, enforcedLeft, pendingLeft] =
          /: (\d+) enforced, (\d+) pending$/.exec(last.message ?? '')?.map(Number) ?? [];
        const rows = merged.slice(0, -1);
        const listed = (its: string) => rows.filter((each) => each.state === its).length;
        assert.equal(listed('pending') + (pendingLeft ?? 0), pending);
        assert.equal(
          listed('enforced') + (enforcedLeft ?? 0),
          count('enforced') + (more?.enforced ?? 0),
        );
      },
    ),
    { numRuns: 50 },
  );
});

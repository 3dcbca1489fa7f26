import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { peerLabel } from '../../../api/kinds/spiffe-federation.ts';
import { AgentItem, difference } from '../../../core/agent/state.ts';
import { VirtualClock } from '../../../core/clock/virtual.ts';
import { openStore } from '../../../core/store/open.ts';
import { put } from '../../workload/test-workload-site.ts';
import { replicasCollection, sessionsCollection } from '../agent-session-records.ts';
import { HeldByAgents } from './agent-holdings.ts';
import { allTrusted, changedPeers, mostWithoutPeer, trustedOf } from './held-peers.ts';
import { holdingsCollection } from './holdings-records.ts';

const peer = 'bruges.example';

function item(collection: string, name: string, object: object): AgentItem {
  return new AgentItem('identities', collection, name, Buffer.from(JSON.stringify(object)));
}

const federation = (name: string, { kept = true, bundle = true, quarantined = false } = {}) =>
  item('spiffefederations', name, {
    metadata: { name, labels: kept ? { [peerLabel]: 'x' } : undefined },
    spec: { quarantined, bundleSource: {} },
    status: { bundle: bundle ? '{}' : undefined },
  });
const peerItem = (name: string, state: string, desiredState = 'active') =>
  item('federationpeers', name, {
    metadata: { name, uid: 'u' },
    spec: { desiredState },
    status: { state },
  });

/** States of an agent, and whether it trusts the peer in each. */
const states = {
  nothing: { items: [], trusts: false },
  active: { items: [federation(peer), peerItem(peer, 'active')], trusts: true },
  degraded: { items: [federation(peer), peerItem(peer, 'degraded')], trusts: true },
  wished: { items: [federation(peer), peerItem(peer, 'active', 'suspended')], trusts: false },
  suspended: {
    items: [federation(peer, { bundle: false, quarantined: true }), peerItem(peer, 'suspended')],
    trusts: false,
  },
  quarantined: {
    items: [federation(peer, { quarantined: true }), peerItem(peer, 'active')],
    trusts: false,
  },
  unfetched: {
    items: [federation(peer, { bundle: false }), peerItem(peer, 'active')],
    trusts: false,
  },
  orphan: { items: [federation(peer)], trusts: false },
  withoutPeer: { items: [federation(peer, { kept: false })], trusts: true },
  onlyPeer: { items: [peerItem(peer, 'active')], trusts: false },
} as const satisfies Record<string, { items: readonly AgentItem[]; trusts: boolean }>;
type StateName = keyof typeof states;
const stateNames = Object.keys(states) as readonly StateName[];

suite('the peers that a state of an agent trusts', () => {
  for (const name of stateNames) {
    const { items, trusts } = states[name];
    test(`${name}: ${trusts ? 'trusted' : 'not trusted'}`, () => {
      assert.equal(trustedOf(items, new Set([peer])).has(peer), trusts);
      assert.equal(allTrusted(items)?.has(peer), trusts);
      assert.equal(trustedOf(items, new Set(['riga.example'])).size, 0);
    });
  }
});

test('a change is about peers only, and reads no other federation', () => {
  const others = Array.from(
    { length: 3 },
    (_, at) =>
      new AgentItem('identities', 'spiffefederations', `site-${at}.example`, Buffer.from('{')),
  );
  const { items } = states.active;
  const [bundle, itself] = items;
  assert.deepEqual([...changedPeers(others, others)], []);
  assert.deepEqual([...changedPeers([...others, bundle], items)], [peer]);
  assert.deepEqual([...changedPeers([itself])], [peer]);
  assert.deepEqual([...changedPeers([bundle])], []);
  // Their values are not even JSON.
  assert.equal(trustedOf([...others, ...items], new Set([peer])).size, 1);
});

async function scene(t: TestContext) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  const held = new HeldByAgents({ store, clock });
  t.after(async () => {
    held.stop();
    await store.close();
  });
  const none = new Set<string>();
  return {
    clock,
    store,
    held,
    connected: (known: ReadonlySet<string> = none) =>
      Object.fromEntries(held.connected(peer, known)),
    others: () => Object.fromEntries(held.others(peer)),
    /** As the claim of a stream does. */
    session: (agent: string, replica: string) =>
      write(sessionsCollection, agent, {
        holder: { stream: 's', session: 'x', replica, serial: '1', sinceMs: clock.now() },
      }),
    agent: (name: string, state?: string) =>
      put(store, 'agents', name, { spec: {}, status: { state } }),
    record: (agent: string, peers: readonly string[]) =>
      write(holdingsCollection, agent, { peers }),
    /** As the release of a claim does. */
    release: async (agent: string) => {
      const { put: puts = [], delete: deletes = [] } = held.released(agent);
      await store.commit({ put: [...puts], delete: [...deletes] });
      return store.get(holdingsCollection, agent)?.value.toString();
    },
  };
  async function write(collection: string, name: string, record: object): Promise<void> {
    const bytes = Buffer.from(JSON.stringify(record));
    await store.commit({ put: [{ collection, name, encode: () => bytes }] });
  }
}

type Scene = Awaited<ReturnType<typeof scene>>;

/** A stream whose agent acknowledges everything at once. */
function stream({ held }: Pick<Scene, 'held'>, agent: string) {
  const holdings = held.opened(agent);
  let before: readonly AgentItem[] = [];
  const send = (name: StateName): void => {
    const { items } = states[name];
    holdings.sends(items, difference(before, items));
    before = items;
  };
  return {
    send,
    holds: (name: StateName) => {
      send(name);
      holdings.acknowledged();
    },
    holdings,
  };
}

suite('an agent', () => {
  test('that is connected rejects a peer when it has acknowledged that, and not when it was sent', async (t) => {
    const site = await scene(t);
    const { holds, send, holdings } = stream(site, 'crane');
    let told = 0;
    site.held.onChange(() => told++);
    holds('active');
    assert.deepEqual(site.connected(), { crane: false });
    send('suspended');
    assert.deepEqual(site.connected(), { crane: false });
    const before = told;
    holdings.acknowledged();
    assert.deepEqual(site.connected(), { crane: true });
    assert.ok(told > before);
    holds('active');
    assert.deepEqual(site.connected(), { crane: false });
  });

  test('that has nothing of the peer is not listed, unless the status names it', async (t) => {
    const site = await scene(t);
    stream(site, 'crane').holds('nothing');
    assert.deepEqual(site.connected(), {});
    assert.deepEqual(site.connected(new Set(['crane', 'other'])), { crane: true });
  });

  test('that refuses a state still holds the one before', async (t) => {
    const site = await scene(t);
    const { holds, send, holdings } = stream(site, 'crane');
    holds('active');
    send('suspended');
    holdings.refused();
    assert.deepEqual(site.connected(), { crane: false });
  });

  test('that has just connected is believed to hold what it held before', async (t) => {
    const site = await scene(t);
    await site.record('crane', []);
    await site.record('barge', [peer]);
    for (const name of ['crane', 'barge', 'dock']) stream(site, name);
    assert.deepEqual(site.connected(), { barge: false, dock: false });
  });

  test('leaves behind what it holds when its stream ends', async (t) => {
    const site = await scene(t);
    const first = stream(site, 'crane');
    first.holds('active');
    first.holdings.ended();
    assert.equal(await site.release('crane'), `{"peers":["${peer}"]}`);
    const second = stream(site, 'crane');
    second.holds('suspended');
    second.holdings.ended();
    assert.equal(await site.release('crane'), '{"peers":[]}');
    // Nothing new: no commit.
    const third = stream(site, 'crane');
    third.holds('suspended');
    third.holdings.ended();
    assert.deepEqual(site.held.released('crane'), {});
    // It ended before the agent had confirmed anything.
    stream(site, 'crane').holdings.ended();
    assert.equal(await site.release('crane'), undefined);
  });

  test('may trust a peer that was none when its stream ended', async (t) => {
    const site = await scene(t);
    await site.agent('crane', 'Disconnected');
    const { holds, holdings } = stream(site, 'crane');
    holds('withoutPeer');
    assert.deepEqual(site.connected(new Set(['crane'])), { crane: false });
    holdings.ended();
    await site.release('crane');
    assert.deepEqual(site.others(), { crane: 'unknown' });
    stream(site, 'crane');
    assert.deepEqual(site.connected(), { crane: false });
  });

  test('with more federations without a peer than are remembered leaves no record', async (t) => {
    const site = await scene(t);
    await site.agent('crane', 'Disconnected');
    await site.record('crane', []);
    const items = Array.from({ length: mostWithoutPeer + 1 }, (_, at) =>
      federation(`site-${at}.example`, { kept: false }),
    );
    const holdings = site.held.opened('crane');
    holdings.sends(items, difference([], items));
    holdings.acknowledged();
    holdings.ended();
    assert.equal(await site.release('crane'), undefined);
    assert.deepEqual(site.others(), { crane: 'unknown' });
  });

  test('that may have got a state which it did not acknowledge is believed to hold it', async (t) => {
    const site = await scene(t);
    const { holds, send, holdings } = stream(site, 'crane');
    holds('nothing');
    send('active');
    holdings.ended();
    assert.equal(await site.release('crane'), `{"peers":["${peer}"]}`);
  });

  test('that is not connected is unknown if it may still trust the peer', async (t) => {
    const site = await scene(t);
    await site.agent('site', 'Connected');
    await site.agent('new', 'Joined');
    await site.agent('old', 'Disconnected');
    await site.agent('clean', 'Disconnected');
    await site.record('clean', []);
    await site.agent('holder', 'Disconnected');
    await site.record('holder', ['riga.example', peer]);
    await site.agent('elsewhere', 'Connected');
    await site.session('elsewhere', 'two');
    await site.agent('lost', 'Connected');
    await site.agent('here', 'Connected');
    stream(site, 'here').holds('active');
    assert.deepEqual(site.others(), {
      new: 'rejects',
      old: 'unknown',
      clean: 'rejects',
      holder: 'unknown',
      elsewhere: 'elsewhere',
      lost: 'unknown',
    });
    // The replica that served it died, and did not say what it holds.
    await site.record('elsewhere', []);
    await site.clock.advance(120_000);
    assert.equal(site.others()['elsewhere'], 'unknown');
    const bytes = Buffer.from(JSON.stringify({ aliveAtMs: site.clock.now() }));
    await site.store.commit({
      put: [{ collection: replicasCollection, name: 'two', encode: () => bytes }],
    });
    assert.equal(site.others()['elsewhere'], 'elsewhere');
  });
});

// The model: the set of states that the agent may hold. It may be in all of them at once.
const step = fc.oneof(
  fc.record({ do: fc.constant('send' as const), state: fc.constantFrom(...stateNames) }),
  fc.record({
    do: fc.constantFrom('acknowledge' as const, 'refuse' as const, 'end' as const, 'open' as const),
  }),
);

/** The agent comes back with what it held. */
const comingBack = [
  { do: 'open' as const },
  { do: 'send' as const, state: 'withoutPeer' as const },
  { do: 'acknowledge' as const },
  { do: 'end' as const },
  { do: 'open' as const },
];

/** Random steps seldom end with an agent that is away and rejects the peer. */
const rejecting = [
  { do: 'open' as const },
  { do: 'send' as const, state: 'nothing' as const },
  { do: 'acknowledge' as const },
  { do: 'end' as const },
];

test('an agent is never said to reject a peer while it may hold a state that trusts it', async (t) => {
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const site = await scene(t);
      await site.agent('crane', 'Disconnected');
      let open: ReturnType<typeof stream> | undefined;
      let sent: StateName | undefined;
      /** Undefined: anything. */
      let may: ReadonlySet<StateName> | undefined;
      let isConfirmed = false;
      for (const one of steps) {
        if (one.do === 'open' && open === undefined) {
          open = stream(site, 'crane');
          isConfirmed = false;
        } else if (one.do === 'end' && open !== undefined) {
          open.holdings.ended();
          await site.release('crane');
          if (isConfirmed && sent !== undefined) may = new Set([...(may ?? []), sent]);
          if (!isConfirmed) may = undefined;
          [open, sent] = [undefined, undefined];
        } else if (one.do === 'send' && open !== undefined && sent === undefined) {
          open.send(one.state);
          sent = one.state;
        } else if (one.do === 'acknowledge' && open !== undefined && sent !== undefined) {
          open.holdings.acknowledged();
          [may, sent, isConfirmed] = [new Set([sent]), undefined, true];
        } else if (one.do === 'refuse' && open !== undefined && sent !== undefined) {
          open.holdings.refused();
          sent = undefined;
        }
        const possible = [...(may ?? stateNames), ...(sent === undefined ? [] : [sent])];
        const mayTrust = possible.some((name) => states[name].trusts);
        const said = site.connected(new Set(['crane']))['crane'];
        const away = site.others()['crane'];
        assert.equal(open === undefined, said === undefined);
        assert.equal(open === undefined, away !== undefined);
        if (mayTrust) {
          assert.notEqual(said, true, JSON.stringify(steps));
          assert.notEqual(away, 'rejects', JSON.stringify(steps));
        } else if (isConfirmed) {
          assert.notEqual(said, false);
          assert.notEqual(away, 'unknown');
        }
        seen.add(`${said} ${away}`);
      }
    }),
    { numRuns: 300, examples: [[rejecting], [comingBack]] },
  );
  assert.deepEqual([...seen].toSorted(), [
    'false undefined',
    'true undefined',
    'undefined rejects',
    'undefined unknown',
  ]);
});

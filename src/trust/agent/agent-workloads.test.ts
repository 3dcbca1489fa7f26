import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { status } from '@grpc/grpc-js';
import { SeededRandom } from '../../core/clock/seeded-random.ts';
import { settle, VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import { encodeSpiffeBundle } from '../../core/identity/bundle/spiffe-bundle.ts';
import { Certificate } from '../../core/identity/x509/certificate.ts';
import { exportPkcs8, generateP256 } from '../../core/identity/x509/keys.ts';
import {
  check,
  fetchBundles,
  fetchSvids,
  openAuthority,
  ownUid,
  put,
  putEntry,
  putFederation,
  remove,
} from '../workload/test-workload-site.ts';
import type { KeptSvid, SvidVault } from './agent-workloads.ts';
import { startAgentWith, testAgentState } from './test-agent-workloads.ts';

const none = () => [];

async function agent(t: TestContext, options: Parameters<typeof startAgentWith>[1] = {}) {
  const state = await testAgentState(new VirtualClock());
  const started = await startAgentWith(state, options);
  t.after(async () => {
    await started.stop();
    await state.store.close();
  });
  const opened = <S extends { close(): void }>(stream: S): S => {
    t.after(() => stream.close());
    return stream;
  };
  return {
    ...started,
    state,
    svids: () => opened(fetchSvids(started.socket)),
    bundles: () => opened(fetchBundles(started.socket)),
    /** Until the site has signed so many times. */
    signed: async (messages: number) => {
      while (started.link.batches.length < messages || started.link.inFlight > 0)
        await tick(started);
    },
  };
}

/** A batch leaves, and real work such as signatures goes on. */
async function tick({ clock }: { readonly clock: VirtualClock }): Promise<void> {
  await clock.advance(1);
  await settle();
}

/** Lets time pass until the promise is settled: the messages of the socket come in real time. */
async function passing<T>(on: { readonly clock: VirtualClock }, promise: Promise<T>): Promise<T> {
  const settlement = Promise.allSettled([promise]);
  const isPending = () => Promise.race([settlement.then(() => false), settle().then(() => true)]);
  while (await isPending()) await tick(on);
  return promise;
}

const authorityOf = (chain: Uint8Array): string =>
  Certificate.parse(chain).extensions.authorityKeyId?.toString('hex') ?? '';

suite('workloads of an agent', () => {
  test('are not served before the site has sent a state', async (t) => {
    const clock = new VirtualClock();
    const state = await testAgentState(clock);
    t.after(() => state.store.close());
    const started = startAgentWith(state, { hasState: false });
    await assert.rejects(started, (error: HansaError) => {
      assert.equal(error.code, 'HANSA_UNAVAILABLE');
      return error.message.includes('has sent no state yet');
    });
  });

  test('that start while the site is dark get the SVIDs that the agent asked ahead for', async (t) => {
    const { store, clock, link, signed, svids } = await agent(t);
    await putEntry(store, 'web');
    await signed(1);
    link.darkSinceMs = clock.now();
    const message = await svids().next();
    assert.equal(message.svids[0]?.spiffeId, 'spiffe://lubeck.example/web');
  });

  test('keep their SVID while the site is dark until it expires, and get one when it is back', async (t) => {
    const { store, clock, link, signed, svids, services, logged } = await agent(t);
    await putEntry(store, 'web', { ttlSeconds: 600 });
    await signed(1);
    const stream = svids();
    const first = (await stream.next()).svids[0];
    link.darkSinceMs = clock.now();
    await clock.advance(590_000);
    assert.deepEqual((await svids().next()).svids[0]?.x509Svid, first?.x509Svid);
    // An attempt waits for random bytes in real time, which the virtual clock cannot see.
    while (!/cannot issue SVIDs, last for entry web/.test(services.report().problems.join())) {
      await tick({ clock });
    }
    await clock.advance(20_000);
    assert.equal((await passing({ clock }, stream.end())).code, status.UNAVAILABLE);
    const late = await passing({ clock }, svids().end());
    assert.equal(late.code, status.UNAVAILABLE);
    assert.match(late.details, /No SVID can be issued now/);
    assert.ok(logged.some((line) => /cannot issue an SVID .*"entry":"web"/.test(line)));
    link.darkSinceMs = undefined;
    services.refresh();
    await signed(link.batches.length + 1);
    assert.notDeepEqual((await svids().next()).svids[0]?.x509Svid, first?.x509Svid);
    assert.deepEqual(services.report().problems, []);
  });

  test('get another SVID within a second when the authority of theirs is tainted', async (t) => {
    const { store, clock, authority, signed, svids } = await agent(t);
    await putEntry(store, 'web');
    await signed(1);
    const stream = svids();
    const first = (await stream.next()).svids[0]?.x509Svid as Uint8Array;
    await authority.prepare('x509', none);
    await authority.activate('x509', undefined, none);
    await authority.taint('x509', undefined, none);
    await settle();
    const sinceMs = clock.now();
    let next = first;
    while (authorityOf(next) === authorityOf(first)) {
      next = (await passing({ clock }, stream.next())).svids[0]?.x509Svid as Uint8Array;
    }
    assert.ok(clock.now() - sinceMs < 1_000, `${clock.now() - sinceMs} ms`);
  });

  test('get no SVID of an entry that the site refuses, and the log says why', async (t) => {
    const { store, clock, link, signed, svids, logged } = await agent(t);
    link.x509 = () => ({
      refusal: { code: 'HANSA_TOO_MANY_REQUESTS', message: 'Over the quota.' },
    });
    await putEntry(store, 'web');
    await signed(1);
    assert.equal((await passing({ clock }, svids().end())).code, status.UNAVAILABLE);
    assert.ok(logged.some((line) => line.startsWith('cannot issue an SVID')));
  });

  test('get the bundle of a federation until it is stale by time alone, with the site dark', async (t) => {
    const { store, clock, link, bundles } = await agent(t);
    const other = await openAuthority('bruges.example', clock);
    const bundle = encodeSpiffeBundle(other.bundle, { sequence: 1, refreshHintSeconds: 60 });
    await put(store, 'spiffefederations', 'bruges.example', {
      spec: { bundleSource: { httpsSpiffe: {} }, staleAfterSeconds: 120, quarantined: false },
      status: {
        bundle,
        source: 'https_spiffe',
        refreshHintSeconds: 60,
        syncedAt: new Date(clock.now()).toISOString(),
      },
    });
    await putEntry(store, 'web', { federatesWith: ['*'] });
    await tick({ clock });
    const stream = bundles();
    assert.equal(Object.keys((await stream.next()).bundles).length, 2);
    link.darkSinceMs = clock.now();
    await clock.advance(170_000);
    assert.equal(stream.waiting, 0);
    await clock.advance(12_000);
    assert.deepEqual(Object.keys((await stream.next()).bundles), ['spiffe://lubeck.example']);
  });

  test('lose everything when the site forgets the agent, and nothing is signed any more', async (t) => {
    const { store, link, signed, svids, services, state } = await agent(t);
    await putEntry(store, 'web');
    await signed(1);
    const stream = svids();
    await stream.next();
    const messages = link.batches.length;
    await remove(state.store, 'workloadentries', 'web');
    services.dropAll();
    await tick(state);
    assert.equal((await stream.end()).code, status.PERMISSION_DENIED);
    await putEntry(store, 'web');
    assert.equal((await passing(state, svids().end())).code, status.UNAVAILABLE);
    assert.equal(link.batches.length, messages);
  });

  test('are counted in the report for the site', async (t) => {
    const { store, signed, svids, services } = await agent(t);
    await putEntry(store, 'web');
    await putEntry(store, 'other', { selectors: [`unix:uid:${ownUid + 1}`] });
    await signed(1);
    await svids().next();
    assert.deepEqual(services.report(), { entries: 2, workloads: 1, problems: [] });
  });
});

suite('ext_authz on an agent', () => {
  async function scene(t: TestContext) {
    const made = await agent(t);
    const { store, clock, socket } = made;
    await putFederation(store, await openAuthority('bruges.example', clock));
    await putEntry(store, 'db', { federatesWith: ['*'] });
    await put(store, 'serviceoffers', 'db', { spec: { spiffeID: 'spiffe://lubeck.example/db' } });
    await put(store, 'federationpeers', 'bruges.example', {
      spec: { desiredState: 'active' },
      status: { state: 'active' },
    });
    await put(store, 'federationgrants', 'bruges-db', {
      spec: {
        peer: 'bruges.example',
        offers: ['db'],
        nodeInstances: { unrestricted: true },
        networks: { unrestricted: true },
        sourceCIDRs: { unrestricted: true },
      },
    });
    const ask = async () =>
      (await check(socket, { principal: 'spiffe://bruges.example/web', offer: 'db' })).status?.code;
    return { ...made, ask };
  }

  test('decides without the site until maxOfflineSeconds, and then denies with a reason', async (t) => {
    const { ask, clock, link, metrics, logged, services } = await scene(t);
    assert.equal(await ask(), status.OK);
    link.darkSinceMs = clock.now();
    await clock.advance(59_999);
    assert.equal(await ask(), status.OK);
    await clock.advance(1);
    assert.equal(await ask(), status.PERMISSION_DENIED);
    assert.match(metrics.expose(), /hansa_workload_checks_total\{result="contact"\} 1\n/);
    const reason = /no contact with its site since 2026-.*after 60 seconds without contact/;
    assert.ok(logged.some((line) => line.startsWith('denied access') && reason.test(line)));
    assert.match(services.report().problems.join(), reason);
    link.darkSinceMs = undefined;
    assert.equal(await ask(), status.OK);
    assert.doesNotMatch(services.report().problems.join(), reason);
  });

  test('follows a changed maxOfflineSeconds, and with 0 needs contact', async (t) => {
    const { ask, clock, link, setMaxOffline } = await scene(t);
    await setMaxOffline(0);
    assert.equal(await ask(), status.OK);
    link.darkSinceMs = clock.now();
    assert.equal(await ask(), status.PERMISSION_DENIED);
  });
});

class MemoryVault implements SvidVault {
  #held: () => readonly KeptSvid[] = () => [];
  get svids(): readonly KeptSvid[] {
    return this.#held();
  }
  set svids(svids: readonly KeptSvid[]) {
    this.#held = () => svids;
  }
  async load(): Promise<readonly KeptSvid[]> {
    return this.svids;
  }
  save(held: () => readonly KeptSvid[]): void {
    this.#held = held;
  }
}

suite('SVIDs that are kept across a restart', () => {
  /** An agent with the entry web that stopped, what it kept, and how to start it again with the site dark. */
  async function stopped(t: TestContext) {
    const kept = new MemoryVault();
    const state = await testAgentState(new VirtualClock());
    t.after(() => state.store.close());
    const first = await startAgentWith(state, { kept });
    await putEntry(state.store, 'web');
    while (kept.svids.length === 0) await tick(state);
    await first.stop();
    const restart = async () => {
      const started = await startAgentWith(state, { kept, darkSinceMs: state.clock.now() });
      t.after(started.stop);
      const stream = fetchSvids(started.socket);
      t.after(() => stream.close());
      return stream;
    };
    return { kept, state, restart };
  }

  test('are served with the site dark', async (t) => {
    const { kept, restart } = await stopped(t);
    const message = await (await restart()).next();
    assert.deepEqual(Buffer.from(message.svids[0]?.x509SvidKey ?? []), kept.svids[0]?.key);
  });

  test('are not kept when their entry is deleted', async (t) => {
    const { kept, state } = await stopped(t);
    const started = await startAgentWith(state, { kept });
    t.after(started.stop);
    await remove(state.store, 'workloadentries', 'web');
    await tick(state);
    assert.deepEqual(kept.svids, []);
  });

  const spoiled: Readonly<
    Record<string, (made: Awaited<ReturnType<typeof stopped>>) => void | Promise<void>>
  > = {
    'the entry is another one of the same name': ({ kept }) => {
      kept.svids = kept.svids.map((one) => ({ ...one, entryUid: 'another' }));
    },
    'the key is another one': async ({ kept }) => {
      const other = exportPkcs8(await generateP256(new SeededRandom('other')));
      kept.svids = kept.svids.map((one) => ({ ...one, key: other }));
    },
    'the key is damaged': ({ kept }) => {
      kept.svids = kept.svids.map((one) => ({ ...one, key: Buffer.from('key') }));
    },
    'the chain is damaged': ({ kept }) => {
      kept.svids = kept.svids.map((one) => ({ ...one, chain: [Buffer.from('chain')] }));
    },
    'it has expired': ({ state }) => state.clock.advance(3_700_000),
  };
  for (const [why, spoil] of Object.entries(spoiled)) {
    test(`are not served where ${why}`, async (t) => {
      const made = await stopped(t);
      await spoil(made);
      const stream = await made.restart();
      assert.equal((await passing(made.state, stream.end())).code, status.UNAVAILABLE);
    });
  }
});

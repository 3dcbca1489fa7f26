import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { suite, test, type TestContext } from 'node:test';
import { SpiffeId } from '../../api/values/spiffe-id.ts';
import { TrustDomain } from '../../api/values/trust-domain.ts';
import { VirtualClock } from '../../core/clock/virtual.ts';
import { HansaError } from '../../core/errors/error.ts';
import type { ValidatedSvid } from '../../core/identity/x509/svid-validator.ts';
import { federationCheck } from '../../core/plane/route-access.ts';
import { openStore } from '../../core/store/open.ts';
import { FederatedBundles } from '../federation/federated-bundles.ts';
import { StoreFederationState } from '../authorization/federation-state.ts';
import { openAuthority } from '../workload/test-workload-site.ts';
import { agentDirectory } from './agent-directory.ts';
import { type Member, Members } from './members.ts';
import { refusedSvid } from './refused-svids.ts';
import { putObject } from './test-join-site.ts';

const trustDomain = TrustDomain.parse('lubeck.example');
const crane = 'spiffe://lubeck.example/hansa/agent/crane';
const svid = (id: string, serialHex = '02', key = 'another key', notBeforeMs = 0): ValidatedSvid =>
  ({
    id: SpiffeId.parse(id),
    serialHex,
    leaf: { spki: Buffer.from(key) },
    notBeforeMs,
  }) as ValidatedSvid;

async function scene(t: TestContext, more: Partial<Member> = {}) {
  const clock = new VirtualClock();
  const store = await openStore({ driver: 'memory' }, { clock });
  t.after(() => store.close());
  const members = new Members(store, clock);
  await members.put(
    'agent/crane',
    undefined,
    {
      role: 'agent',
      name: 'crane',
      token: 'machines',
      provenBy: 'token machines',
      joinedAtMs: 0,
      renewedAtMs: 0,
      generation: 2,
      serial: '02',
      previousSerial: '01',
      key: hash('sha256', 'newest key', 'hex'),
      notAfterMs: 0,
      ...more,
    },
    [],
  );
  const authority = await openAuthority('lubeck.example', clock);
  const bundles = new FederatedBundles(store, authority, clock);
  const federationState = new StoreFederationState(store, bundles);
  const log = { warn: (text: string) => assert.fail(text) };
  const trust = { trustDomain, federationState, authority };
  const directory = agentDirectory({ ...trust, store, members, clock, log });
  return { store, members, directory, clock };
}

suite('an agent', () => {
  test('is known by its newest SVID and by the one before', async (t) => {
    const { directory } = await scene(t);
    assert.deepEqual(directory.find(svid(crane, '02')), { name: 'crane' });
    assert.deepEqual(directory.find(svid(crane, '01')), { name: 'crane', superseded: true });
  });

  test('is known by every certificate of its newest key and of the one before', async (t) => {
    const previousKey = hash('sha256', 'previous key', 'hex');
    const { directory } = await scene(t, { previousKey });
    assert.deepEqual(directory.find(svid(crane, '07', 'newest key')), { name: 'crane' });
    const previous = directory.find(svid(crane, '08', 'previous key'));
    assert.deepEqual(previous, { name: 'crane', superseded: true });
  });

  test('with an SVID that it has renewed keeps an open call, and cannot open another', async (t) => {
    const { directory } = await scene(t);
    const check = federationCheck({ allow: 'agent' }, { peers: undefined, agents: directory });
    const request = { path: '', address: undefined, peerChain: [], svid: svid(crane, '01') };
    assert.equal(check?.({ ...request, wasAdmitted: true }).agent?.name, 'crane');
    assert.throws(() => check?.(request), {
      code: 'HANSA_FORBIDDEN',
      message: /agent crane has renewed this SVID, so use the newer one/,
    });
    assert.equal(check?.({ ...request, svid: svid(crane) }).agent?.name, 'crane');
  });

  test('is not the machine of the site, even if it joined under that name', async (t) => {
    const { directory, members } = await scene(t);
    const member = members.get('agent/crane')?.member;
    assert.ok(member);
    await members.put('agent/site', undefined, { ...member, name: 'site' }, []);
    const found = directory.find(svid('spiffe://lubeck.example/hansa/agent/site'));
    assert.equal(found, 'site is the machine of the site itself');
  });

  for (const [what, shown, why] of [
    ['without an SVID', undefined, /no SVID/],
    ['with an SVID before those', svid(crane, '00'), /newer SVIDs/],
    ['that has not joined', svid('spiffe://lubeck.example/hansa/agent/other'), /has joined/],
    ['of another site', svid('spiffe://bruges.example/hansa/agent/crane'), /not an agent/],
    ['that is a bot', svid('spiffe://lubeck.example/hansa/bot/crane'), /not an agent/],
    ['that is a workload', svid('spiffe://lubeck.example/agent/crane'), /not an agent/],
    ['with a longer path', svid('spiffe://lubeck.example/hansa/agent/crane/x'), /not an agent/],
    ['without a name', svid('spiffe://lubeck.example/hansa/agent'), /not an agent/],
  ] as const) {
    test(`${what} is refused`, async (t) => {
      const { directory } = await scene(t);
      assert.match(JSON.stringify(directory.find(shown)), why);
    });
  }

  test('is refused when it is forgotten, and the change is told', async (t) => {
    const { directory, members, clock } = await scene(t);
    const told: unknown[] = [];
    t.after(directory.onChange((agents) => told.push(agents)));
    await members.forget('agent/crane', []);
    await clock.advance(0);
    assert.match(JSON.stringify(directory.find(svid(crane))), /no agent crane has joined/);
    assert.deepEqual(told, [['crane']]);
  });

  for (const [what, shown, code] of [
    [
      'that was forgotten',
      svid('spiffe://lubeck.example/hansa/agent/other'),
      'HANSA_UNAUTHENTICATED',
    ],
    ['with an older SVID', svid(crane, '00'), 'HANSA_FORBIDDEN'],
    ['without a valid SVID', undefined, 'HANSA_FORBIDDEN'],
    ['of another site', svid('spiffe://bruges.example/hansa/agent/other'), 'HANSA_FORBIDDEN'],
  ] as const) {
    test(`${what} gets an error that says whether a newer SVID helps`, async (t) => {
      const { directory } = await scene(t);
      const request = { path: '', address: undefined, peerChain: [], svid: shown };
      assert.equal(directory.refuse(request, 'it is so').code, code);
    });
  }

  test('with an older SVID is reported with its address, without a change of its record', async (t) => {
    const { directory, members, store, clock } = await scene(t);
    const { revision } = members.get('agent/crane') ?? {};
    const refuse = (shown: ValidatedSvid): unknown =>
      directory.refuse({ path: '', address: '192.0.2.1', peerChain: [], svid: shown }, 'so');
    for (const shown of [
      svid(crane),
      svid(crane, '07', 'newest key'),
      svid('spiffe://lubeck.example/hansa/agent/other', '00'),
      svid('spiffe://lubeck.example/hansa/bot/crane', '00'),
      svid('spiffe://lubeck.example/agent/crane', '00'),
      svid('spiffe://bruges.example/hansa/agent/crane', '00'),
    ]) {
      refuse(shown);
      await clock.advance(0);
      assert.equal(store.count('trust.member-refusals'), 0, shown.id.toString());
    }
    refuse(svid(crane, '00'));
    await clock.advance(0);
    assert.deepEqual(refusedSvid(store, 'agent/crane'), {
      atMs: clock.now(),
      serial: '00',
      why: 'it tried to connect, and generation 2 is the newest',
      address: '192.0.2.1',
    });
    assert.equal(members.get('agent/crane')?.revision, revision);
  });

  test('with the SVID before is reported, but not while it may not know of its own renewal', async (t) => {
    const previousKey = hash('sha256', 'previous key', 'hex');
    const { directory, members, store, clock } = await scene(t, { previousKey });
    const kept = members.get('agent/crane');
    assert.ok(kept);
    await members.put('agent/crane', kept, { ...kept.member, renewedAtMs: clock.now() }, []);
    for (const [afterMs, count] of [
      [59_999, 0],
      [1, 1],
    ] as const) {
      await clock.advance(afterMs);
      for (const shown of [svid(crane, '01'), svid(crane, '08', 'previous key')]) {
        directory.refuse({ path: '', address: '192.0.2.1', peerChain: [], svid: shown }, 'so');
        await clock.advance(0);
      }
      assert.equal(store.count('trust.member-refusals'), count);
    }
  });

  for (const [what, shown] of [
    ['joined', 'spiffe://lubeck.example/hansa/agent/other'],
    ['renewed', crane],
  ] as const) {
    test(`that ${what} at another replica a moment ago is told to try again`, async (t) => {
      const { directory, store, clock } = await scene(t);
      const refuse = (wasAdmitted: boolean) =>
        directory.refuse(
          {
            path: '',
            address: undefined,
            peerChain: [],
            svid: svid(shown, '00', 'a key', issuedAtMs - 60_000),
            wasAdmitted,
          },
          'so',
        );
      const issuedAtMs = clock.now();
      await clock.advance(9_000);
      assert.equal(refuse(false).code, 'HANSA_UNAVAILABLE');
      await clock.advance(0);
      assert.equal(store.count('trust.member-refusals'), 0);
      assert.notEqual(refuse(true).code, 'HANSA_UNAVAILABLE');
      await clock.advance(1_000);
      assert.notEqual(refuse(false).code, 'HANSA_UNAVAILABLE');
    });
  }

  test('whose open stream has become older is not reported: it renewed itself', async (t) => {
    const { directory, store, clock } = await scene(t);
    const request = { path: '', address: undefined, peerChain: [], svid: svid(crane, '00') };
    directory.refuse({ ...request, wasAdmitted: true }, 'it is so');
    await clock.advance(0);
    assert.equal(refusedSvid(store, 'agent/crane'), undefined);
  });

  test('that renews tells its own name, and a bot tells none', async (t) => {
    const { directory, members, clock } = await scene(t);
    const told: unknown[] = [];
    t.after(directory.onChange((agents) => told.push(agents)));
    const kept = members.get('agent/crane');
    assert.ok(kept);
    await members.put('agent/crane', kept, { ...kept.member, generation: 3 }, []);
    await members.put('bot/ci/1', undefined, { ...kept.member, role: 'bot', name: 'ci' }, []);
    await clock.advance(0);
    assert.deepEqual(told, [['crane']]);
  });

  test('that changes after a watch was lost is told, too', async (t) => {
    const { directory, members, store, clock } = await scene(t);
    const lose: (() => void)[] = [];
    const watch = store.watch.bind(store);
    store.watch = (collection, revision, sink) => {
      const running = watch(collection, revision, sink);
      lose.push(() => {
        running.stop();
        sink.ended(new HansaError('HANSA_EXPIRED', 'too far behind'));
      });
      return running;
    };
    const told: unknown[] = [];
    t.after(directory.onChange((agents) => told.push(agents)));
    for (let time = 1; time <= 2; time++) {
      for (const one of lose.splice(0)) one();
      const kept = members.get('agent/crane');
      assert.ok(kept);
      // While there is no watch.
      await members.put('agent/crane', kept, { ...kept.member, generation: 3 }, []);
      await clock.advance(100);
      assert.deepEqual(told.splice(0), [['crane']]);
    }
    const metadata = { name: 'bruges.example', uid: 'u1' };
    await putObject(store, 'federationpeers', { metadata, spec: {} });
    await clock.advance(0);
    assert.deepEqual(told, [undefined]);
  });

  test('is refused when the peer that vouched for it is stopped', async (t) => {
    const { directory, store } = await scene(t, {
      provenBy: 'spiffe://bruges.example/ci',
      peerUid: 'u1',
    });
    const peer = (state: string): Promise<void> =>
      putObject(store, 'federationpeers', {
        metadata: { name: 'bruges.example', uid: 'u1' },
        spec: {},
        status: { state },
      });
    await putObject(store, 'spiffefederations', {
      metadata: { name: 'bruges.example', uid: 'u2' },
      spec: { bundleSource: { static: { bundle: '{}' } } },
    });
    await peer('active');
    assert.deepEqual(directory.find(svid(crane)), { name: 'crane' });
    for (const state of ['suspended', 'revoked']) {
      await peer(state);
      assert.match(JSON.stringify(directory.find(svid(crane))), new RegExp(`is ${state}`));
    }
  });
});

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { agentKind } from '../../api/kinds/agent.ts';
import { timestamp } from '../../api/object.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { ObjectDraft } from '../../server/resources/object-of.ts';
import { agentEpoch } from '../agents/agent-epoch.ts';
import { agentsSite, day, hour } from '../agents/test-agents-site.ts';
import { membersCollection, recordsOf } from '../join/member-records.ts';
import type { Member } from '../join/members.ts';
import { put } from '../workload/test-workload-site.ts';

const labelled =
  (labels: Record<string, string>) =>
  (live: ObjectDraft | undefined): ObjectDraft => {
    assert.ok(live);
    return { ...live, metadata: { ...live.metadata, labels } };
  };

suite('the Agent of a machine', () => {
  test('appears after the machine joined, with the labels of its token', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { zone: 'harbour' } });
    await site.join('crane_2');
    await site.reconcile('crane-1');
    await site.reconcile('crane_2');
    const agent = await site.client.get('crane-1');
    assert.deepEqual(agent?.metadata.labels, { zone: 'harbour' });
    assert.equal(agent.spec.maxOfflineSeconds, 3600);
    assert.equal((await site.client.get('crane_2'))?.metadata.labels, undefined);
  });

  test('that cannot be created is an error, which is retried and logged', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { 'not a label': '' } });
    await assert.rejects(site.reconcile('crane-1'), (error) => hasCode(error, 'HANSA_INVALID'));
  });

  test('keeps the labels of an operator when the machine renews its SVID', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { zone: 'harbour' } });
    await site.reconcile('crane-1');
    await site.writer.update(
      agentKind,
      'crane-1',
      undefined,
      { ...site.context, verb: 'update' },
      labelled({ zone: 'gate' }),
    );
    await site.join('crane-1', { labels: { zone: 'harbour' }, generation: 2 });
    await site.reconcile('crane-1');
    assert.deepEqual((await site.client.get('crane-1'))?.metadata.labels, { zone: 'gate' });
  });

  test('tells its state, why, since when, and what the record of joining knows', async (t) => {
    const site = await agentsSite(t);
    const joinedAt = timestamp(site.clock.now());
    await site.join('crane-1');
    await site.reconcile('crane-1');
    const again = await site.reconcile('crane-1');
    assert.deepEqual(again, { requeueAfterMs: hour });
    const status = (await site.client.get('crane-1'))?.status;
    assert.equal(status?.state, 'Joined');
    assert.equal(status.since, joinedAt);
    assert.match(status.reason ?? '', /hansa agent run/);
    assert.equal(status.token, 'machines');
    assert.equal(status.joinedAt, joinedAt);
    assert.equal(status.svidExpiresAt, timestamp(site.clock.now() + hour));
    assert.equal(status.conditions?.[0]?.status, 'False');
  });

  test('is Connected with its stream, and Disconnected some seconds after the stream ended', async (t) => {
    const site = await agentsSite(t);
    const state = async () => (await site.client.get('crane-1'))?.status?.state;
    await site.join('crane-1');
    await site.reconcile('crane-1');
    await site.connect('crane-1');
    await site.reconcile('crane-1');
    assert.equal(await state(), 'Connected');
    const uid = (await site.client.get('crane-1'))?.metadata.uid;
    site.store.facts.merge('agents', 'crane-1', {
      uid,
      lastSeenAt: timestamp(site.clock.now()),
      host: 'crane-1.local',
    });
    await site.disconnect('crane-1');
    const again = await site.reconcile('crane-1');
    // It may reconnect at once, with a renewed SVID.
    assert.deepEqual([await state(), again], ['Connected', { requeueAfterMs: 5000 }]);
    await site.clock.advance(5000);
    await site.reconcile('crane-1');
    const agent = await site.client.get('crane-1');
    assert.equal(agent?.status?.state, 'Disconnected');
    assert.equal(agent.status.host, 'crane-1.local');
    assert.equal(agent.status.conditions?.[0]?.status, 'False');
  });

  test('is Disconnected at once when its stream ended because it did not answer', async (t) => {
    const site = await agentsSite(t);
    const state = async () => (await site.client.get('crane-1'))?.status?.state;
    await site.join('crane-1');
    await site.reconcile('crane-1');
    const uid = (await site.client.get('crane-1'))?.metadata.uid;
    await site.connect('crane-1');
    await site.reconcile('crane-1');
    const lastSeenAt = timestamp(site.clock.now());
    site.store.facts.merge('agents', 'crane-1', { uid, lastSeenAt, isLost: true });
    await site.disconnect('crane-1');
    await site.reconcile('crane-1');
    assert.equal(await state(), 'Disconnected');
    // It came back through another replica, of whose streams this one has no facts.
    await site.clock.advance(60_000);
    await site.connect('crane-1');
    await site.reconcile('crane-1');
    await site.disconnect('crane-1');
    await site.reconcile('crane-1');
    assert.equal(await state(), 'Connected');
  });

  test('stays Connected over a short gap', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    await site.reconcile('crane-1');
    for (let gap = 0; gap < 3; gap++) {
      await site.connect('crane-1');
      await site.reconcile('crane-1');
      await site.disconnect('crane-1');
      await site.reconcile('crane-1');
      await site.clock.advance(3000);
    }
    await site.connect('crane-1');
    await site.reconcile('crane-1');
    const since = site.records.filter(({ reason }) => reason?.includes('→ Connected'));
    assert.equal(since.length, 1);
  });

  test('is Connected without facts here if it has a stream at another replica that lives', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    await site.connect('crane-1');
    for (let run = 0; run < 2; run++) await site.reconcile('crane-1');
    const state = async () => (await site.client.get('crane-1'))?.status?.state;
    for (let minute = 0; minute < 5; minute++) {
      await site.clock.advance(60_000);
      await site.renewReplica();
      assert.deepEqual(await site.reconcile('crane-1'), { requeueAfterMs: 60_000 });
      assert.equal(await state(), 'Connected');
    }
    // The replica dies.
    await site.clock.advance(60_000);
    await site.reconcile('crane-1');
    await site.clock.advance(5000);
    for (let run = 0; run < 2; run++) {
      await site.reconcile('crane-1');
      assert.equal(await state(), 'Disconnected');
    }
  });

  test('writes no status for a new stream of a connected agent', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    await site.connect('crane-1');
    for (let run = 0; run < 2; run++) await site.reconcile('crane-1');
    await site.clock.advance(30_000);
    await site.connect('crane-1');
    const { revision } = site.store;
    await site.reconcile('crane-1');
    assert.equal(site.store.revision, revision);
  });

  test('writes no commit where nothing changed, whatever the facts are', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    await site.connect('crane-1');
    for (let run = 0; run < 2; run++) await site.reconcile('crane-1');
    const { revision } = site.store;
    const uid = (await site.client.get('crane-1'))?.metadata.uid;
    for (let beat = 0; beat < 5; beat++) {
      await site.clock.advance(10_000);
      const lastSeenAt = timestamp(site.clock.now());
      site.store.facts.merge('agents', 'crane-1', { uid, lastSeenAt, workloads: beat });
      await site.reconcile('crane-1');
    }
    assert.equal(site.store.revision, revision);
    assert.equal((await site.client.get('crane-1'))?.status?.workloads, 4);
  });

  test('is Expired with its SVID, and Conflicted as the record says', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    for (let run = 0; run < 2; run++) await site.reconcile('crane-1');
    await site.clock.advance(hour);
    assert.deepEqual(await site.reconcile('crane-1'), { requeueAfterMs: 7 * day });
    assert.equal((await site.client.get('crane-1'))?.status?.state, 'Expired');
    await site.join('crane-1', { conflictedAtMs: site.clock.now(), conflict: 'two hosts use it' });
    await site.reconcile('crane-1');
    const status = (await site.client.get('crane-1'))?.status;
    assert.equal(status?.state, 'Conflicted');
    assert.match(status.reason ?? '', /two hosts use it.*hansa agent reinstate crane-1/);
    assert.equal(status.since, timestamp(site.clock.now()));
  });

  test('is Suspended while the peer that vouched for it is suspended', async (t) => {
    const site = await agentsSite(t);
    const peer = (desiredState: string, state: string) =>
      put(site.store, 'federationpeers', 'bruges.example', {
        spec: { url: 'https://bruges.example:8443', desiredState },
        status: { state },
      });
    await peer('active', 'active');
    await site.join('crane-1', {
      provenBy: 'spiffe://bruges.example/ci/a',
      peerUid: 'uid-bruges.example',
    });
    await site.reconcile('crane-1');
    await peer('suspended', 'suspended');
    await site.reconcile('crane-1');
    const status = (await site.client.get('crane-1'))?.status;
    assert.equal(status?.state, 'Suspended');
    assert.match(status.reason ?? '', /bruges\.example/);
    // A change of the peer makes the controller look at the agent.
    const keys: string[] = [];
    const running = (site.controller?.sources ?? []).map((source) =>
      source.start({ add: (key) => keys.push(key), ended: () => undefined }),
    );
    keys.length = 0;
    await peer('active', 'active');
    for (const one of running) one.stop();
    assert.deepEqual([...new Set(keys)], ['crane-1']);
  });

  suite('of which an older SVID was refused', () => {
    const refusedSite = async (t: TestContext, member: Partial<Member> = {}) => {
      const site = await agentsSite(t);
      await site.join('crane-1', { notAfterMs: site.clock.now() + 7 * day, ...member });
      await site.reconcile('crane-1');
      const refusal = {
        atMs: site.clock.now(),
        serial: '01',
        why: 'generation 1',
        address: '192.0.2.1',
      };
      const encode = () => Buffer.from(JSON.stringify(refusal));
      await site.store.commit({
        put: [{ collection: 'trust.member-refusals', name: 'agent/crane-1', encode }],
      });
      const again = await site.reconcile('crane-1');
      const condition = async () => {
        const conditions = (await site.client.get('crane-1'))?.status?.conditions ?? [];
        return conditions.find(({ type }) => type === 'OldSVIDRefused');
      };
      return { site, again, condition };
    };

    test('says so for a day', async (t) => {
      const { site, again, condition } = await refusedSite(t);
      const found = await condition();
      assert.equal(found?.status, 'True');
      assert.match(found.message ?? '', /from 192\.0\.2\.1: generation 1\. Its data folder/);
      assert.deepEqual(again, { requeueAfterMs: day });
      await site.clock.advance(day - 1);
      await site.reconcile('crane-1');
      assert.equal((await condition())?.status, 'True');
      await site.clock.advance(1);
      for (let run = 0; run < 2; run++) await site.reconcile('crane-1');
      assert.equal((await condition())?.status, 'False');
    });

    test('says so until an operator reinstates it', async (t) => {
      const { site, condition } = await refusedSite(t, { conflictedAtMs: 1, conflict: 'x' });
      assert.equal((await condition())?.status, 'True');
      assert.equal(await site.members.reinstate('agent/crane-1', []), true);
      await site.reconcile('crane-1');
      assert.equal((await condition())?.status, 'False');
    });
  });
});

suite('forgetting an agent', () => {
  const absent = (site: Awaited<ReturnType<typeof agentsSite>>, name: string): boolean =>
    recordsOf(`agent/${name}`).every(
      (record) => site.store.get(record.collection, record.name) === undefined,
    );

  test('by deleting its object removes every record of it in one commit', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    await site.connect('crane-1');
    await site.reconcile('crane-1');
    await site.forget('crane-1');
    assert.ok(absent(site, 'crane-1'));
    const deletion = site.records.find(({ verb }) => verb === 'agent.delete');
    assert.match(deletion?.reason ?? '', /its SVID is rejected, and its name is free/);
    await site.reconcile('crane-1');
    assert.equal(await site.client.get('crane-1'), undefined);
  });

  test('by its record removes its object in the same commit', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { zone: 'harbour' } });
    await site.reconcile('crane-1');
    await site.members.forget('agent/crane-1', []);
    assert.ok(absent(site, 'crane-1'));
  });

  test('lets the name join again without the old labels, however soon', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { zone: 'harbour' } });
    await site.reconcile('crane-1');
    await site.forget('crane-1');
    // Before the controller looks again.
    await site.join('crane-1');
    await site.reconcile('crane-1');
    const agent = await site.client.get('crane-1');
    assert.equal(agent?.metadata.labels, undefined);
  });

  test('and joining again while the controller creates the object uses no old labels', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { zone: 'harbour' } });
    // The creation has read the old record when the new one is committed.
    const replacing = site.join('crane-1', { serial: '02' });
    await Promise.all([replacing, site.reconcile('crane-1')]);
    assert.equal(await site.client.get('crane-1'), undefined);
    await site.reconcile('crane-1');
    const agent = await site.client.get('crane-1');
    assert.ok(agent);
    assert.equal(agent.metadata.labels, undefined);
  });

  test('with a finalizer happens at once, and leaves a machine that joined later alone', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { zone: 'harbour' } });
    await site.reconcile('crane-1');
    const as = { controller: 'test' };
    await site.client.ensureFinalizer('crane-1', 'example.com/hold', as);
    await site.forget('crane-1');
    assert.equal(site.members.get('agent/crane-1'), undefined);
    await site.join('crane-1');
    await site.reconcile('crane-1');
    // The object that waits has the old labels. It counts for nothing.
    assert.deepEqual(site.assignments.entriesOf('crane-1'), []);
    await site.client.removeFinalizer('crane-1', 'example.com/hold', as);
    assert.notEqual(site.members.get('agent/crane-1'), undefined);
    await site.reconcile('crane-1');
    assert.equal((await site.client.get('crane-1'))?.metadata.labels, undefined);
  });

  test('does not work for the machine of the site', async (t) => {
    const site = await agentsSite(t);
    await site.reconcile('site');
    await assert.rejects(
      site.forget('site'),
      (error) =>
        hasCode(error, 'HANSA_FORBIDDEN') && /machine of the site itself/.test(error.message),
    );
    assert.notEqual(await site.client.get('site'), undefined);
  });
});

suite('an Agent that nobody joined as', () => {
  test('cannot be created by hand, and the error says how to join', async (t) => {
    const site = await agentsSite(t);
    const object = {
      apiVersion: 'hansa.dev/v1alpha1',
      kind: 'Agent',
      metadata: { name: 'crane-1' },
      spec: {},
    };
    await assert.rejects(
      site.writer.create(agentKind, object, site.context),
      (error) =>
        hasCode(error, 'HANSA_INVALID') &&
        /no machine has joined under this name\..*hansa agent run --name crane-1/.test(
          error.message,
        ),
    );
  });

  test('goes away if its record is missing', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    await site.reconcile('crane-1');
    // As a damaged backup would.
    await site.store.commit({ delete: [{ collection: membersCollection, name: 'agent/crane-1' }] });
    await site.reconcile('crane-1');
    assert.equal(await site.client.get('crane-1'), undefined);
  });
});

suite('the Agent of the site', () => {
  test('exists from the start, and is Connected', async (t) => {
    const site = await agentsSite(t);
    const keys: string[] = [];
    const running = (site.controller?.sources ?? []).map((source) =>
      source.start({ add: (key) => keys.push(key), ended: () => undefined }),
    );
    for (const one of running) one.stop();
    assert.deepEqual(keys, ['site']);
    for (let run = 0; run < 2; run++) await site.reconcile('site');
    const { revision } = site.store;
    await site.clock.advance(30_000);
    assert.deepEqual(await site.reconcile('site'), { requeueAfterMs: 30_000 });
    assert.equal(site.store.revision, revision);
    const status = (await site.client.get('site'))?.status;
    assert.equal(status?.state, 'Connected');
    assert.equal(status.workloads, 2);
    assert.equal(status.version, '1.2.3');
    assert.equal(status.lastSeenAt, timestamp(site.clock.now()));
  });

  test('replaces a machine that joined under this name with an earlier version', async (t) => {
    const site = await agentsSite(t);
    await site.join('site', { labels: { zone: 'harbour' } });
    for (let run = 0; run < 3; run++) await site.reconcile('site');
    assert.equal(site.members.get('agent/site'), undefined);
    const agent = await site.client.get('site');
    assert.equal(agent?.metadata.labels, undefined);
    assert.equal(agent?.status?.state, 'Connected');
    assert.match(
      site.records.find(({ verb }) => verb === 'agent.forget')?.reason ?? '',
      /reserved for the machine of the site/,
    );
  });

  test('is kept by the holder of the lease, who records its epoch for the agents', async (t) => {
    const site = await agentsSite(t);
    const lease = site.controller?.lease ?? '';
    for (const holder of ['one', 'two']) {
      const held = await site.store.leases.acquire(lease, holder, 1000);
      assert.ok(held);
      await site.reconcile('site', held.epoch);
      assert.equal(agentEpoch(site.store), held.epoch);
      await site.store.leases.release(lease, holder, held.epoch);
    }
  });

  test('can be labelled', async (t) => {
    const site = await agentsSite(t);
    await site.reconcile('site');
    await site.writer.update(
      agentKind,
      'site',
      undefined,
      { ...site.context, verb: 'update' },
      labelled({ zone: 'harbour' }),
    );
    await site.reconcile('site');
    assert.deepEqual((await site.client.get('site'))?.metadata.labels, { zone: 'harbour' });
  });
});

suite('what is known of agents', () => {
  test('includes the number of their entries, without a commit per agent', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1', { labels: { zone: 'harbour' } });
    await site.reconcile('crane-1');
    await site.reconcile('site');
    const { revision } = site.store;
    await put(site.store, 'workloadentries', 'web', { spec: {} });
    await put(site.store, 'workloadentries', 'crane', {
      spec: { agents: { selector: { matchLabels: { zone: 'harbour' } } } },
    });
    await site.clock.advance(1000);
    const entriesOf = async (name: string) => (await site.client.get(name))?.status?.entries;
    assert.deepEqual([await entriesOf('site'), await entriesOf('crane-1')], [1, 1]);
    assert.equal(site.store.revision, revision + 2);
    await site.store.commit({ delete: [{ collection: 'workloadentries', name: 'crane' }] });
    await site.clock.advance(1000);
    assert.equal(await entriesOf('crane-1'), 0);
  });

  test('is a metric by state', async (t) => {
    const site = await agentsSite(t);
    await site.join('crane-1');
    for (let run = 0; run < 2; run++) {
      await site.reconcile('crane-1');
      await site.reconcile('site');
    }
    const text = site.metrics.expose();
    assert.match(text, /hansa_agents\{state="Joined"\} 1\n/);
    assert.match(text, /hansa_agents\{state="Connected"\} 1\n/);
    assert.match(text, /hansa_agents\{state="Conflicted"\} 0\n/);
  });
});

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { agentKind } from '../../api/kinds/agent.ts';
import { type JoinToken, joinTokenKind } from '../../api/kinds/join-token.ts';
import { workloadEntryKind } from '../../api/kinds/workload-entry.ts';
import { apiVersion } from '../../api/object.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { ObjectDraft } from '../../server/resources/object-of.ts';
import { entriesByName } from '../agents/former-agents.ts';
import { agentsSite } from '../agents/test-agents-site.ts';
import type { WorkloadEntry } from '../workload/entries/matching-entries.ts';

suite('forgetting an agent', () => {
  test('leaves the entries of the name to the machine that a later token names', async (t) => {
    const site = await agentsSite(t);
    const spec = {
      method: 'secret' as const,
      roles: ['agent' as const],
      agentName: 'crane-1',
      expiresAt: '2099-01-01T00:00:00Z',
    };
    const as = { controller: 'test' };
    const tokens = site.resources<JoinToken>(joinTokenKind);
    const entries = site.resources<WorkloadEntry>(workloadEntryKind);
    const earlier = await tokens.create({ name: 'earlier', spec }, as);
    await entries.create(
      {
        name: 'web',
        spec: {
          spiffeID: 'spiffe://lubeck.example/web',
          selectors: ['unix:uid:1000'],
          federatesWith: [],
          ttlSeconds: 3600,
          agents: { names: ['crane-1'] },
        },
      },
      as,
    );
    const { store } = site;
    const isGiven = ({ metadata: { uid } }: JoinToken): boolean =>
      entriesByName(store, 'crane-1', { uid }).isGiven;
    /** As the join service does. */
    const join = async (token: JoinToken): Promise<readonly string[]> => {
      await site.join('crane-1', isGiven(token) ? {} : { entriesByName: false });
      await site.reconcile('crane-1');
      await site.reconcile('crane-1');
      return site.assignments.entriesOf('crane-1');
    };
    assert.deepEqual(await join(earlier), ['web']);
    await site.forget('crane-1');
    assert.deepEqual(await join(earlier), []);
    const found = (await site.client.get('crane-1'))?.status?.conditions;
    assert.match(
      found?.find(({ type }) => type === 'EntriesByName')?.message ?? '',
      /Another machine was crane-1 before, and was forgotten/,
    );
    const later = await tokens.create({ name: 'later', spec }, as);
    // Not yet: the machine has joined with the other token.
    assert.deepEqual(site.assignments.entriesOf('crane-1'), []);
    await site.members.forget('agent/crane-1', []);
    // The consent was for the machine that has been forgotten meanwhile.
    assert.equal(isGiven(later), false);
    const newest = await tokens.create({ name: 'newest', spec }, as);
    assert.deepEqual([isGiven(earlier), isGiven(later), isGiven(newest)], [false, false, true]);
    assert.deepEqual(await join(newest), ['web']);
  });

  test('leaves the entries of the name until someone who may write entries gives them', async (t) => {
    const site = await agentsSite(t);
    const members = { entriesByName: false } as const;
    await site.join('crane-1', members);
    const agent = { apiVersion, kind: 'Agent', metadata: { name: 'crane-1' } };
    for (const spec of [{}, { entriesByName: true }]) {
      await assert.rejects(
        site.writer.create(agentKind, { ...agent, spec }, site.context),
        (error) => hasCode(error, 'HANSA_INVALID') && /entriesByName: .*false/.test(error.message),
      );
    }
    await site.reconcile('crane-1');
    assert.equal((await site.client.get('crane-1'))?.spec?.entriesByName, false);
    const named = { spec: { agents: { names: ['crane-1'] } } };
    assert.deepEqual(site.assignments.agentsFor(named), []);
    assert.deepEqual(site.assignments.newcomersOf(named), ['crane-1']);
    await site.writer.update(
      agentKind,
      'crane-1',
      undefined,
      { ...site.context, verb: 'update' },
      (live) => ({ ...(live as ObjectDraft), spec: { entriesByName: true } }),
    );
    assert.deepEqual(site.assignments.agentsFor(named), ['crane-1']);
    await site.reconcile('crane-1');
    const found = (await site.client.get('crane-1'))?.status?.conditions;
    assert.equal(
      found?.find(({ type }) => type === 'EntriesByName'),
      undefined,
    );
  });

  test('of a hundred agents at once fits in the commits', async (t) => {
    const site = await agentsSite(t);
    const names = Array.from({ length: 100 }, (_, at) => `crane-${at}`);
    for (const name of names) await site.join(name);
    const row = { encode: () => Buffer.from('{}') };
    await site.members.forgetAll(
      names.map((name) => `agent/${name}`),
      names.map(() => row),
    );
    assert.equal(site.members.counts.agent, 0);
    for (const name of names) {
      assert.equal(entriesByName(site.store, name, { uid: 'any' }).isGiven, false);
    }
  });
});

// The steps of an acceptance and their outcomes, at both sides.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { withErrorCode } from '../../core/store/conformance/harness.ts';
import { peeringError } from '../errors.ts';
import {
  acceptanceAnswer,
  acceptanceSteps,
  completed,
  type SoftSteps,
  type StepOutcome,
  withSteps,
} from './acceptance.ts';
import type { Acceptor } from './acceptor.ts';
import { documentOf, testIdentity } from './test-handshake.ts';
import { testAcceptance, type TestPeerSite, testPeerSite } from './test-peer-site.ts';

const name = 'bruges.example';
const { signal } = new AbortController();
const document = documentOf([await testIdentity(name)]);
const operator = {
  caller: { user: 'alice', groups: [], via: 'certificate' },
  origin: {},
} as const;

const acceptanceOf = async (site: TestPeerSite) => (await site.peers.get(name))?.status?.acceptance;
const outcomesOf = async (site: TestPeerSite) =>
  Object.fromEntries(
    ((await acceptanceOf(site))?.steps ?? []).map(({ step, outcome }) => [step, outcome]),
  );
const accepts: Acceptor['redeem'] = () =>
  Promise.resolve({ state: 'accepted', contractVersion: 1, document });

async function invited(
  redeem: Acceptor['redeem'],
  soft: Partial<SoftSteps> = {},
): Promise<TestPeerSite> {
  const site = await testPeerSite({ redeem }, soft);
  await testAcceptance(site, name);
  await site.handshake.reconcile(name, signal);
  return site;
}

suite('an acceptance', () => {
  test('records each step with its outcome, and says why it skipped one', async () => {
    const site = await invited(accepts);
    const { steps = [], warnings } = (await acceptanceOf(site)) ?? {};
    assert.deepEqual(
      steps.map(({ step, need, outcome, message }) => [step, need, outcome, message]),
      [
        ['contract', 'hard', 'done', 'version 1'],
        ['invitation', 'hard', 'done', undefined],
        ['accept', 'hard', 'done', undefined],
        ['enrol', 'hard', 'done', 'the sites exchanged their bundles'],
        [
          'grants',
          'hard',
          'skipped',
          'a symmetric peer gets only the grants that operators create',
        ],
        ['attach', 'soft', 'skipped', 'this site has no overlay'],
        ['governance', 'soft', 'skipped', 'this site has no governance scan'],
      ],
    );
    assert.equal(warnings, undefined);
    assert.match(site.rows.at(-1)?.verb ?? '', /^federation\.peer\.accepted$/);
  });

  test('goes on where a soft step fails, and warns of it and of what the peer said', async () => {
    const site = await invited(
      async (...of) => ({ ...(await accepts(...of)), warnings: ['old'] }),
      {
        attach: () => Promise.reject(peeringError('HANSA_PEER_UNREACHABLE', 'no route')),
        governance: async () => ({ outcome: 'done', warnings: ['its certificate expires soon'] }),
      },
    );
    assert.equal((await site.peers.get(name))?.status?.state, 'enrolled');
    const { attach, governance } = await outcomesOf(site);
    assert.deepEqual([attach, governance], ['failed', 'done']);
    assert.deepEqual((await acceptanceOf(site))?.warnings, [
      'attach failed: no route',
      'its certificate expires soon',
      'bruges.example: old',
    ]);
    assert.match(site.rows.at(-1)?.reason ?? '', /warnings: attach failed: no route/);
  });

  test('takes no soft step before the peer is enrolled, and none twice', async () => {
    const calls: string[] = [];
    const soft = (step: string) => async (): Promise<StepOutcome> => {
      calls.push(step);
      return { outcome: 'done' };
    };
    let state: 'pending' | 'accepted' = 'pending';
    const site = await invited(async (...of) => ({ ...(await accepts(...of)), state }), {
      attach: soft('attach'),
      governance: soft('governance'),
    });
    assert.deepEqual(calls, []);
    state = 'accepted';
    for (let round = 0; round < 3; round++) await site.handshake.reconcile(name, signal);
    assert.deepEqual(calls, ['attach', 'governance']);
  });

  test('stops at the hard step that failed', async () => {
    for (const [error, step] of [
      [peeringError('HANSA_CONTRACT_VERSION', 'no version in common'), 'contract'],
      [peeringError('HANSA_INVITATION_UNKNOWN', 'unknown'), 'invitation'],
      [peeringError('HANSA_TRUST_MATERIAL', 'no bundle'), 'enrol'],
    ] as const) {
      const site = await invited(() => Promise.reject(error));
      assert.equal((await site.peers.get(name))?.status?.state, 'revoked');
      assert.deepEqual(await outcomesOf(site), { [step]: 'failed' });
      assert.ok(!site.rows.some(({ verb }) => verb === 'federation.peer.accepted'));
    }
  });

  test('waits at enrol while another federation has the name, and then goes on', async () => {
    const site = await testPeerSite({ redeem: accepts });
    const spec = {
      bundleSource: { static: { bundle: document } },
      staleAfterSeconds: 3600,
      quarantined: false,
    };
    await site.federations.create({ name, spec }, { controller: 'someone' });
    await testAcceptance(site, name);
    await site.handshake.reconcile(name, signal);
    assert.equal((await outcomesOf(site))['enrol'], 'failed');
    assert.equal((await acceptanceOf(site))?.completedAt, undefined);
    await site.federations.delete(name, { controller: 'someone' });
    await site.handshake.reconcile(name, signal);
    assert.equal((await outcomesOf(site))['enrol'], 'done');
    assert.notEqual((await acceptanceOf(site))?.completedAt, undefined);
  });

  test('tells the acceptor the outcomes of this site', async () => {
    const site = await testPeerSite(
      {},
      {
        attach: () => Promise.reject(peeringError('HANSA_PEER_UNREACHABLE', 'no route')),
      },
    );
    await site.redeem(name, {}, { bundle: document });
    const peer = await site.handshake.admit(name);
    assert.deepEqual(acceptanceAnswer(peer?.status?.acceptance), {
      node_enrollment: null,
      attach: { outcome: 'failed', message: 'no route' },
      governance: { outcome: 'skipped', message: 'this site has no governance scan' },
      warnings: ['attach failed: no route'],
    });
  });

  test('is not made up for a peer of an earlier version', async () => {
    const site = await invited(accepts);
    await site.peers.note(name, ({ acceptance: _none, ...status }) => status);
    const { revision } = site.store;
    await site.handshake.reconcile(name, signal);
    assert.equal(site.store.revision, revision);
  });
});

suite('a retry', () => {
  test('repeats the soft steps that are not done, for the operator who asked', async () => {
    let isAway = true;
    let scans = 0;
    const site = await invited(accepts, {
      attach: async () => {
        if (isAway) throw peeringError('HANSA_PEER_UNREACHABLE', 'no route');
        return { outcome: 'done' };
      },
      governance: async () => ({ outcome: 'done', message: `scan ${++scans}` }),
    });
    await site.handshake.retry(name, operator);
    assert.deepEqual((await acceptanceOf(site))?.warnings, ['attach failed: no route']);
    isAway = false;
    await site.handshake.retry(name, operator);
    const { attach } = await outcomesOf(site);
    assert.equal(attach, 'done');
    assert.equal((await acceptanceOf(site))?.warnings, undefined);
    assert.equal(scans, 1);
    const { verb, actor, reason } = site.rows.at(-1) ?? {};
    assert.deepEqual([verb, actor?.user], ['peer.retry', 'alice']);
    assert.match(reason ?? '', /attach done, governance done/);
  });

  test('keeps what the peer warned of', async () => {
    const site = await invited(async (...of) => ({
      ...(await accepts(...of)),
      warnings: ['old'],
    }));
    await site.handshake.retry(name, operator);
    assert.deepEqual((await acceptanceOf(site))?.warnings, ['bruges.example: old']);
  });

  test('makes up no acceptance for a peer of an earlier version', async () => {
    const site = await invited(accepts);
    await site.peers.note(name, ({ acceptance: _none, ...status }) => status);
    await site.handshake.retry(name, operator);
    assert.equal(await acceptanceOf(site), undefined);
  });

  test('is refused for a peer that is not live, and for none', async () => {
    const site = await invited(() =>
      Promise.reject(peeringError('HANSA_INVITATION_REFUSED', 'for the test')),
    );
    await assert.rejects(site.handshake.retry(name, operator), withErrorCode('HANSA_PEER_STATE'));
    await assert.rejects(
      site.handshake.retry('nobody.example', operator),
      withErrorCode('HANSA_NOT_FOUND'),
    );
  });
});

suite('the outcomes in a status', () => {
  const outcomes = fc.constantFrom<StepOutcome>(
    { outcome: 'done' },
    { outcome: 'skipped', message: 'x' },
    { outcome: 'failed', message: 'y'.repeat(600) },
  );
  const steps = fc.constantFrom(...acceptanceSteps.map(({ step }) => step));

  test('keep the order of the steps and fit the schema, in whatever order they come', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(steps, outcomes)), (changes) => {
        let status: Parameters<typeof withSteps>[0] = {};
        for (const [step, outcome] of changes) status = withSteps(status, { [step]: outcome }, 0);
        const order = acceptanceSteps.map(({ step }) => step);
        const places = (status.acceptance?.steps ?? []).map(({ step }) => order.indexOf(step));
        assert.deepEqual(
          places,
          [...new Set(places)].toSorted((a, b) => a - b),
        );
        for (const { message = '' } of status.acceptance?.steps ?? []) {
          assert.ok(message.length <= 512);
        }
      }),
    );
  });

  test('bound the warnings of a peer', () => {
    const many = Array.from({ length: 100 }, (_, i) => `${i} ${'w'.repeat(600)}`);
    const none = { outcome: 'done' } as const;
    const { acceptance } = completed({}, { attach: none, governance: none }, many, 0);
    assert.equal(acceptance?.warnings?.length, 32);
    assert.ok(acceptance.warnings.every((text) => text.length <= 512));
  });
});
